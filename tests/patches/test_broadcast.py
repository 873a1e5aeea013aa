"""Data-parallel training through fairseq's own DDP: two CPU processes do what one does with the same batch."""

import json
from pathlib import Path
from typing import Dict, List

import pytest
import torch
from in_process import run_tool
from resuming import differences

from cli import TINY, USER_DIR, start_cli

UPDATES = 4
LAST, MIDDLE = "checkpoint_1_4.pt", "checkpoint_1_2.pt"
ARCHITECTURES = ["lstm_adm", "lstm_agreement"]
# trainings of nine updates, five in an epoch
WHOLE, RESUMED, SECOND_EPOCH = "whole", "resumed", "checkpoint_2_6.pt"

# The first training makes the process group, the others find it.
RANK = """
import json, sys
from fairseq_cli.train import cli_main
for command in json.load(open(sys.argv[1])):
    sys.argv = [*command, "--distributed-rank", sys.argv[-1]]
    cli_main()
"""


def command(data: Path, arch: str, save_dir: Path, *options: object) -> List[str]:
    """Plain SGD without dropout or clipping: the update is linear in the gradient, so that sums can be compared."""
    base = ["fairseq-train", data, "--user-dir", USER_DIR, *TINY[arch], "--dropout", 0, "--optimizer", "sgd"]
    base += ["--lr", 0.5, "--max-tokens", 100000, "--max-update", UPDATES, "--save-dir", save_dir, "--batch-size", 40]
    base += ["--no-progress-bar", "--cpu", "--num-workers", 0, "--disable-validation", "--save-interval-updates", 2]
    return [str(item) for item in [*base, *options]]


@pytest.fixture(scope="module")
def trained_on_two(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> "tuple[Path, List[str]]":
    """The folder with the checkpoints of each architecture and of resumed trainings, and the logs of the two ranks."""
    folder = tmp_path_factory.mktemp("two")
    options = ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--distributed-world-size", 2]
    # fairseq's own spawning asks for GPUs
    options += ["--distributed-init-method", (folder / "rendezvous").as_uri(), "--distributed-no-spawn"]
    commands = [command(tiny_data, arch, folder / arch, *options) for arch in ARCHITECTURES]
    options += ["--dropout", 0.2, "--optimizer", "adam", "--lr", 0.01, "--max-update", 9]
    for arch in ARCHITECTURES:
        whole, middle = folder / WHOLE / arch, ["--restore-file", folder / WHOLE / arch / SECOND_EPOCH]
        commands.append(command(tiny_data, arch, whole, *options))
        commands.append(command(tiny_data, arch, folder / RESUMED / arch, *options, *middle))
    (folder / "rank.py").write_text(RANK)
    (folder / "commands.json").write_text(json.dumps(commands))
    ranks = [start_cli(folder / "rank.py", folder / "commands.json", rank) for rank in range(2)]
    try:
        logs = [rank.communicate(timeout=400)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, log in zip(ranks, logs):
        assert rank.returncode == 0, log[-4000:]
    return folder, logs


def parameters(checkpoint: Path) -> Dict[str, torch.Tensor]:
    return {name: value.float() for name, value in torch.load(checkpoint)["model"].items()}


def assert_equal_parameters(one: Path, two: Path, start: Path) -> None:
    """Equal up to float32 rounding, measured by how far training has moved each parameter."""
    a, b, before = parameters(one), parameters(two), parameters(start)
    assert a.keys() == b.keys()
    moved = 0.0
    for name in a:
        difference = (a[name] - b[name]).abs().max().item()
        assert difference < 2e-6, "%s differs by %g" % (name, difference)
        moved = max(moved, (a[name] - before[name]).abs().max().item())
    assert moved > 1e-3, "training moved nothing: the comparison says nothing"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_two_processes_train_as_one(
    arch: str, trained_on_two: "tuple[Path, List[str]]", tiny_data: Path, tmp_path: Path
) -> None:
    """Against one process with the same 2 x 40 sentences by --update-freq 2.

    fairseq deals the batches of an epoch out in turn, to the ranks there, to the parts of an update here.
    """
    two = trained_on_two[0] / arch
    run_tool(*command(tiny_data, arch, tmp_path, "--update-freq", 2))
    assert_equal_parameters(tmp_path / LAST, two / LAST, two / MIDDLE)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_resuming_on_two_processes(arch: str, trained_on_two: "tuple[Path, List[str]]") -> None:
    """Rank 0 reads the checkpoint and sends it to rank 1, which stock fairseq on today's torch cannot receive.

    The resumed training ends as the uninterrupted one, bit by bit, although it begins within the second epoch.
    """
    folder, logs = trained_on_two
    assert any("Loaded checkpoint %s" % (folder / WHOLE / arch / SECOND_EPOCH) in log for log in logs)
    whole, resumed = (folder / kind / arch / "checkpoint_last.pt" for kind in (WHOLE, RESUMED))
    assert differences(whole, resumed) == []
