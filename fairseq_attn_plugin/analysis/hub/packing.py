"""A model folder as files that can be given away, and back.

The weights are in ``model.safetensors``, which can hold nothing but tensors, and the configuration is in
``config.json``. Dictionaries, subword model and ``settings.json`` are those of the folder. Paths of the machine that
trained are left out: of each, the name stays. Texts of the corpus and its test set are not among the files, since they
may have other terms than the model.
"""

from __future__ import annotations

import json
import re
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq_attn_plugin.checkpoints import check_finite, plain_config
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import MODEL, SUBWORD_FILES, ModelFolder, open_model_folder, read_settings
from fairseq_attn_plugin.writing import whole_file, whole_text

__all__ = ["CONFIG", "FILES", "WEIGHTS", "pack", "portable", "unpack"]

WEIGHTS, CONFIG, SETTINGS = "model.safetensors", "config.json", "settings.json"
# all that a packed folder may have
FILES = (WEIGHTS, CONFIG, SETTINGS, "README.md", "dict.*.txt", *SUBWORD_FILES.values())
# a path of a machine, alone, after "=" or in a list with ":", to its end; an address with :// is none
_PATH = re.compile(r"(?:^|(?<=[=:]))(?:~|\.\.|[^:=]*/\.\.(?![^/:])|/(?!/[^/])|(?<!:)/)[^:]*")
_LEFT_OUT = ("stamp", "data", "log")  # of the settings: of the training


def pack(folder: ModelFolder, out: Path) -> None:
    """Writes the files of a model folder to ``out``, which exists.

    Raises:
        OptionError: the model cannot be read, or safetensors is not installed
    """
    save_file, _ = _safetensors()
    from fairseq import checkpoint_utils

    import fairseq_attn_plugin  # noqa: F401  (checks checkpoints when they are read)

    state = checkpoint_utils.load_checkpoint_to_cpu(folder.checkpoint)
    check_finite(folder.checkpoint, (pair for pair in state["model"].items() if pair[1].is_floating_point()))
    tensors, same = _distinct(state["model"])
    save_file(tensors, str(out / WEIGHTS), metadata={"format": "pt"})
    extra = state.get("extra_state") or {}
    content = {
        "cfg": portable(plain_config(state["cfg"])),
        "same": same,
        "updates": int(state["optimizer_history"][-1].get("num_updates", 0)),
        "val_loss": extra.get("val_loss"),
    }
    _write(out / CONFIG, content)
    settings = {key: value for key, value in folder.settings.items() if key not in _LEFT_OUT}
    _write(out / SETTINGS, {**portable(settings), "data": None, "log": None})
    for name in _texts_of(folder.settings):
        shutil.copyfile(folder.path / name, out / name)


def unpack(packed: Path, out: Path) -> ModelFolder:
    """Makes a model folder of the files in ``packed``, which may come from anybody.

    Raises:
        OptionError: a file is missing or damaged, or safetensors is not installed
    """
    _, load_file = _safetensors()
    import torch

    settings = read_settings(packed)
    content = _read(packed / CONFIG)
    try:
        tensors = load_file(str(packed / WEIGHTS))
        tensors.update({name: tensors[other] for name, other in content["same"].items()})
        state = {
            "args": None,
            "cfg": portable(dict(content["cfg"])),
            "model": tensors,
            # fairseq takes a checkpoint without these for one of an early version
            "optimizer_history": [
                {
                    "criterion_name": "",
                    "optimizer_name": "",
                    "lr_scheduler_state": {},
                    "num_updates": int(content["updates"]),
                }
            ],
            "extra_state": {
                "train_iterator": {"epoch": 1, "iterations_in_epoch": 0},
                "val_loss": content["val_loss"],
            },
            "task_state": {},
            "last_optimizer_state": None,
        }
        names = _texts_of(settings)
        settings = {**portable(settings), "data": None, "log": None}  # a path could lead out of the folder
    except Exception as error:  # safetensors raises an exception of its own, and the files may hold anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise OptionError(f"{packed}: is not what fairseq-attn push writes ({reason})") from None
    for name in names:
        if not (packed / name).is_file():
            raise OptionError(f"{packed}: has no {name}; it must be what fairseq-attn push writes")
        shutil.copyfile(packed / name, out / name)
    if (packed / "README.md").is_file():
        shutil.copyfile(packed / "README.md", out / "README.md")
    with whole_file(out / MODEL, f"{out / MODEL}: cannot be written") as partial:
        torch.save(state, partial)
    _write(out / SETTINGS, settings)
    folder = open_model_folder(out)
    if folder is None:
        raise OptionError(f"{packed / SETTINGS}: is not of a model folder")
    return folder


def _texts_of(settings: Dict[str, Any]) -> List[str]:
    """The names of the dictionaries and the subword model; a language is a part of a name and no path."""
    names = [f"dict.{language}.txt" for language in settings["languages"]]
    names += [SUBWORD_FILES[settings["bpe"]]] if settings.get("bpe") else []
    if any(Path(name).name != name for name in names):
        raise ValueError(f"languages {settings['languages']}")
    return names


def _distinct(parameters: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """The tensors without those that share the memory of another, and {name: name of the other}."""
    tensors: Dict[str, Any] = {}
    same: Dict[str, str] = {}
    known: Dict[Any, str] = {}
    for name, value in parameters.items():
        place = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() and place in known:
            same[name] = known[place]
            continue
        known[place] = name
        tensors[name] = value.detach().clone().contiguous()
    return tensors, same


def portable(value: Any, key: str = "") -> Any:
    """A value for JSON. Of a path the name stays; word vectors are in the weights, so their file is not needed."""
    if isinstance(value, Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {str(name): portable(part, str(name)) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(part) for part in value]
    if key.endswith(("embed_path", "user_dir")):
        return None
    if isinstance(value, str):
        return _PATH.sub(lambda path: "" if Path(path[0]).name == ".." else Path(path[0]).name, value)
    return value if value is None or isinstance(value, (int, float, bool)) else str(value)


def _write(path: Path, content: Dict[str, Any]) -> None:
    with whole_text(path, f"{path}: cannot be written") as stream:
        stream.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _read(path: Path) -> Dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise OptionError(f"{path.parent}: has no {path.name} of fairseq-attn push; the repository must be of a push")
    return content


def _safetensors() -> Tuple[Any, Any]:
    try:
        from safetensors.torch import load_file, save_file
    except ImportError:
        raise OptionError("needs safetensors: pip install 'fairseq_attn_plugin[hub]'") from None
    return save_file, load_file
