"""A training forgets the best scores of the training before it in the same process."""

from fairseq import checkpoint_utils
from fairseq_cli import train
from in_process import run_tool

from fairseq_attn_plugin.patches.resuming import forget_best_scores

from cli import TINY, USER_DIR


def test_a_worse_training_writes_its_best_checkpoint(tiny_data, tmp_path):
    """The second training, which learns nothing, does not beat the first."""
    command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd", "--cpu"]
    command += ["--batch-size", 100, "--max-epoch", 1, "--num-workers", 0, "--no-epoch-checkpoints", "--patience", 1]
    for folder, rate in (("good", 1.0), ("bad", 1e-9)):
        run_tool(*command, "--lr", rate, "--save-dir", tmp_path / folder)
        assert (tmp_path / folder / "checkpoint_best.pt").exists(), folder


def test_scores_are_forgotten():
    checkpoint_utils.save_checkpoint.best = train.should_stop_early.best = 3.0
    train.should_stop_early.num_runs = 2
    forget_best_scores()
    assert not hasattr(checkpoint_utils.save_checkpoint, "best")
    assert not vars(train.should_stop_early)
    forget_best_scores()
