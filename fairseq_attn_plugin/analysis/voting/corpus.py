"""The corpus of the agent: a binarised corpus, the words of its training pairs, and a trained model if one is given."""

from __future__ import annotations

import os
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.inference.loading import load_models
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.word_vectors import ordinary_words

__all__ = ["TrainingCorpus", "TrainingPairs", "read_corpus", "read_target_words", "read_training_pairs"]


class TrainingPairs(NamedTuple):
    """The words of a training split: the k-th word of a side is ``*_words[k]``, in the sentence pair ``*_pairs[k]``.

    The end of the sentence and the other special symbols are left out.
    """

    source_words: np.ndarray
    source_pairs: np.ndarray
    target_words: np.ndarray
    target_pairs: np.ndarray
    sentences: int


class TrainingCorpus(NamedTuple):
    """fairseq's task, the training split, and the model, or None."""

    task: Any
    pairs: TrainingPairs
    model: Any

    @property
    def languages(self) -> Tuple[str, str]:
        return self.task.cfg.source_lang, self.task.cfg.target_lang


def read_corpus(data: str, path: Optional[str], source: Optional[str], target: Optional[str]) -> TrainingCorpus:
    """The corpus in the folder ``data``.

    Args:
        data: folder that fairseq-preprocess wrote
        path: checkpoint of a trained model
        source, target: languages (default: those of the model, or of the file names)

    Raises:
        OptionError: the folder, the languages, the training split or the model do not fit
    """
    if not os.path.isdir(data):
        raise OptionError(f"{data}: is not a folder; give one that fairseq-preprocess wrote")
    if path:
        teacher = load_models(data, path, cpu=True)
        if len(teacher.models) > 1:
            raise OptionError(f"--path {path}: give one checkpoint; several checkpoints do not share embeddings")
        for option, given, own in zip(("source", "target"), (source, target), teacher.languages):
            if given and given != own:
                raise OptionError(f"--{option}-lang {given}: the teacher {path} has {own}")
        return TrainingCorpus(teacher.task, read_training_pairs(teacher.task, data), teacher.models[0])
    task = _translation_task(data, source, target)
    return TrainingCorpus(task, read_training_pairs(task, data), None)


def _translation_task(data: str, source: Optional[str], target: Optional[str]) -> Any:
    from fairseq.data.data_utils import infer_language_pair
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    if not source and not target:
        source, target = infer_language_pair(data)
    if not source or not target:
        raise OptionError(f"{data}: name both languages, --source-lang and --target-lang")
    config = TranslationConfig(data=data, source_lang=source, target_lang=target, dataset_impl=None)
    # fields that hydra would fill in
    config.train_subset, config.required_seq_len_multiple = "train", 1
    try:
        return TranslationTask.setup_task(config)
    except FileNotFoundError as error:
        raise OptionError(f"{data}: has no {os.path.basename(str(error.filename or error))}") from None


def read_training_pairs(task: Any, data: str) -> TrainingPairs:
    """The training split of a fairseq translation task.

    Raises ``OptionError`` if the folder ``data`` has none, or one without words or without a target side.
    """
    try:
        task.load_dataset("train")
    except FileNotFoundError:
        raise OptionError(
            f"{data}: has no training split; binarise it with fairseq-preprocess --trainpref, or name the languages"
        ) from None
    dataset = task.dataset("train")
    if getattr(dataset, "tgt", None) is None:
        raise OptionError(f"{data}: the training split has no target side")
    parts = [
        _words_and_pairs(dataset.src, task.source_dictionary, f"{data}: the training split has no words of the source"),
        _words_and_pairs(dataset.tgt, task.target_dictionary, f"{data}: the training split has no words of the target"),
    ]
    return TrainingPairs(*parts[0], *parts[1], len(dataset.src))


def read_target_words(task: Any, data: str, split: str) -> np.ndarray:
    """The ordinary words of the target side of a split, one after the other.

    Raises ``OptionError``, which names ``--start-split``, if the folder ``data`` has no such split, or no words in it.
    """
    try:
        task.load_dataset(split)
    except FileNotFoundError:
        raise OptionError(f"--start-split {split}: {data} has no such split; leave it out, or binarise it") from None
    dataset = task.dataset(split)
    if getattr(dataset, "tgt", None) is None:
        raise OptionError(f"--start-split {split}: that split of {data} has no target side")
    message = f"--start-split {split}: that split of {data} has no words of the target"
    return _words_and_pairs(dataset.tgt, task.target_dictionary, message, split)[0]


def _words_and_pairs(
    sentences: Any, dictionary: Any, message: str, split: str = "training"
) -> Tuple[np.ndarray, np.ndarray]:
    """The ordinary words of one side, and the numbers of their sentence pairs."""
    ordinary = ordinary_words(dictionary)
    parts: List[np.ndarray] = []
    for number in tqdm(range(len(sentences)), desc=f"{split} split", unit=" sentences", disable=None, leave=False):
        words = np.asarray(sentences[number])
        parts.append(words[ordinary[words]].astype(np.int32))
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    if not lengths.sum():
        raise OptionError(message)
    return np.concatenate(parts), np.repeat(np.arange(len(parts), dtype=np.int32), lengths)
