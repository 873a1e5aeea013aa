"""The sentences of every update: in a training that is interrupted as in one that is not."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data.iterators import EpochBatchIterator, StreamingEpochBatchIterator
from fairseq.trainer import Trainer
from in_process import run_tool
from resuming import command, train_and_die

from fairseq_attn_plugin.patches import resuming
from fairseq_attn_plugin.patches.wrapping import resolve


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
