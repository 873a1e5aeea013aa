"""Loads trained translation models and the splits that they read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq import checkpoint_utils, utils

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.errors import OptionError

__all__ = ["Teacher", "add_teacher_options", "load_split", "load_teacher"]


class Teacher(NamedTuple):
    """Trained models, of which the mean attention counts, and the task that they were trained for."""

    models: List[Any]
    task: Any
    path: str
    config: Any = None  # fairseq's, with which the first of them was trained

    @property
    def languages(self) -> Tuple[str, str]:
        return self.task.cfg.source_lang, self.task.cfg.target_lang


def load_teacher(
    data: str, path: str, overrides: Optional[Dict[str, Any]] = None, cpu: bool = False, option: str = "--path"
) -> Teacher:
    """Loads the checkpoints ``path`` (several with colons between them, as in fairseq-generate) for the data folder.

    Raises ``OptionError``, which names ``option``, if the task has no pairs of languages.
    """
    # What is aligned is the corpus as it is: neither cut nor with the alignments that a teacher was itself taught by.
    settings = {"load_alignments": False, "truncate_source": False, **(overrides or {}), "data": data}
    try:
        models, saved, task = checkpoint_utils.load_model_ensemble_and_task(
            utils.split_paths(path), arg_overrides=settings
        )
    except FileNotFoundError as error:
        name = Path(error.filename or "")
        if name.parent != Path(data) or not Path(data).is_dir():
            raise
        raise OptionError(
            f"{option} {path}: its task wants {name.name}, which {data} does not have; it must be a translation model, "
            "and the folder that of its data"
        ) from None
    if not getattr(task.cfg, "source_lang", None) or not getattr(task.cfg, "target_lang", None):
        raise OptionError(f"{option} {path}: is no translation model; its task has no source and target language")
    for model in models:
        model.eval()
        if torch.cuda.is_available() and not cpu:
            model.cuda()
    return Teacher(models, task, path, saved)


def add_teacher_options(parser: argparse.ArgumentParser) -> None:
    """``--path``, ``--model-overrides`` and ``--cpu``: what :func:`load_teacher` wants to know."""
    parser.add_argument("--path", required=True, metavar="FILE", help="checkpoint; several, with colons: their mean")
    parser.add_argument(
        "--model-overrides", default="{}", metavar="DICT", help="options of the models, as in fairseq-generate"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


def load_split(teacher: Teacher, split: str, translations: bool = True) -> Any:
    """The dataset of a split, which has at least one sentence and, unless ``translations`` is False, a target side.

    Raises ``OptionError`` else.
    """
    source, target = teacher.languages
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        binary = Path(teacher.task.cfg.data, f"{split}.{pair}.{source}.bin")
        # fairseq cannot open it, and says nothing of which file or why
        if binary.is_file() and binary.stat().st_size == 0:
            raise _empty(split)
    teacher.task.load_dataset(split)
    dataset = teacher.task.dataset(split)
    if translations and getattr(dataset, "tgt", None) is None:
        raise OptionError(f"--gen-subset {split}: has no target side; what the teacher attends to needs translations")
    if len(dataset) == 0:
        raise _empty(split)
    return dataset


def _empty(split: str) -> OptionError:
    what = "validation set empty" if split.startswith("valid") else "empty"
    return OptionError(f"--gen-subset {split}: {what}; it has no sentence that a teacher could read")
