"""The example of docs/extending.md, from an empty folder to a report and a picture."""

import re

from documentation import REPO, run_script

PAGE = (REPO / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## From an empty folder to a report\n")[1].split("\n## ")[0]
EXAMPLE = REPO / "docs" / "examples" / "distance_attention" / "__init__.py"


def block(language, text=SECTION):
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL).group(1)


def test_the_page_shows_the_file():
    assert block("python", PAGE) == EXAMPLE.read_text(encoding="utf-8")


def test_the_commands_of_the_page(tmp_path, warm_path):
    """As they stand, but with one system, a smaller model, a few updates and short translations."""
    (tmp_path / "distance_attention").mkdir()
    (tmp_path / "distance_attention" / "__init__.py").write_text(EXAMPLE.read_text(encoding="utf-8"))
    (tmp_path / "test_distance.py").write_text(block("python"), encoding="utf-8")
    small = " ".join(f"--{side}-{size} 16" for side in ("encoder", "decoder") for size in ("embed-dim", "hidden-size"))
    corpus = "python -m fairseq_attn_plugin.toy_corpus --out corpus --train 60 --valid 8 --test 8"
    commands = block("bash")
    for text, shorter in (
        ("fairseq-attn recipe toy_corpus prepare", f"{corpus}; DATA=corpus fairseq-attn recipe toy_corpus prepare"),
        ("--max-epoch 18", f"{small} --decoder-out-embed-dim 16 --max-update 3"),
        ("--out report", "--beam 1 --samples 0 --out report"),
    ):
        assert text in commands
        commands = commands.replace(text, shorter)
    assert "2 passed" in run_script(commands, tmp_path, warm_path)
    assert re.search(r"\| *distance ", (tmp_path / "report" / "report.md").read_text(encoding="utf-8"))
    assert (tmp_path / "distance.png").read_bytes().startswith(b"\x89PNG")
