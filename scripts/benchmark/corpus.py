"""Corpora of the benchmark: what fairseq-preprocess wrote, or random sentences with the lengths of image captions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from benchmark.systems import synthetic_dictionary
from fairseq import options
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask

from fairseq_attn_plugin.errors import OptionError

# Of the logarithms of the lengths of Multi30k (German, 8,000 subwords, with end of sentence): mean and deviation, and
# the deviation of the logarithm of the quotient of both sides.
LENGTH, SPREAD, PAIR_SPREAD = 2.67, 0.32, 0.16
SHORTEST, LONGEST = 3, 60


def open_task(settings: Mapping[str, Any], split: str) -> TranslationTask:
    """fairseq's translation task with the dataset ``split`` of ``--data``, or with a random one.

    Raises:
        OptionError: ``--data`` has no such dataset
    """
    folder = settings["data"]
    line = [folder or "no-data", "--arch", "lstm", "--task", "translation", "--optimizer", "adam"]
    config = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), line)).task
    if folder is None:
        dictionary = synthetic_dictionary(settings["sizes"]["vocab"])
        task = TranslationTask(config, dictionary, dictionary)
        task.datasets[split] = synthetic_pairs(dictionary, settings["corpus_sentences"], settings["seed"])
        return task
    if not list(Path(folder).glob("dict.*.txt")):
        raise OptionError(f"--data {folder}: no dictionaries there; give a folder that fairseq-preprocess wrote")
    try:
        task = TranslationTask.setup_task(config)
        task.load_dataset(split)
    except Exception as error:  # fairseq raises bare exceptions for missing languages and files
        raise OptionError(f"--data {folder}: cannot be read: {error}") from None
    return task


def synthetic_pairs(dictionary: Dictionary, count: int, seed: int) -> LanguagePairDataset:
    """Random pairs: lengths are log-normal and correlated as in a caption corpus, words follow Zipf's law."""
    draw = torch.Generator().manual_seed(seed)
    long = torch.exp(LENGTH + SPREAD * torch.randn(count, generator=draw))
    quotient = torch.exp(PAIR_SPREAD * torch.randn(count, generator=draw))
    words = torch.arange(1, len(dictionary) - dictionary.nspecial + 1, dtype=torch.float).reciprocal()
    sides = []
    for lengths in (long, long * quotient):
        sizes = lengths.round().clamp(SHORTEST, LONGEST).long().tolist()
        drawn = torch.multinomial(words, sum(sizes), replacement=True, generator=draw) + dictionary.nspecial
        sentences = list(drawn.split(sizes))
        for sentence in sentences:
            sentence[-1] = dictionary.eos()
        sides += [sentences, sizes, dictionary]
    return LanguagePairDataset(*sides)


def batches_of(
    task: TranslationTask, split: str, settings: Mapping[str, Any], shuffle: bool, epochs: int = 1, **size: int
) -> list[dict[str, Any]]:
    """The batches of whole epochs, on the CPU: fairseq's own batching by length, shuffled as in training or not."""
    iterator = task.get_batch_iterator(
        task.dataset(split), seed=settings["seed"], required_batch_size_multiple=8, disable_iterator_cache=True, **size
    )
    return [batch for _ in range(epochs) for batch in iterator.next_epoch_itr(shuffle=shuffle)]
