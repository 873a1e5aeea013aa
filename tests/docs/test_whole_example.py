"""The example of docs/extending.md, from an empty folder to a row of the leaderboard and a picture."""

import json
import re
import subprocess

from cli import REPO, prepare

PAGE = (REPO / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## From an empty folder to the leaderboard\n")[1].split("\n## ")[0]
EXAMPLE = REPO / "docs" / "examples" / "distance_attention" / "__init__.py"


def block(language, text=SECTION):
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL).group(1)


def test_the_page_shows_the_file():
    assert block("python", PAGE) == EXAMPLE.read_text(encoding="utf-8")


def test_the_commands_of_the_page(tmp_path):
    """As they stand, but with one system, a smaller model, a few updates and short translations."""
    (tmp_path / "distance_attention").mkdir()
    (tmp_path / "distance_attention" / "__init__.py").write_text(EXAMPLE.read_text(encoding="utf-8"))
    (tmp_path / "systems.yaml").write_text(block("yaml"))
    small = " ".join(f"--{side}-{size} 16" for side in ("encoder", "decoder") for size in ("embed-dim", "hidden-size"))
    commands = block("bash")
    for text, shorter in (
        ("lstm_soft distance", "distance"),
        ("recipes leaderboard", f"recipes leaderboard -- {small} --decoder-out-embed-dim 16 --max-update 3"),
        ("DATASET=", "GENERATE_OPTIONS='--max-len-b 5 --beam 1' DEVICE=cpu DATASET="),
    ):
        assert text in commands
        commands = commands.replace(text, shorter)
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=tmp_path,
        env=prepare("fairseq-train")[1],
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "attention distance: keeps the contract\nnormalizer tempered: keeps the contract\n" in done.stdout
    (result,) = (tmp_path / "results").rglob("distance.seed1.json")
    assert json.loads(result.read_text())["system"] == "distance"
    assert re.search(r"\| *distance ", (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8"))
    assert (tmp_path / "distance.png").read_bytes().startswith(b"\x89PNG")
