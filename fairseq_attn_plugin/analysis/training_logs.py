"""Reads the learning curves of fairseq-train from its logs and its TensorBoard files.

A log is the output of fairseq-train with ``--log-format json`` or ``simple``, or its ``--log-file``. It records epochs
and updates. TensorBoard files are in the folders ``train``, ``train_inner`` and ``valid`` of ``--tensorboard-logdir``;
they record updates only. tensorboard's own reader reads them.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["Curves", "knows_epochs", "log_of", "read_log", "read_run", "read_scalars", "read_tensorboard"]


LOGS = ("train.log", "log", "log/train")  # the names that the recipes and the demo use
EVENTS = "tfevents"  # part of the name of every TensorBoard file
_AROUND = 16  # bytes around the content of a record: its length, and two checksums
_SIMPLE = re.compile(r"\bepoch (\d+) \| (?:valid on '([^']*)' subset \| )?(.*)")
_FOLDERS = {"train": ("train", "train_inner"), "valid": ("valid",)}  # the first folder that has values counts


class Curves(NamedTuple):
    """The curves of one training, {metric: {x: value}}; metrics are named without ``train_`` or ``valid_``."""

    train: Dict[str, Dict[int, float]]
    valid: Dict[str, Dict[int, float]]
    x: str = "epochs"  # or "updates"


def log_of(folder: Path) -> Optional[Path]:
    """The log in the folder of a training: ``train.log``, ``log`` or ``log/train``."""
    return next((folder / name for name in LOGS if (folder / name).is_file()), None)


def read_log(path: PathLike, x: str = "epochs") -> Curves:
    """The values at the end of every epoch, for training and the subset ``valid``.

    A line is ``... | INFO | valid | {"epoch": 1, "valid_loss": "6.5", ...}`` (``--log-format json``) or ``... | INFO |
    valid | epoch 001 | valid on 'valid' subset | loss 6.5 | ...`` (``simple``). If an epoch has several values, because
    of validations during the epoch or a resumed training, the last one counts. Epochs that a resumed training has not
    reached again keep their values. Values that are not numbers are left out; ``nan`` and ``inf`` stay.
    With ``x="updates"`` the values are over the number of updates, as in :func:`read_tensorboard`.
    Raises ``OptionError`` if the file cannot be read, has no such line, or does not contain ``num_updates``.
    """
    curves = Curves({}, {}, x)
    lines = 0
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                values = list(_values(line))
                lines += bool(values)
                counted = [(subset, value) for subset, _, name, value in values if name == "num_updates"]
                updates = {subset: int(value) for subset, value in counted if math.isfinite(value)}
                for subset, epoch, name, value in values:
                    if x == "epochs":
                        getattr(curves, subset).setdefault(name, {})[epoch] = value
                    elif subset in updates and name != "num_updates":
                        _put(getattr(curves, subset).setdefault(name, {}), updates[subset], value)
    except OSError as error:
        raise OptionError(f"{path}: cannot read the log of fairseq-train: {error.strerror or error}") from None
    if lines and not curves.train and not curves.valid:
        raise OptionError(f"{path}: does not contain num_updates; its curves can only be drawn over epochs")
    if not lines:
        raise OptionError(
            f"{path}: has no curves; either no epoch has ended yet, or this is not the output of fairseq-train "
            "--log-format json (or simple)"
        )
    return curves


def _values(line: str) -> Iterable[Tuple[str, int, str, float]]:
    """(``train`` or ``valid``, epoch, metric, value) for every number in a line that summarises an epoch."""
    items: List[Tuple[str, str, object]] = []
    epoch: object = None
    if '{"epoch":' in line:
        try:
            logged = json.loads(line[line.index('{"epoch":') :])
        except (ValueError, RecursionError):  # cut off: the training is still writing the line, or was killed
            return
        epoch = logged.pop("epoch")
        if "update" in logged:  # a line during the epoch
            return
        for key, value in logged.items():
            subset, _, name = key.partition("_")
            items.append((subset, name, value))
    else:
        match = _SIMPLE.search(line)
        if match is None:
            return
        epoch, subset = int(match[1]), match[2] or "train"
        for item in match[3].split(" | "):
            name, _, value = item.strip().partition(" ")
            items.append((subset, name, value))
    for subset, name, value in items:
        if isinstance(epoch, int) and subset in _FOLDERS and name and isinstance(value, (str, int, float)):
            try:
                yield subset, epoch, name, float(value)
            except (ValueError, OverflowError):
                continue


def knows_epochs(path: PathLike) -> bool:
    """Whether the path is a log, and not a folder or a TensorBoard file."""
    path = Path(path)
    return not (path.is_dir() or (EVENTS in path.name and path.is_file()))


def read_run(path: PathLike, x: str = "epochs") -> Curves:
    """:func:`read_log`, or :func:`read_tensorboard` for a folder or a TensorBoard file, which ignores ``x``."""
    return read_log(path, x) if knows_epochs(path) else read_tensorboard(path)


def read_tensorboard(path: PathLike) -> Curves:
    """The values that ``fairseq-train --tensorboard-logdir`` wrote, over updates.

    ``path`` is the folder of that option, one of its folders ``train``, ``train_inner`` and ``valid``, or a file in one
    of them. The training curves are means over epochs (``train``). Before the first epoch ends, or if ``path`` is
    ``train_inner``, they are means over the latest updates. If several files contain the same updates, because the
    training was resumed, the last file counts, and values of earlier files at later updates are dropped.
    Raises ``OptionError`` if there are no values, or without tensorboard
    (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    path = Path(path)
    known = [name for names in _FOLDERS.values() for name in names]
    if path.is_file():
        files = {path.resolve().parent.name: [path]}
    else:
        files = {name: _event_files(path / name) for name in known}
        if not any(files.values()):
            files = {path.resolve().name: _event_files(path)}
    if not any(files.get(name) for name in known):
        raise OptionError(
            f"{path}: has no TensorBoard files (events.out.{EVENTS}...) in folders {', '.join(known)}, and no "
            "train.log; name a log, or the folder of fairseq-train --tensorboard-logdir"
        )
    found: Dict[str, Dict[str, Dict[int, float]]] = {}
    for subset, names in _FOLDERS.items():
        candidates = (read_scalars(files[name]) for name in names if files.get(name))
        found[subset] = next((scalars for scalars in candidates if scalars), {})
    if not any(found.values()):
        raise OptionError(f"{path}: its TensorBoard files have no values yet")
    return Curves(found["train"], found["valid"], "updates")


def _event_files(folder: Path) -> List[Path]:
    """In the order of their creation; file names begin with the time."""
    return sorted(folder.glob(f"*{EVENTS}*")) if folder.is_dir() else []


def read_scalars(paths: Iterable[PathLike]) -> Dict[str, Dict[int, float]]:
    """The numbers in TensorBoard files, {name: {step: value}}; see :func:`read_tensorboard`.

    A last record that is cut off, because the training is still writing it, is ignored.
    Raises ``OptionError`` for a file that cannot be read or is damaged, or without the package tensorboard.
    """
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
        from tensorboard.compat.proto.event_pb2 import Event
    except ImportError:
        raise OptionError(
            "reading TensorBoard files needs tensorboard: pip install 'fairseq_attn_plugin[analysis]'"
        ) from None
    scalars: Dict[str, Dict[int, float]] = {}
    for path in paths:
        read = 0
        try:
            size = Path(path).stat().st_size
            for record in RawEventFileLoader(str(path)).Load():
                read += len(record) + _AROUND
                event = Event.FromString(record)
                for value in event.summary.value:
                    number = _number(value)
                    if number is not None:
                        _put(scalars.setdefault(value.tag, {}), event.step, number)
            damaged = _refused_a_whole_record(Path(path), read, size)
        except OSError as error:
            raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None
        except DecodeError:
            damaged = True
        if damaged:
            raise OptionError(f"{path}: is not a TensorBoard file, or is damaged")
    return scalars


def _refused_a_whole_record(path: Path, read: int, size: int) -> bool:
    """Whether tensorboard's reader stopped for another reason than a last record that is incomplete.

    The reader does not distinguish the two. ``read`` is the number of bytes that it took of ``size`` bytes.
    """
    with open(path, "rb") as stream:
        stream.seek(read)
        head = stream.read(8)
    if len(head) < 8 or read >= size:
        return False
    return read == 0 or int.from_bytes(head, "little") + _AROUND <= size - read


def _number(value: Any) -> Optional[float]:
    """The number of a summary, or None if the summary is not one number."""
    from tensorboard.data_compat import migrate_value
    from tensorboard.util.tensor_util import make_ndarray

    value = migrate_value(value)
    if value.WhichOneof("value") != "tensor":
        return None
    array = make_ndarray(value.tensor)
    # the shortest decimal number with this float32 value
    return float(str(array.reshape(-1)[0])) if array.size == 1 and array.dtype.kind == "f" else None


def _put(curve: Dict[int, float], step: int, value: float) -> None:
    if curve and step <= max(curve):
        for later in [known for known in curve if known >= step]:
            del curve[later]
    curve[step] = value
