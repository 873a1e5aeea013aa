"""What a checkpoint may hold: checks of the file before it is read, and of its contents before they are used.

A file may come from anybody. It is refused in one line if reading it takes more memory than its size tells, if it is
damaged, if it is not what ``fairseq-train`` writes, or if its configuration refers to other values
(``${oc.env:HOME}``), which fairseq writes out when it saves.
"""

import ast
import os
import zipfile
from argparse import Namespace
from numbers import Integral
from typing import Any, BinaryIO, Dict, Iterable, Iterator, Optional

import torch
from torch import Tensor

from fairseq_attn_plugin.errors import OptionError

__all__ = ["cannot_be_read", "check_file", "check_state"]

GREATEST_CONFIG = 100_000  # values; fairseq's own have about 1,000
DEEPEST_CONFIG = 50


def cannot_be_read(path: str) -> str:
    """The line for a file that is cut off or of another kind."""
    return (
        f"checkpoint {path} ({os.path.getsize(path)} bytes) cannot be read: it is truncated or not a checkpoint; take "
        "another one from the same folder, or train again"
    )


def check_file(stream: BinaryIO, path: str) -> int:
    """Check the records of a zip file, which is what torch writes since 1.6, against their sizes and checksums.

    torch writes the CRC-32 of each record and does not compare it when it reads. A file without checksums
    (``torch.serialization.set_crc32_options(False)``) and a file of older versions of torch pass.

    Returns:
        the size of the file

    Raises:
        OptionError: the records are larger than the file (compressed, or bytes with several names), or damaged
    """
    size = os.path.getsize(path)
    start = stream.read(4)
    stream.seek(0)
    if start != b"PK\3\4":  # how torch tells its formats apart
        return size
    try:
        with zipfile.ZipFile(stream) as archive:
            records = archive.infolist()
            if sum(record.file_size for record in records) > size:
                raise OptionError(
                    f"checkpoint {path}: is compressed; torch.save writes checkpoints without compression"
                )
            damaged = archive.testzip() if any(record.CRC for record in records) else None
    except OptionError:
        raise
    except Exception:  # zipfile raises many kinds for headers that are wrong
        raise OptionError(cannot_be_read(path)) from None
    if damaged is not None:
        raise OptionError(
            f"checkpoint {path} is damaged: {damaged} has another checksum than when it was written; take another one "
            "from the same folder, or train again"
        )
    stream.seek(0)
    return size


def check_state(state: Any, path: str, size: int) -> None:
    """Check what ``torch.load`` has read from a file of ``size`` bytes, before fairseq uses it.

    Raises:
        OptionError: it is not what fairseq-train writes
    """
    for wrong in filter(None, _faults(state, size)):
        raise OptionError(f"checkpoint {path}: {wrong}; must be a checkpoint that fairseq-train wrote")


def _faults(state: Any, size: int) -> Iterator[Optional[str]]:
    if not isinstance(state, dict):
        yield f"holds {_kind(state)} instead of a dictionary"
    yield _memory(state, size)
    model = state.get("model")
    if not isinstance(model, dict) or not model:
        lacks = (
            "; it looks like a bare state dict" if state and all(isinstance(v, Tensor) for v in state.values()) else ""
        )
        yield f"has no dictionary 'model' of parameters{lacks}"
    for name, value in model.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) and not name.endswith("_extra_state"):
            yield f"has {_kind(value)} as parameter {name!r}"
    yield from _training(state)
    if not isinstance(state.get("args"), (Namespace, type(None))):
        yield f"has {_kind(state['args'])} as 'args' instead of a namespace"
    cfg = state.get("cfg")
    if not isinstance(cfg, (dict, type(None))):
        yield f"has {_kind(cfg)} as configuration 'cfg'"
    for group in ("model", "task", "criterion"):
        value = (cfg or {}).get(group)
        if not isinstance(value, (dict, Namespace, type(None))):
            yield f"has {_kind(value)} as configuration 'cfg.{group}'"
    for name in ("args", "cfg"):
        yield _unfit_option(state.get(name), name)


def _training(state: Dict[str, Any]) -> Iterator[Optional[str]]:
    """The parts of which fairseq reads fields, in today's form or in that of fairseq before 0.6."""
    history: Any = state.get("optimizer_history", [{}] if {"best_loss", "optimizer"} <= state.keys() else None)
    if not isinstance(history, list) or not history or not all(isinstance(entry, dict) for entry in history):
        yield "has no 'optimizer_history' (a list of dictionaries)"
    updates = history[-1].get("num_updates", 0)
    if not isinstance(updates, Integral) or updates < 0:
        yield f"has {updates!r} as 'num_updates'"
    extra: Any = state.get("extra_state", {} if {"epoch", "batch_offset", "val_loss"} <= state.keys() else None)
    if not isinstance(extra, dict):
        yield "has no dictionary 'extra_state'"
    position = extra.get("train_iterator")
    if not isinstance(position, (dict, type(None))):
        yield f"has {_kind(position)} as 'train_iterator'"
    for name in ("epoch", "iterations_in_epoch"):
        number = (position or {}).get(name, 0)
        if not isinstance(number, Integral) or number < 0:
            yield f"has {number!r} as '{name}' of 'train_iterator'"
    if not isinstance(state.get("task_state", {}), dict):
        yield f"has {_kind(state['task_state'])} as 'task_state'"


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _memory(state: Any, size: int) -> Optional[str]:
    """Tensors must be plain, and their elements in the file: a view may repeat the bytes of its storage."""
    seen, storages, left = set(), {}, [state]
    while left:
        value = left.pop()
        if isinstance(value, Tensor):
            if value.layout != torch.strided or value.is_nested or value.device.type != "cpu":
                return "has a tensor that is not dense"
            storage = value.untyped_storage()
            if value.numel() * value.element_size() > storage.nbytes():
                return f"has a tensor of {value.numel():,} elements in {storage.nbytes():,} bytes"
            storages[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, (dict, list, tuple, set, Namespace)) and id(value) not in seen:
            seen.add(id(value))
            left.extend(_parts(value))
    total = sum(storages.values())
    return f"has tensors of {total:,} bytes" if total > 2 * size else None  # storages of old files may overlap


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Namespace):
        return vars(value).values()
    return [*value, *value.values()] if isinstance(value, dict) else value


# ---- the configuration


def _unfit_option(config: Any, name: str) -> Optional[str]:
    """The first option that refers to another value or is no path, or that they are too many or too deep for any."""
    left, count = [(name, config, 0)], 0
    while left:
        where, value, depth = left.pop()
        count += 1
        if count > GREATEST_CONFIG or depth > DEEPEST_CONFIG:
            return f"has a configuration '{name}' of more than {GREATEST_CONFIG:,} values or {DEEPEST_CONFIG} levels"
        if isinstance(value, (str, bytes)):
            if _refers(value):
                return f"{where} is {value[:80]!r}, which refers to another value"
        elif isinstance(value, int) and value and where.endswith(("_path", "_file")):
            return f"{where} is {value} instead of a path"  # open() would take and close a stream of the process
        elif isinstance(value, Namespace):
            left += [(f"{where}.{key}", part, depth + 1) for key, part in vars(value).items()]
        elif isinstance(value, dict):
            left += [(f"{where}.{key}", part, depth + 1) for key, part in value.items()]
            left += [(f"a key of {where}", key, depth + 1) for key in value]
        elif isinstance(value, (list, tuple, set)):
            left += [(where, part, depth + 1) for part in value]
    return None


def _refers(value: Any) -> bool:
    """Whether OmegaConf sees a reference, in the text or in what fairseq and hydra make of it.

    fairseq turns ``args`` into a configuration by hydra's overrides: it parses literals, and hydra removes backslashes.
    """
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if "${" in text.replace("\\", ""):
        return True
    if not isinstance(value, str) or not ("$" in text or "\\" in text):
        return False
    try:
        parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return _unfit_option(parsed, "") is not None if parsed != value else False
