"""Data-parallel training through fairseq's own DDP: two CPU processes do what one does with the same batch."""

import functools
import socket
from pathlib import Path
from typing import Callable, List

import pytest
import torch

from fairseq_attn_plugin.patches import loading

from cli import TINY, USER_DIR, run_cli, start_cli

UPDATES = 4


def command(data: Path, arch: str, save_dir: Path, *options: object) -> List[object]:
    """Plain SGD without dropout or clipping: the update is linear in the gradient, so that sums can be compared."""
    base = ["fairseq-train", data, "--user-dir", USER_DIR, *TINY[arch], "--dropout", 0, "--optimizer", "sgd"]
    base += ["--lr", 0.5, "--max-tokens", 100000, "--max-update", UPDATES, "--save-dir", save_dir]
    base += ["--no-progress-bar", "--num-workers", 0, "--disable-validation", "--save-interval-updates", 2]
    # a fresh order in every epoch, so that a resumed run sees the sentences that an uninterrupted one sees
    return [*base, "--update-epoch-batch-itr", "True", *options]


def train_on_two(command: List[object]) -> List[str]:
    """Run the command as ranks 0 and 1 of one job; their logs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options: List[object] = ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    options += ["--distributed-init-method", "tcp://127.0.0.1:%d" % port, "--distributed-world-size", 2]
    # fairseq's own spawning asks for GPUs
    options += ["--distributed-no-spawn"]
    ranks = [start_cli(*command, *options, "--distributed-rank", rank) for rank in range(2)]
    try:
        logs = [rank.communicate(timeout=400)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, log in zip(ranks, logs):
        assert rank.returncode == 0, log[-4000:]
    return logs


def parameters(checkpoint: Path) -> "dict[str, torch.Tensor]":
    loading.allow_checkpoint_types()
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


LAST, MIDDLE = "checkpoint_1_4.pt", "checkpoint_1_2.pt"


@pytest.fixture(scope="module")
def trained_on_two(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Asked for an architecture, the folder of its checkpoints; each is trained once, 40 sentences a process."""

    @functools.lru_cache(maxsize=None)
    def folder_of(arch: str) -> Path:
        folder = tmp_path_factory.mktemp("two") / arch
        train_on_two(command(tiny_data, arch, folder, "--batch-size", 40))
        return folder

    return folder_of


@pytest.mark.parametrize("arch", ["lstm_soft", "lstm_adm", "lstm_latent"])
def test_two_processes_train_as_one(
    arch: str, trained_on_two: Callable[[str], Path], tiny_data: Path, tmp_path: Path
) -> None:
    """Against one process with the same 2 x 40 sentences by --update-freq 2.

    fairseq deals the batches of an epoch out in turn, to the ranks there, to the parts of an update here.
    """
    two = trained_on_two(arch)
    run_cli(command(tiny_data, arch, tmp_path, "--batch-size", 40, "--update-freq", 2))
    assert_equal_parameters(tmp_path / LAST, two / LAST, two / MIDDLE)


def test_resuming_on_two_processes(trained_on_two: Callable[[str], Path], tiny_data: Path, tmp_path: Path) -> None:
    """Rank 0 reads the checkpoint and sends it to rank 1, which stock fairseq on today's torch cannot receive."""
    two = trained_on_two("lstm_soft")
    options = ["--batch-size", 40, "--restore-file", two / MIDDLE]
    logs = train_on_two(command(tiny_data, "lstm_soft", tmp_path, *options))
    assert any("Loaded checkpoint %s" % (two / MIDDLE) in log for log in logs)
    assert_equal_parameters(tmp_path / LAST, two / LAST, two / MIDDLE)
