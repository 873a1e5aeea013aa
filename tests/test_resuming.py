"""A training that is killed at any update, and started again by the same command, ends as an uninterrupted one."""

import pytest
from in_process import run_tool
from resuming import command, differences, train_and_die

from cli import TINY


@pytest.mark.parametrize("arch", TINY)
def test_ends_as_an_uninterrupted_training(arch, tiny_data, tmp_path):
    run_tool(*command(tiny_data, arch, tmp_path / "whole"))
    # the end of an epoch and a place within one are saved; the first kill is before the first checkpoint
    for update in (2, 5, 8, 12):
        train_and_die(command(tiny_data, arch, tmp_path / "parts"), update)
    run_tool(*command(tiny_data, arch, tmp_path / "parts"))
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "checkpoint2.pt", "checkpoint_2_9.pt"):
        assert differences(tmp_path / "whole" / name, tmp_path / "parts" / name) == []
