"""A training that is interrupted has the sentences, the rates and the end of one that is not."""

import re
from types import SimpleNamespace

import fairseq_cli.train
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.data.iterators import EpochBatchIterator, StreamingEpochBatchIterator
from fairseq.trainer import Trainer
from in_process import run_tool
from resuming import command, differences, train_and_die

from fairseq_attn_plugin.patches import resuming
from fairseq_attn_plugin.patches.resuming import forget_best_scores
from fairseq_attn_plugin.patches.wrapping import resolve

from cli import TINY, USER_DIR

# ---- the whole


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


# ---- batch order


@pytest.fixture
def sentences(tiny_data, tmp_path, monkeypatch):
    """Trains, and returns the sentences of each update, without those that are done again after a kill."""

    def run(folder, *options, kills=()):
        seen = {}

        def train_step(self, samples, *args, **kwargs):
            before = self.get_num_updates()
            result = step(self, samples, *args, **kwargs)
            again = seen.setdefault(before, [sample["id"].tolist() for sample in samples])
            assert again == [sample["id"].tolist() for sample in samples]
            return result

        with monkeypatch.context() as patched:
            step = Trainer.train_step
            patched.setattr(Trainer, "train_step", train_step)
            words = command(tiny_data, "lstm_soft", tmp_path / folder, "--disable-validation", *options)
            for update in kills:
                train_and_die(words, update)
            run_tool(*words)
        return [seen[update] for update in range(len(seen))]

    return run


@pytest.mark.parametrize(
    "options",
    [("--curriculum", 2, "--update-freq", "2,1,3"), ("--update-epoch-batch-itr", True)],
    ids=lambda options: options[0][2:],
)
def test_an_interrupted_training_has_the_sentences_of_a_whole_one(sentences, options):
    whole = sentences("whole", *options)
    assert sentences("parts", *options, kills=(5, 8)) == whole
    assert len(whole) >= 8 and len(set(map(str, whole))) > 1


def test_an_uninterrupted_training_has_the_order_of_stock_fairseq(sentences, monkeypatch):
    ours = sentences("ours")
    for target in resuming.BATCH_ORDER.wraps:
        owner, name = resolve(target)
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__)
    assert sentences("stock") == ours


def test_curriculum_ends(sentences):
    """Sorted batches in the first epoch, shuffled ones in the others."""
    updates = sentences("run", "--curriculum", 1)
    first, second, third = (updates[start : start + 5] for start in (0, 5, 10))
    assert sorted(map(str, first)) == sorted(map(str, second)) == sorted(map(str, third))
    assert len({str(epoch) for epoch in (first, second, third)}) == 3


def test_streams_have_no_batches():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1, 2])

    trainer = SimpleNamespace(cfg=SimpleNamespace(distributed_training=SimpleNamespace(fix_batches_to_gpus=False)))
    stream = StreamingEpochBatchIterator(Stream())
    wrapped = resuming.BATCH_ORDER.wraps["fairseq.trainer:Trainer.get_train_iterator"](lambda *_, **__: stream)
    assert wrapped(trainer, 4) is stream and stream.epoch == 4


def test_batches_that_are_made_for_each_epoch():
    """A task with ``rebuild_batches`` gives a function of the epoch in the place of batches."""

    class Data(torch.utils.data.Dataset):
        epoch = 1

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __getitem__(self, index):
            return index

    def get_train_iterator(self, epoch, load_dataset=True):
        self.loaded.append((epoch, load_dataset))
        return self.iterator

    data = Data()
    iterator = EpochBatchIterator(data, list, lambda data, epoch: [[epoch], [data.epoch]])
    trainer = SimpleNamespace(iterator=iterator, loaded=[])
    trainer.cfg = SimpleNamespace(distributed_training=SimpleNamespace(fix_batches_to_gpus=False))
    assert iterator.first_batch == [1]
    wrapped = resuming.BATCH_ORDER.wraps["fairseq.trainer:Trainer.get_train_iterator"](get_train_iterator)
    assert wrapped(trainer, 4) is iterator
    assert trainer.loaded == [(1, True), (4, False)] and iterator.frozen_batches == ([4], [4])


# ---- lr schedule


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
            12,
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
    words = [*command(tiny_data, "lstm_soft", tmp_path / "whole"), "--max-epoch", 3, "--max-update", 14]
    words += ["--lr-scheduler", *options]
    run_tool(*words)
    words += ["--save-dir", tmp_path / "parts"]
    for update in (8, 11):
        train_and_die(words, update)
    run_tool(*words)
    assert all(len(set(of_an_update)) == 1 < len(of_an_update) for of_an_update in rates.values()), rates
    assert len(rates) == 14 and len({of_an_update[0] for of_an_update in rates.values()}) > 1
    assert differences(*(tmp_path / folder / "checkpoint_last.pt" for folder in ("whole", "parts"))) == []


# ---- patience


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


# ---- multirun


def test_a_worse_training_writes_its_best_checkpoint(tiny_data, tmp_path):
    """The second training, which learns nothing, does not beat the first."""
    command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd", "--cpu"]
    command += ["--batch-size", 100, "--max-epoch", 1, "--num-workers", 0, "--no-epoch-checkpoints", "--patience", 1]
    for folder, rate in (("good", 1.0), ("bad", 1e-9)):
        run_tool(*command, "--lr", rate, "--save-dir", tmp_path / folder)
        assert (tmp_path / folder / "checkpoint_best.pt").exists(), folder


def test_scores_are_forgotten():
    checkpoint_utils.save_checkpoint.best = fairseq_cli.train.should_stop_early.best = 3.0
    fairseq_cli.train.should_stop_early.num_runs = 2
    forget_best_scores()
    assert not hasattr(checkpoint_utils.save_checkpoint, "best")
    assert not vars(fairseq_cli.train.should_stop_early)
    forget_best_scores()
