"""A training whose validation would fail says which option is wrong, before its first update where that is known."""

import pytest
from fairseq.trainer import Trainer
from in_process import run_tool
from training import training_command

from cli import TINY


@pytest.mark.parametrize(
    ("options", "line", "updates"),
    [
        ("--max-tokens-valid 3", "--max-tokens 3 (of validation --max-tokens-valid): a sentence is longer", 0),
        ("--max-source-positions 3", "Size of sample #", 0),
        ("--best-checkpoint-metric bleu", "--best-checkpoint-metric bleu: needs --eval-bleu", 0),
        ("--best-checkpoint-metric bleu --eval-bleu", "--best-checkpoint-metric bleu: is best where it is greatest", 0),
        ("--best-checkpoint-metric prior_accuracy", "--best-checkpoint-metric prior_accuracy: is best where it is", 0),
        ("--best-checkpoint-metric pearson", "--best-checkpoint-metric pearson: is best where it is greatest", 0),
        ("--best-checkpoint-metric xyzzy", "--best-checkpoint-metric xyzzy: must be a figure of the validation", 1),
    ],
)
def test_mistakes(options, line, updates, tiny_data, tmp_path, monkeypatch):
    train, done = Trainer.train_step, []
    monkeypatch.setattr(Trainer, "train_step", lambda *args, **more: done.append(1) or train(*args, **more))
    command = training_command(tiny_data, tmp_path, *TINY["lstm_soft"], *options.split(), updates=1)
    failed = run_tool(*command, fails=True)
    assert failed.error.startswith(line) and len(done) == updates
