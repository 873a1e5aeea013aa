"""Model folders and checkpoints among the files that a subcommand reads: each is replaced by what belongs to it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.analysis.records.files import label_and_path
from fairseq_attn_plugin.model_folder import ModelFolder, open_model_folder

BEAM = 5  # width of the search for what is shown of a model folder


def with_attention(texts: Sequence[str], beam: Optional[int] = None, matrices: Tuple[str, ...] = ()) -> List[str]:
    """``[LABEL=]FOLDER`` becomes ``LABEL=`` the attention to its test set; see :func:`.attention_file.records_of`."""

    def file_of(model: ModelFolder) -> str:
        from fairseq_attn_plugin.analysis.inference.attention_file import records_of

        return records_of(model, beam, matrices)

    return _replaced(texts, file_of)


def with_translations(texts: Sequence[str]) -> List[str]:
    """``[LABEL=]FOLDER`` becomes ``LABEL=`` its translation of the test set."""
    return _replaced(texts, lambda model: str(model.test_file("translation")))


def first_folder(texts: Sequence[str]) -> Optional[ModelFolder]:
    """The first model folder among ``[LABEL=]FILE``, if there is one."""
    paths = [label_and_path(text)[1] for text in texts]
    return next(filter(None, (open_model_folder(path) for path in paths if Path(path).is_dir())), None)


def data_of_checkpoint(args: argparse.Namespace) -> None:
    """A checkpoint in the place of a data folder becomes ``path``, and ``data`` the folder that it was trained on.

    Raises:
        OptionError: the checkpoint names no folder, or one that is not there
    """
    if getattr(args, "takes_model", False) and args.path is None and _is_checkpoint(getattr(args, "data", None)):
        from fairseq_attn_plugin.analysis.inference.loading import data_of

        args.path = args.data
        args.data = data_of(args.path, "name its dictionaries' folder first, and the checkpoint by --path")


def _is_checkpoint(text: object) -> bool:
    return isinstance(text, str) and text.endswith(".pt") and Path(text).is_file()


def _replaced(texts: Sequence[str], file_of: Callable[[ModelFolder], str]) -> List[str]:
    """Each ``[LABEL=]FOLDER`` of a model folder by its file."""
    result = []
    for text in texts:
        label, path = label_and_path(text)
        model = open_model_folder(path) if Path(path).is_dir() else None
        if model is not None:
            text = f"{label or Path(path).resolve().name}={file_of(model)}"
        result.append(text)
    return result
