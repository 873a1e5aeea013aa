"""A resumed training has the sentences in the order of an uninterrupted one.

Stock fairseq forms the batches once, when a process starts, by random numbers of the epoch in which it starts: equally
long sentences fall into other batches than in a training that went through. The patch starts at epoch 1 and moves on.
Tasks whose batches are made anew for each epoch get those of the epoch.

The loader of an epoch is the one of the epoch in which the process started, too, whether that was shuffled or not:
``--curriculum N`` went on without shuffling for ever, unless the training was resumed. The patch passes on what the
epoch asks for.
"""

from typing import Any, Callable

from .wrapping import Patch

__all__ = ["PATCH"]


def _from_the_first_epoch(get: Callable[..., Any]) -> Callable[..., Any]:
    def get_train_iterator(self: Any, epoch: int, *args: Any, **kwargs: Any) -> Any:
        if epoch == 1 or kwargs.get("disable_iterator_cache"):  # parts of the data, one for each epoch
            iterator = get(self, epoch, *args, **kwargs)
        else:
            if kwargs.get("load_dataset", True):
                get(self, 1, *args, **kwargs)
            iterator = get(self, epoch, *args, **{**kwargs, "load_dataset": False})
            if kwargs.get("load_dataset", True):
                iterator.epoch = epoch
                if callable(getattr(iterator, "batch_sampler", None)):  # streams have none
                    iterator.dataset.set_epoch(epoch)
                    iterator._frozen_batches = None
        iterator.fix_batches_to_gpus = self.cfg.distributed_training.fix_batches_to_gpus
        return iterator

    return get_train_iterator


def _as_the_epoch_asks(get: Callable[..., Any]) -> Callable[..., Any]:
    def _get_iterator_for_epoch(
        self: Any, epoch: int, shuffle: bool, fix_batches_to_gpus: bool = False, offset: int = 0
    ) -> Any:
        # fairseq does not say it when it resumes within an epoch
        fix_batches_to_gpus = fix_batches_to_gpus or getattr(self, "fix_batches_to_gpus", False)
        sampler = getattr(self, "epoch_batch_sampler", None)
        if sampler is not None:
            sampler.shuffle, sampler.fix_batches_to_gpus = shuffle, fix_batches_to_gpus
        return get(self, epoch, shuffle, fix_batches_to_gpus=fix_batches_to_gpus, offset=offset)

    return _get_iterator_for_epoch


PATCH = Patch(
    name="batch_order",
    reason="a resumed training has other batches than an uninterrupted one; --curriculum never ends",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.trainer:Trainer.get_train_iterator": _from_the_first_epoch,
        "fairseq.data.iterators:EpochBatchIterator._get_iterator_for_epoch": _as_the_epoch_asks,
    },
)
