"""A training whose first validation would fail ends before its first update, or says which option is wrong."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.trainer import Trainer
from in_process import run_tool
from training import training_command

from fairseq_attn_plugin.patches.validation import VALIDATION

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


def test_noise_of_the_training_data_is_that_without_a_look_ahead():
    """Tasks such as ``denoising`` draw the noise of a sentence when it is read, the first validation batch included."""

    def draw(_subset=None):
        return torch.rand(1).item(), np.random.rand()

    dataset = SimpleNamespace(disable_validation=False, valid_subset="valid,test")
    whole = SimpleNamespace(dataset=dataset, common=SimpleNamespace(seed=1), task=None)
    trainer = SimpleNamespace(cfg=whole, _dummy_batch=None, get_valid_iterator=draw)
    load = VALIDATION.wraps["fairseq.checkpoint_utils:load_checkpoint"](lambda cfg, trainer: None)
    drawn = []
    for look in (lambda *_: None, load):
        torch.manual_seed(2)
        np.random.seed(2)
        look(SimpleNamespace(best_checkpoint_metric="loss"), trainer)
        drawn.append(draw())
    assert drawn[0] == drawn[1]
