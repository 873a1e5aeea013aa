"""Loads trained translation models and the data splits that they read."""

import argparse
import math
import os
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import parse_overrides
from fairseq_attn_plugin.patches.data_folders import languages_of
from fairseq_attn_plugin.patches.trained_models import check_names


class LoadedModels(NamedTuple):
    """An ensemble of trained models, in evaluation mode, and their task. The attention of an ensemble is the mean."""

    models: List[Any]
    task: Any
    path: str  # of the checkpoints, separated by colons
    config: Any = None  # fairseq's configuration of the last model
    overrides: Dict[str, Any] = {}  # options that were changed when the models were loaded

    @property
    def languages(self) -> Tuple[str, str]:
        """Source and target language."""
        return self.task.cfg.source_lang, self.task.cfg.target_lang

    @property
    def limits(self) -> Tuple[float, float]:
        """Greatest number of source and of target subwords, with the end, that all models and the task accept."""
        found = utils.resolve_max_positions(self.task.max_positions(), *(one.max_positions() for one in self.models))
        limits = found if isinstance(found, (tuple, list)) else (found, found)
        source, target = (math.inf if limit is None else float(limit) for limit in limits)
        return source, target


def load_models(
    data: str, path: str, overrides: Optional[Dict[str, Any]] = None, cpu: bool = False, option: str = "--path"
) -> LoadedModels:
    """Loads checkpoints for a data folder, onto the GPU if there is one.

    Args:
        data: folder of fairseq-preprocess; its dictionaries are read
        path: checkpoint, or several separated by colons, as in fairseq-generate
        overrides: options of the models to change
        cpu: do not use a GPU
        option: name of the option that gives ``path``, for messages

    Raises:
        OptionError: the checkpoint is not a translation model, or ``data`` is not one folder
    """
    if os.pathsep in data:
        raise OptionError(f"{data}: give one data folder at a time, since each numbers its own sentences")
    if not Path(data).is_dir():
        raise OptionError(f"data folder {data}: is not there; give the one that fairseq-preprocess --destdir wrote")
    # the corpus is read in full, without padding, and without the alignments and the BLEU of the training
    read: Dict[str, Any] = dict.fromkeys(("load_alignments", "truncate_source", "eval_bleu"), False)
    read["num_batch_buckets"] = 0
    paths = utils.split_paths(path)
    if None in data_utils.infer_language_pair(data) and os.path.isfile(paths[0]):  # it has no more than dictionaries
        languages = languages_of(checkpoint_utils.load_checkpoint_to_cpu(paths[0]))
        read.update(zip(("source_lang", "target_lang"), languages))
    settings = {**read, **(overrides or {}), "data": data}
    try:
        models, saved, task = checkpoint_utils.load_model_ensemble_and_task(paths, arg_overrides=settings)
    except FileNotFoundError as error:
        name = Path(error.filename or "")
        if name.parent != Path(data):
            raise
        raise OptionError(
            f"{option} {path}: its task needs {name.name}, which {data} does not have; it must be a translation model, "
            "and the folder must hold its data"
        ) from None
    check_names(models, saved, overrides or {})
    if not getattr(task.cfg, "source_lang", None) or not getattr(task.cfg, "target_lang", None):
        raise OptionError(f"{option} {path}: its task has no source and target language; must be a translation model")
    for model in models:
        model.eval()
        if torch.cuda.is_available() and not cpu:
            model.cuda()
    return LoadedModels(models, task, path, saved, overrides or {})


def data_of(path: str, remedy: str = "name its dictionaries' folder by --data") -> str:
    """The data folder that a checkpoint names.

    Raises ``OptionError`` if it names none, or if the folder is not there; ``remedy`` is what else the user can do.
    """
    task = (checkpoint_utils.load_checkpoint_to_cpu(path).get("cfg") or {}).get("task")
    data = getattr(task, "data", None)
    if not isinstance(data, str) or not data:
        raise OptionError(f"{path}: names no data folder; must be a translation model")
    data = utils.split_paths(data)[0]  # of several, which are parts of one corpus, it has the dictionaries and test
    if not Path(data).is_dir():
        raise OptionError(f"{path}: was trained on {data}, which is not there; {remedy}")
    return str(data)


def load_from_options(args: argparse.Namespace) -> LoadedModels:
    """Loads the models that the options of :func:`.model_options.add_model_options` name, for the folder ``args.data``.

    Raises ``OptionError`` as :func:`load_models` does, if ``--model-overrides`` is not a dictionary, and without a
    checkpoint.
    """
    if args.path is None:
        raise OptionError(f"{args.data}: is no model folder of fairseq-attn train; give its checkpoint by --path")
    return load_models(args.data, args.path, parse_overrides(args.model_overrides), args.cpu)


def load_split(loaded: LoadedModels, split: str, translations: bool = True) -> Any:
    """The dataset of a split.

    Raises ``OptionError`` if it is empty, or if it has no target side and ``translations`` is True.
    """
    source, target = loaded.languages
    empty = OptionError(f"--gen-subset {split}: is empty; it has no sentence to read")
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        binary = Path(loaded.task.cfg.data, f"{split}.{pair}.{source}.bin")
        # the format of the files, which may be another than that of the training
        if binary.is_file():
            # fairseq fails to open such a file, and its message names neither file nor reason
            if binary.stat().st_size == 0:
                raise empty
            loaded.task.cfg.dataset_impl = None  # fairseq tells binary formats apart
        elif binary.with_suffix("").is_file():
            loaded.task.cfg.dataset_impl = "raw"
    loaded.task.load_dataset(split)
    dataset = loaded.task.dataset(split)
    if translations and getattr(dataset, "tgt", None) is None:
        raise OptionError(f"--gen-subset {split}: has no target side; attention to references needs translations")
    if len(dataset) == 0:
        raise empty
    return dataset
