"""A resumed training has the learning rates of an uninterrupted one."""

import re

import pytest
from fairseq.trainer import Trainer
from in_process import run_tool
from resuming import command, differences, train_and_die

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


def test_a_schedule_that_starts_again_does_not_have_the_metric(rates):
    options = ["--lr-scheduler", "reduce_lr_on_plateau"]
    rates("run", 2, *options)
    assert rates("run", 3, *options, "--optimizer-overrides", "{'lr': 0.4}") == [0.4]
    assert rates("run", 4, *options, "--lr", 0.3, "--reset-optimizer") == [0.3]


@pytest.mark.parametrize(
    "options",
    [
        (
            "polynomial_decay",
            "--warmup-updates",
            4,
            "--force-anneal",
            2,
            "--lr",
            "0.01,0.005",
            "--total-num-update",
            15,
        ),
        ("reduce_lr_on_plateau", "--lr-patience", 2, "--warmup-updates", 2, *FALLS),
        ("decay_after_rise", *FALLS),
    ],
    ids=lambda options: options[0],
)
def test_every_update_has_the_rate_of_an_uninterrupted_training(options, tiny_data, tmp_path, monkeypatch):
    """Within an epoch and at its end, with warm-up and with epochs that count; each rate is taken before its update."""
    rates, step = {}, Trainer.train_step

    def train_step(self, *args, **kwargs):
        rates.setdefault(self.get_num_updates(), []).append(self.get_lr())
        return step(self, *args, **kwargs)

    monkeypatch.setattr(Trainer, "train_step", train_step)
    words = [*command(tiny_data, "lstm_soft", tmp_path / "whole"), "--max-epoch", 4, "--max-update", 20]
    words += ["--lr-scheduler", *options]
    run_tool(*words)
    words += ["--save-dir", tmp_path / "parts"]
    for update in (8, 11, 17):
        train_and_die(words, update)
    run_tool(*words)
    assert all(len(set(of_an_update)) == 1 < len(of_an_update) for of_an_update in rates.values()), rates
    assert len(rates) == 20 and len({of_an_update[0] for of_an_update in rates.values()}) > 1
    assert differences(*(tmp_path / folder / "checkpoint_last.pt" for folder in ("whole", "parts"))) == []
