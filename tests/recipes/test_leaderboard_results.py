"""The results of a run: which epoch the best checkpoint is of."""

import pytest
import torch

from fairseq_attn_plugin.recipes.leaderboard.results import _training

LINE = "2026-01-01 | INFO | valid | epoch {:03d} | valid on 'valid' subset | ppl {} | num_updates {}\n"
VALIDATIONS = [(1, 9.5, 10), (1, 8.5, 15), (2, 7.5, 20), (2, 8.0, 25), (2, 6.5, 30)]  # epoch, perplexity, updates


@pytest.mark.parametrize(
    ("updates", "iterator", "epoch", "perplexity"),
    [(15, (2, 0), 1, 8.5), (20, (2, 5), 2, 7.5), (30, (3, 0), 2, 6.5)],
    ids=["end of epoch 1", "within epoch 2", "end of epoch 2"],
)
def test_the_epoch_of_the_best_checkpoint_is_not_a_number_of_validations(
    updates, iterator, epoch, perplexity, tmp_path
):
    log, best = tmp_path / "train.log", tmp_path / "checkpoint_best.pt"
    log.write_text("".join(LINE.format(*one) for one in VALIDATIONS))
    state = {"version": 2, "epoch": iterator[0], "iterations_in_epoch": iterator[1], "shuffle": True}
    history = {"num_updates": updates, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}
    content = {"args": None, "cfg": None, "model": {"weight": torch.zeros(1)}, "optimizer_history": [history]}
    torch.save({**content, "extra_state": {"train_iterator": state}}, best)
    assert _training(log, best) == {
        **{"updates": 30, "best_updates": updates, "best_epoch": epoch, "valid_perplexity": perplexity},
        "valid_perplexities": {"1": 8.5, "2": 6.5},
    }
