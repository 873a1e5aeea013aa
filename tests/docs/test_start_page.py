"""The table of larger embeddings is that of the trainings."""

from cli import REPO
from documentation import runs


def test_rows_are_the_trainings():
    text = (REPO / "docs/results/start.md").read_text(encoding="utf-8").split("\n## Larger embeddings\n")[1]
    rows = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("| `")]
    expected = []
    for run in runs("multi30k-de-en-embeddings").values():
        other = "" if run["attention"] in ("soft", "mqt", "aqt") else f" --attention {run['attention']}"
        found = {one["updates"]: f"{one['perplexity']:.1f} ({one['information']:.2f})" for one in run["validations"]}
        cells = [f"`{run['arch']}{other}`", f"{run['embed_init_range']:g}", str(run["seed"])]
        cells += [found.get(updates, "") for updates in (120, 240, 338)]
        expected.append("".join(f"| {cell} " if cell else "| " for cell in cells) + "|")
    assert rows[1:] == expected
