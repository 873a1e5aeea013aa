"""Every stock tool reads the checkpoints that fairseq-train writes, with ``--user-dir`` and without other means."""

import functools
from pathlib import Path
from typing import Callable

import pytest
import torch
from in_process import run_tool

from cli import TINY, USER_DIR, run_cli

STEPS_AN_EPOCH = 2
# the task's own BLEU keeps numpy arrays among the meters of a checkpoint
BLEU = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}', "--best-checkpoint-metric", "bleu"]
ARCHITECTURES = ["lstm", "transformer", "lstm_soft"]


def train(data: Path, arch: str, save_dir: Path, *options: object) -> str:
    """Train with dropout for three epochs, unless the options say otherwise; the log."""
    command = ["fairseq-train", data, "--user-dir", USER_DIR, *TINY[arch], "--dropout", 0.1]
    command += ["--optimizer", "adam", "--lr", 0.005, "--batch-size", 200, "--max-tokens", 2000]
    command += ["--max-epoch", 3, "--save-dir", save_dir, "--no-progress-bar", "--num-workers", 0]
    command += BLEU if arch == "transformer" else []
    # an option given twice counts the last time
    return run_tool(*command, *options).stdout


def generate(data: Path, *options: object) -> str:
    """Translate the test set; stdout."""
    command = ["fairseq-generate", data, "--user-dir", USER_DIR, "--beam", 2, "--max-len-b", 10]
    return run_tool(*command, "--batch-size", 16, *options).stdout


def model_of(checkpoint: Path) -> "dict[str, torch.Tensor]":
    return torch.load(checkpoint)["model"]


def lines(output: str, kind: str) -> "list[str]":
    return [line for line in output.splitlines() if line.startswith(kind + "-")]


@pytest.fixture(scope="module")
def folders(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Asked for an architecture, the folder with its checkpoint1.pt to checkpoint3.pt; each is trained once."""

    @functools.lru_cache(maxsize=None)
    def folder_of(arch: str) -> Path:
        folder = tmp_path_factory.mktemp(arch)
        train(tiny_data, arch, folder)
        return folder

    return folder_of


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_generate_with_an_ensemble_and_alignments(arch: str, folders: Callable[[str], Path], tiny_data: Path) -> None:
    folder = folders(arch)
    paths = "%s:%s" % (folder / "checkpoint2.pt", folder / "checkpoint3.pt")
    output = generate(tiny_data, "--path", paths, "--print-alignment", "hard")
    assert len(lines(output, "H")) == len(lines(output, "A")) == 40
    assert "Generate test with beam=2: BLEU4" in output


def test_interactive_validate_and_finetune(folders: Callable[[str], Path], tiny_data: Path, tmp_path: Path) -> None:
    checkpoint = folders("lstm_soft") / "checkpoint2.pt"

    command = ["fairseq-interactive", tiny_data, "--user-dir", USER_DIR, "--path", checkpoint, "--beam", 2]
    answer = run_tool(*command, "--max-len-b", 10, stdin="ama bel\n\nesk\n").stdout
    assert lines(answer, "S") == ["S-0\tama bel", "S-1\t", "S-2\tesk"]  # an empty line loses nothing
    assert len(lines(answer, "H")) == 3

    command = ["fairseq-validate", tiny_data, "--user-dir", USER_DIR, "--task", "translation"]
    log = run_tool(*command, "--path", checkpoint, "--max-tokens", 500).stdout
    assert "| loss " in log.splitlines()[-1]

    options = ["--max-epoch", 1, "--lr", 0.0, "--finetune-from-model", checkpoint]
    log = train(tiny_data, "lstm_soft", tmp_path, *options)
    assert "loading pretrained model from %s" % checkpoint in log
    # at learning rate zero the parameters that were loaded are those that are saved
    first, second = model_of(checkpoint), model_of(tmp_path / "checkpoint_last.pt")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_plugin_is_what_makes_it_work(folders: Callable[[str], Path], tiny_data: Path) -> None:
    command = ["fairseq-generate", tiny_data, "--path", folders("lstm") / "checkpoint3.pt"]
    done = run_cli(*command, check=False)
    assert done.returncode != 0 and "argparse.Namespace" in done.stderr, (
        "stock fairseq reads its own checkpoints: loading.allow_checkpoint_types may go"
    )
