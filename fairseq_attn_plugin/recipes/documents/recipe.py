"""The description of a recipe of document classification, and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..data_folder import Preparation
from ..errors import OptionError
from ..settings import COMMON, CommonSettings, Variables, check_extra, read_common
from ..training import OptionGroups

__all__ = ["DEFAULTS", "MODELS", "DocumentCorpus", "DocumentSettings", "read_document_settings"]

MODELS = ("han", "han_flat", "han_mean")
DEFAULTS: Dict[str, str] = {**COMMON, "MODELS": "han", "THRESHOLD": "3", "EMBEDDINGS": "", "CORPUS_URL": ""}


@dataclass(frozen=True)
class DocumentCorpus:
    """A corpus of labelled documents, and the options of its training.

    Attributes:
        name: of the recipe
        title: of the table
        at_home: content of a folder DATA, for messages
        parts: folds, or one name
        read: writes ``text/{train,valid,test}.{input0,label}`` of a part
        training: options of fairseq-train, without the number of epochs
        epochs: by model
    """

    name: str
    title: str
    at_home: str
    parts: Sequence[str]
    read: Callable[[Preparation, str], None]
    training: OptionGroups
    epochs: Mapping[str, int]


@dataclass(frozen=True)
class DocumentSettings(CommonSettings):
    """Settings of a recipe of document classification.

    Attributes:
        models: architectures
        threshold: words with fewer occurrences in the training set are unknown
        embeddings: pretrained word vectors
    """

    models: Sequence[str]
    threshold: int
    embeddings: Optional[Path]


def read_document_settings(variables: Variables, corpus: DocumentCorpus, extra: Sequence[str]) -> DocumentSettings:
    """The settings.

    Args:
        variables: of the recipe
        corpus: the description
        extra: options after ``--``; these must not choose what a variable chooses

    Raises:
        OptionError: a variable has a wrong value
    """
    settings = DocumentSettings(
        **vars(read_common(variables, corpus.name, corpus.at_home)),
        models=variables.several("MODELS", MODELS),
        threshold=variables.number("THRESHOLD"),
        embeddings=variables.path("EMBEDDINGS"),
    )
    if settings.embeddings and not settings.embeddings.is_file() and not variables.flag("DRY_RUN"):
        raise OptionError(f"EMBEDDINGS={variables.text('EMBEDDINGS')} is not a file: expected word vectors as text")
    chosen: List[Tuple[Tuple[str, ...], str]] = [
        (("-a", "--arch"), "the architectures are chosen by MODELS"),
        (("--seed",), f"the seed is chosen by SEED={settings.seed}"),
        (("--save-dir",), "the folder is chosen by OUT=FOLDER"),
        (("--user-dir", "--task"), "is set by the recipe"),
    ]
    check_extra(extra, chosen)
    return settings
