"""A resumed training stops when an uninterrupted one stops."""

import re

import fairseq_cli.train
import pytest
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from in_process import run_tool

from cli import TINY, USER_DIR


@pytest.fixture
def train(tiny_data, tmp_path):
    """Trains to an epoch, with a learning rate at which nothing improves; returns the epochs that ended."""

    def run(epochs, rate=0.0, *options):
        command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd"]
        command += ["--batch-size", 100, "--max-epoch", epochs, "--no-epoch-checkpoints", "--patience", 3]
        done = run_tool(*command, "--lr", rate, "--save-dir", tmp_path / "run", *options)
        return [int(epoch) for epoch in re.findall(r"end of epoch (\d+) ", done.stdout)]

    return run


def test_counts_on_after_each_interruption(train):
    assert train(2) == [1, 2]
    assert train(3) == [3]
    assert train(9) == [4], "the best epoch and three without an improvement"


def test_a_fine_tuning_counts_from_zero(train, tmp_path):
    train(3)
    (tmp_path / "run" / "checkpoint_last.pt").rename(tmp_path / "other.pt")
    assert train(9, 0.0, "--finetune-from-model", tmp_path / "other.pt") == [1, 2, 3, 4]


def test_the_best_of_all_validations_is_kept(train, tmp_path):
    """Here the first one, after which nothing is saved: the loss falls, and the highest one is wanted."""
    options = ["--validate-interval-updates", 1, "--maximize-best-checkpoint-metric", "--batch-size", 20]
    options += ["--patience", 99]
    train(1, 1.0, *options)
    stop = fairseq_cli.train.should_stop_early
    best, count = stop.best, stop.num_runs
    saved = load_checkpoint_to_cpu(str(tmp_path / "run" / "checkpoint_last.pt"))["extra_state"]
    assert best > saved["best"] and count > 0
    assert train(1, 1.0, *options) == [], "nothing is left to do"
    assert (stop.best, stop.num_runs) == (best, count)
