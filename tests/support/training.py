"""One way to train tiny models with the real tools, and to translate with them, in the process of the tests.

``train`` runs ``fairseq-train`` on the tiny corpus for a given number of updates; ``generate`` sorts what
``fairseq-generate`` prints. Models that only have to exist come from the zoo (:mod:`zoo`): they are trained once for
the whole run.
"""

import json
import re
from pathlib import Path
from typing import Dict, List, NamedTuple

from cli import USER_DIR

SIZES = (
    "--encoder-embed-dim 32 --encoder-hidden-size 32 --encoder-layers 1 --encoder-bidirectional "
    "--decoder-embed-dim 32 --decoder-hidden-size 64 --decoder-layers 1 --decoder-out-embed-dim 32"
).split()
TRAINING = (
    "--optimizer adam --lr 0.01 --clip-norm 1 --batch-size 20 --dropout 0 --seed 1 --cpu --num-workers 0 "
    "--no-epoch-checkpoints --no-progress-bar --log-interval 1000"
).split()

Lines = Dict[str, Dict[int, List[str]]]


class Trained(NamedTuple):
    """A folder of checkpoints, and what the training printed."""

    folder: Path
    log: str

    @property
    def last(self) -> Path:
        return self.folder / "checkpoint_last.pt"

    @property
    def best(self) -> Path:
        return self.folder / "checkpoint_best.pt"

    @property
    def validations(self) -> List[Dict[str, float]]:
        """The lines of validation, oldest first; for trainings with ``--log-format json``."""
        found = [json.loads(line.split("| valid | ")[1]) for line in self.log.splitlines() if "| valid |" in line]
        return [{name: float(value) for name, value in line.items()} for line in found]


def training_command(data: object, folder: object, *options: object, updates: int = 400) -> "list[object]":
    """``fairseq-train`` with the budget of a tiny model; an option that is given twice counts the last time."""
    command = ["fairseq-train", data, "--user-dir", USER_DIR, "--save-dir", folder, *TRAINING]
    return [*command, "--max-update", updates, *options]


def train(data: object, folder: Path, *options: object, updates: int = 400) -> Trained:
    from in_process import run_tool  # imports torch, which collecting the tests does not wait for

    return Trained(folder, run_tool(*training_command(data, folder, *options, updates=updates)).stdout)


def generate(data: object, checkpoint: object, *options: object) -> Lines:
    """Lines of fairseq-generate by their kind and sentence: {"H": {0: [...]}, "A": ..., "T": ...}."""
    from in_process import run_tool

    command = ["fairseq-generate", data, "--user-dir", USER_DIR, "--path", checkpoint, "--gen-subset", "test", "--cpu"]
    result: Lines = {}
    for line in run_tool(*command, "--no-progress-bar", *options).stdout.splitlines():
        match = re.match(r"([A-Z])-(\d+)\t(.*)", line)
        if match:
            result.setdefault(match[1], {})[int(match[2])] = match[3].split("\t")
    return result


def right_lines(lines: Lines) -> List[int]:
    """The sentences whose first hypothesis is the reference."""
    return [i for i in lines["T"] if lines["H"][i][1] == lines["T"][i][0]]
