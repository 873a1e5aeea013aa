"""Recipes with stand-ins of their tools, which record their words: what a shell file calls, without calling it."""

import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Tuple

from cli import REPO

RECIPES = REPO / "scripts" / "recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*.sh"))
TOOL = f"""#!{sys.executable} -S
import json, os, sys
words = sys.argv[1:]
with open(os.environ["RECORDED"], "a") as stream:
    stream.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")
value = lambda name: words[words.index(name) + 1]
def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as stream:
        stream.write('{{"accuracy": 1.0}}')
if words[0] == "prepare":
    os.makedirs(value("--out"), exist_ok=True)
elif "--save-dir" in words:
    write(value("--save-dir") + "/checkpoint_best.pt")
else:
    for option in ("--destdir", "--out", "--plot", "--scores"):
        if option in words:
            write(value(option) + ("/dict" if option == "--destdir" else ""))
print("H-0\\t-1\\ttokén s\\nD-0\\t-1\\ttokens" if "fairseq-generate" in sys.argv[0] else '{{"accuracy": 1.0}}')
"""


def record(name: str, folder: Path, *options: str, check: bool = True, **variables: str) -> Any:
    """Runs a recipe in ``folder`` with stand-ins; gives the process with ``commands``, the words of each command."""
    tools, recorded = folder / "tools", folder / "recorded.jsonl"
    tools.mkdir(exist_ok=True)
    for tool in ("fairseq-attn", "fairseq-preprocess", "fairseq-train", "fairseq-generate", "sacrebleu", "python3"):
        (tools / tool).write_text(TOOL)
        (tools / tool).chmod(0o755)
    recorded.write_text("")
    environment = {"PATH": f"{tools}:{os.defpath}", "RECORDED": str(recorded), "OUT": str(folder / "out"), **variables}
    command = ["bash", str(RECIPES / f"{name}.sh"), *options]
    done: Any = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    done.commands = [json.loads(line) for line in recorded.read_text().splitlines()]
    return done


@lru_cache(maxsize=None)
def train_command(name: str, *options: str, **variables: str) -> Tuple[str, ...]:
    """The words behind ``fairseq-train DATA`` of the first training of a recipe, which is run once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        commands = record(name, Path(folder), *options, **variables).commands
    return tuple(next(words for words in commands if words[0] == "fairseq-train")[2:])
