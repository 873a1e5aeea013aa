"""The commands of README.md and of the page "From fairseq" run as they stand; results of the README were measured."""

import re
import statistics

import pytest

from fairseq_attn_plugin.analysis.inference.translation import MOST_CHARACTERS
from fairseq_attn_plugin.analysis.web.explore import FIRST
from fairseq_attn_plugin.analysis.web.server import MOST_BYTES

from documentation import REPO, fenced, run_script, runs_of

PAGE = REPO / "docs/start/from-fairseq.md"
SMALL = """
small='--encoder-embed-dim 16 --encoder-hidden-size 16 --decoder-embed-dim 16 --decoder-hidden-size 16 --max-epoch 3'
fairseq-train() { command fairseq-train "$@" $small --decoder-out-embed-dim 16 --no-progress-bar > train.log; }
"""


@pytest.fixture
def texts(tiny_data, tmp_path):
    """Text of two languages, with and without subwords."""
    for ours, theirs in (("xx", "de"), ("yy", "en")):
        for split in ("train", "valid", "test"):
            text = (tiny_data.parent / "text" / f"{split}.{ours}").read_text()
            for name in (f"{split}.{theirs}", f"{split}.bpe.{theirs}"):
                (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_commands_of_the_readme_run(texts, warm_path):
    block = next(block for block in fenced(REPO / "README.md", "bash") if "fairseq-train" in block)
    script = block.replace("source .venv/bin/activate\n", "")
    assert script != block
    shown = run_script(SMALL + script, texts, warm_path)
    assert re.search(r"BLEU4? = ", shown) and (texts / "checkpoints/checkpoint_best.pt").is_file()


@pytest.mark.slow
def test_commands_from_fairseq_run(texts, warm_path):
    (texts / "configs").symlink_to(REPO / "configs")
    pieces, hub = fenced(PAGE, "python")
    (texts / "pieces.py").write_text(pieces.replace("vocab_size=2000", "vocab_size=30"))
    (texts / "hub.py").write_text(hub)
    commands = ["python pieces.py", SMALL, *fenced(PAGE, "bash"), "python hub.py > hub.txt"]
    shown = run_script("\n".join(commands), texts, warm_path)
    assert len(re.findall(r"BLEU4? = ", shown)) == 3 and len(re.findall(r"^H-\d+", shown, re.MULTILINE)) == 160
    assert re.fullmatch(r"\['.*'\]\ntorch\.Size\(\[\d+, \d+\]\)\n", (texts / "hub.txt").read_text())
    assert {"spm.model", "bpe.codes", "average.pt", "data", "data-sp", "out"} <= {path.name for path in texts.iterdir()}


def test_results_of_the_readme_are_those_measured():
    text = (REPO / "README.md").read_text(encoding="utf-8").split("\n## Results\n")[1]
    page = (REPO / "docs/results/iwslt15.md").read_text(encoding="utf-8").split("\n## English-Vietnamese\n")[0]
    tables = []
    for lines in (text, page):
        rows = [line.strip("|").split("|") for line in lines.splitlines() if line.startswith("| ")]
        keys = [re.search(r"`(lstm_\w+)`", row[0]) for row in rows]
        numbers = [[cell.strip(" *") for cell in row[1:]] for row in rows]
        tables.append({key[1]: row for key, row in zip(keys, numbers) if key})
    page_rows = {name: [*row[:3], *row[4:]] for name, row in tables[1].items()}  # which has the information as well
    assert tables[0] == page_rows and len(page_rows) == 4
    runs = [run for name in ("lstm_adm", "lstm_soft") for run in runs_of("iwslt15-en-vi", name)]
    scores = [run["bleu"]["tokenized"]["score"] for run in runs]
    assert "`mqt` has {:.2f} and {:.2f} on tst2013, soft attention {:.2f} and {:.2f}".format(*scores) in text
    names = ("lstm_soft", "structured", "lstm_adm")
    means = [_mean(15, name) for name in names] + [_mean(10, name) for name in (*names, "lstm")]
    assert re.findall(r"4\d\.\d\d", text.split("Multi30k German-English")[1]) == means


def _mean(epochs, name):
    runs = runs_of(f"multi30k-de-en-epoch{epochs}-lr3e-3", name)
    assert len(runs) == 3
    return f"{statistics.mean(one['bleu']['tokenized']['score'] for one in runs):.2f}"


def test_limits_of_the_pages_are_those_of_the_code():
    page = (REPO / "docs/analysis/pages.md").read_text(encoding="utf-8")
    assert f"the first {FIRST:,} sentences" in page
    assert f"at most {MOST_BYTES:,} bytes, a text {MOST_CHARACTERS:,} characters" in page
