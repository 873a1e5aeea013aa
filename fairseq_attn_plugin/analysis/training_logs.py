"""What fairseq-train logged: its own logs and TensorBoard's files.

A log is what fairseq-train printed, with ``--log-format json`` or ``simple``, or its ``--log-file``; it knows epochs.
TensorBoard's files lie in the folders ``train``, ``train_inner`` and ``valid`` of ``--tensorboard-logdir``; they know
updates alone. They are read without TensorFlow or TensorBoard.
"""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterable, Iterator, List, NamedTuple, Tuple

import numpy as np

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["AXES", "Curves", "knows_epochs", "read_log", "read_run", "read_scalars", "read_tensorboard"]


AXES = ("epochs", "updates")
EVENTS = "tfevents"  # in the name of every file of TensorBoard's
_SIMPLE = re.compile(r"\bepoch (\d+) \| (?:valid on '([^']*)' subset \| )?(.*)")
_FOLDERS = {"train": ("train", "train_inner"), "valid": ("valid",)}  # the first one that there is


class Curves(NamedTuple):
    """The curves of one training: from the name of a metric to {x: value}, without ``train_`` or ``valid_``."""

    train: Dict[str, Dict[int, float]]
    valid: Dict[str, Dict[int, float]]
    x: str = "epochs"  # or "updates": what they are over


def read_log(path: PathLike, x: str = "epochs") -> Curves:
    """The values that fairseq-train logged at the end of every epoch, for training and the subset ``valid``.

    A line is ``... | INFO | valid | {"epoch": 1, "valid_loss": "6.5", ...}`` (``--log-format json``) or ``... | INFO |
    valid | epoch 001 | valid on 'valid' subset | loss 6.5 | ...`` (``simple``).  Where an epoch has several values, of
    validations during the epoch or of a training that was resumed, the last one counts; epochs that a resumed training
    has not come to again keep what they had.  Values that are no numbers are left out; ``nan`` and ``inf`` stay.
    With ``x="updates"`` the values are over the updates made until then, as :func:`read_tensorboard` has them.
    Raises ``OptionError`` if the file cannot be read or has no such line, or none that says how many updates.
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
        raise OptionError(f"{path}: does not say num_updates; its curves can be drawn over epochs alone")
    if not lines:
        raise OptionError(
            f"{path}: no curves; either no epoch has ended yet, or this is not what fairseq-train --log-format json "
            "(or simple) printed"
        )
    return curves


def _values(line: str) -> Iterable[Tuple[str, int, str, float]]:
    """(``train`` or ``valid``, epoch, metric, value) for every number of a line that sums up an epoch."""
    items: List[Tuple[str, str, object]] = []
    epoch: object = None
    if '{"epoch":' in line:
        try:
            logged = json.loads(line[line.index('{"epoch":') :])
        except ValueError:  # cut off: the training is writing it, or was killed while it did
            return
        epoch = logged.pop("epoch")
        if "update" in logged:  # a line within the epoch
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
            except ValueError:
                continue


def knows_epochs(path: PathLike) -> bool:
    """Whether this is a log, and neither a folder nor a file of TensorBoard's."""
    path = Path(path)
    return not (path.is_dir() or (EVENTS in path.name and path.is_file()))


def read_run(path: PathLike, x: str = "epochs") -> Curves:
    """:func:`read_log`, or for a folder or one of TensorBoard's files :func:`read_tensorboard`, over updates alone."""
    return read_log(path, x) if knows_epochs(path) else read_tensorboard(path)


def read_tensorboard(path: PathLike) -> Curves:
    """The values that ``fairseq-train --tensorboard-logdir`` wrote, over updates.

    ``path`` is the folder of that option, one of its folders ``train``, ``train_inner`` and ``valid``, or a file in one
    of these. The curves of training are the means of its epochs, or those of the latest updates (``train_inner``)
    before the first epoch has ended or where they are what is asked for. Where several files tell of the same updates,
    as after a training was resumed, the last one counts, and what earlier ones have of later updates is forgotten: that
    is no part of this training.
    Raises ``OptionError`` if there is nothing to read, or without tensorboardX
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
            f"{path}: has none of TensorBoard's files (events.out.{EVENTS}...) in folders {', '.join(known)}; name the "
            "folder of fairseq-train --tensorboard-logdir"
        )
    found: Dict[str, Dict[str, Dict[int, float]]] = {}
    for subset, names in _FOLDERS.items():
        candidates = (read_scalars(files[name]) for name in names if files.get(name))
        found[subset] = next((scalars for scalars in candidates if scalars), {})
    if not any(found.values()):
        raise OptionError(f"{path}: TensorBoard's files have no values yet")
    return Curves(found["train"], found["valid"], "updates")


def _event_files(folder: Path) -> List[Path]:
    """In the order of their making, which is in their names."""
    return sorted(folder.glob(f"*{EVENTS}*")) if folder.is_dir() else []


def read_scalars(paths: Iterable[PathLike]) -> Dict[str, Dict[int, float]]:
    """The numbers in TensorBoard's files, {name: {step: value}}; see :func:`read_tensorboard`.

    Raises ``OptionError`` for a file that cannot be read or is damaged. One whose last record is cut off, because it is
    being written, is not.
    """
    try:
        from google.protobuf.message import DecodeError
        from tensorboardX.proto.event_pb2 import Event
    except ImportError:
        raise OptionError(
            "reading TensorBoard's files needs tensorboardX: pip install 'fairseq_attn_plugin[analysis]'"
        ) from None
    scalars: Dict[str, Dict[int, float]] = {}
    for path in paths:
        try:
            with open(path, "rb") as stream:
                for content in _records(stream):
                    event = Event.FromString(content)
                    for value in event.summary.value:
                        number = _number(value)
                        if number is not None:
                            # the shortest number that float32 does not tell from it
                            _put(scalars.setdefault(value.tag, {}), event.step, float(str(np.float32(number))))
        except OSError as error:
            raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (DecodeError, ValueError):
            raise OptionError(f"{path}: is none of TensorBoard's files, or damaged") from None
    return scalars


def _records(stream: BinaryIO) -> Iterator[bytes]:
    """The contents of TFRecords: eight bytes of length, four of its checksum, the content, four of its checksum.

    Raises ``ValueError`` for another checksum.
    """
    from tensorboardX.record_writer import masked_crc32c

    def check(content: bytes, checksum: bytes) -> bytes:
        if struct.unpack("<I", checksum)[0] != masked_crc32c(content):
            raise ValueError
        return content

    while True:
        head = stream.read(12)
        if len(head) < 12:
            return
        length = struct.unpack("<Q", check(head[:8], head[8:]))[0]
        content = stream.read(length + 4)
        if len(content) < length + 4:
            return
        yield check(content[:length], content[length:])


def _number(value: Any) -> Any:
    """What a summary says where that is one number, else None; newer writers put it into a tensor."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return value.simple_value
    if kind == "tensor" and len(value.tensor.float_val) == 1:
        return value.tensor.float_val[0]
    return None


def _put(curve: Dict[int, float], step: int, value: float) -> None:
    if curve and step <= max(curve):
        for later in [known for known in curve if known >= step]:
            del curve[later]
    curve[step] = value
