"""A training that is killed at any update, and started again by the same command, ends as an uninterrupted one."""

import pytest
from in_process import run_tool
from resuming import command, differences, train_and_die


@pytest.mark.parametrize("arch", ["transformer", "lstm_soft", "lstm_adm", "lstm_latent", "lstm_agreement"])
def test_ends_as_an_uninterrupted_training(arch, tiny_data, tmp_path):
    whole, parts = (command(tiny_data, arch, tmp_path / name, "--max-epoch", 2) for name in ("whole", "parts"))
    run_tool(*whole)
    # before the first checkpoint; after one within an epoch, and after one at its end
    for update in (2, 5, 6):
        train_and_die(parts, update)
    run_tool(*parts)
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "checkpoint1.pt", "checkpoint_2_9.pt"):
        assert differences(tmp_path / "whole" / name, tmp_path / "parts" / name) == []
