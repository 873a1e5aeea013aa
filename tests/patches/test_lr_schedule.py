"""A resumed training has the learning rates of an uninterrupted one."""

import re

import pytest
from in_process import run_tool

from cli import TINY, USER_DIR

# the loss falls, which is worse and worse where it is to be maximised
FALLS = ["--maximize-best-checkpoint-metric", "--lr-shrink", 0.5]


@pytest.fixture
def rates(tiny_data, tmp_path):
    """Trains to an epoch; returns the learning rate of each epoch that ended."""

    def run(folder, epochs, *options):
        command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd"]
        command += ["--batch-size", 50, "--max-epoch", epochs, "--no-epoch-checkpoints", "--lr", 0.5, *FALLS]
        done = run_tool(*command, "--save-dir", tmp_path / folder, *options)
        return [float(rate) for rate in re.findall(r"\| train \|.*\| lr ([\d.e-]+)", done.stdout)]

    return run


@pytest.mark.parametrize(
    "scheduler, expected",
    [("decay_after_rise", [0.5, 0.5, 0.25, 0.125]), ("reduce_lr_on_plateau", [0.5, 0.5, 0.25, 0.125])],
)
def test_no_epoch_is_lost_or_counted_twice(rates, scheduler, expected):
    options = ["--lr-scheduler", scheduler]
    assert rates("whole", 4, *options) == expected
    # each epoch by a training of its own; the third from within the epoch, too
    assert rates("parts", 1, *options) + rates("parts", 2, *options) == expected[:2]
    assert rates("parts", 3, *options, "--max-update", 20) == expected[2:3]
    assert rates("parts", 3, *options) == expected[2:3]
    assert rates("parts", 4, *options) == expected[3:]


def test_a_schedule_that_starts_again_does_not_have_the_metric(rates):
    options = ["--lr-scheduler", "reduce_lr_on_plateau"]
    rates("run", 2, *options)
    assert rates("run", 3, *options, "--optimizer-overrides", "{'lr': 0.4}") == [0.4]
    assert rates("run", 5, *options, "--reset-optimizer") == [0.5, 0.5]
