"""Checkpoints are whole at every moment, or they are passed over.

Stock fairseq writes the first file of a save beside its place and renames it, but copies it to ``checkpoint_best.pt``
and ``checkpoint_last.pt`` in place: what stops the process then, or fills the disk, leaves neither the old nor the new
one. The patch writes all of them beside their places, as ``NAME.pt.tmp``, down to the disk. They are copies and not
links: a program that writes into one of them changes that one only.

If a disk is full, fairseq tries three times, into the same file. The patch tries once, and says it in one line.

A ``checkpoint_last.pt`` that is incomplete all the same (a copy that was cut off, a version before this patch) gives
way to the newest whole checkpoint of the folder.
"""

import contextlib
import errno
import glob
import logging
import os
import re
import shutil
import zipfile
from typing import Any, BinaryIO, Callable, Iterator, List

import torch

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import failure_of_files

from .wrapping import Patch

__all__ = ["PATCH", "PARTIAL", "checkpoints"]

logger = logging.getLogger(__name__)

PARTIAL = ".tmp"


@contextlib.contextmanager
def _whole(path: str) -> Iterator[BinaryIO]:
    """A stream whose bytes become ``path`` at the end of the block; on failure nothing is left of them.

    Raises:
        OptionError: the file cannot be written
    """
    linked = os.path.realpath(path)
    if os.path.dirname(linked) != os.path.realpath(os.path.dirname(path)):
        path = linked  # on another disk, say; a link to a checkpoint beside it is replaced, and that one stays
    partial = path + PARTIAL
    try:
        with open(partial, "wb") as stream:
            yield stream
            stream.flush()
            _to_disk(stream.fileno())
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:
        reason = failure_of_files(error)
        if reason is None:
            raise
        raise OptionError(
            f"checkpoint {path} cannot be written: {reason.strerror or reason}; the earlier checkpoints are whole: "
            "make room, and the same command continues from the last one"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(partial)


def _to_disk(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):  # some file systems do not have it
            raise


def _saving_whole(save: Callable[..., Any]) -> Callable[..., Any]:
    def torch_persistent_save(obj: Any, filename: Any, async_write: bool = False) -> Any:
        from fairseq.file_io import PathManager

        if async_write or not isinstance(filename, str) or not PathManager.supports_rename(filename):
            return save(obj, filename, async_write)
        with _whole(filename) as stream:
            torch.save(obj, stream)
        return None

    return torch_persistent_save


def _copy_whole() -> None:
    from fairseq import checkpoint_utils
    from fairseq.file_io import PathManager

    if getattr(checkpoint_utils.PathManager, "copies_whole", False):
        return

    class WholeCopies(PathManager):  # type: ignore[misc]
        copies_whole = True

        @staticmethod
        def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
            if not (overwrite and PathManager.supports_rename(src_path) and PathManager.supports_rename(dst_path)):
                return bool(PathManager.copy(src_path, dst_path, overwrite=overwrite))
            with _whole(dst_path) as copy, open(src_path, "rb") as source:
                shutil.copyfileobj(source, copy, 1 << 20)
            return True

    checkpoint_utils.PathManager = WholeCopies


# ---- an incomplete one

_RESUMED: List[str] = []  # the default checkpoint of the training that starts


def _resuming(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_checkpoint(cfg: Any, trainer: Any, **options: Any) -> Any:
        name = f"checkpoint_last{trainer.checkpoint_suffix}.pt"
        _RESUMED[:] = [os.path.join(cfg.save_dir, name)] if cfg.restore_file == "checkpoint_last.pt" else []
        try:
            return load(cfg, trainer, **options)
        finally:
            _RESUMED.clear()

    return load_checkpoint


def _or_the_newest_whole(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return load(path, *args, **kwargs)
        except Exception:
            # one that is whole is refused for another reason, which the user should see
            if path not in _RESUMED or zipfile.is_zipfile(path):
                raise
            folder, name = os.path.split(path)
            others = checkpoints(folder, name[len("checkpoint_last") : -len(".pt")])
            for other in filter(zipfile.is_zipfile, sorted(others, key=os.path.getmtime, reverse=True)):
                with contextlib.suppress(Exception):
                    state = load(other, *args, **kwargs)
                    logger.warning(f"{path} is incomplete: the training continues from {other}, the newest whole one")
                    return state
            raise

    return load_checkpoint_to_cpu


def checkpoints(folder: str, suffix: str, partial: str = "") -> List[str]:
    """The files that trainings with this ``--checkpoint-suffix`` write, and no averages or parts of other processes."""
    ours = r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+_-?\d+\.\d+)" + re.escape(f"{suffix}.pt{partial}")
    paths = glob.glob(os.path.join(glob.escape(folder), "checkpoint*"))
    return [path for path in paths if re.fullmatch(ours, os.path.basename(path))]


PATCH = Patch(
    name="whole_checkpoints",
    reason="a kill or a full disk leaves half a checkpoint_last.pt or checkpoint_best.pt",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.checkpoint_utils:torch_persistent_save": _saving_whole,
        "fairseq.checkpoint_utils:load_checkpoint": _resuming,
        "fairseq.checkpoint_utils:load_checkpoint_to_cpu": _or_the_newest_whole,
    },
    extra=_copy_whole,
)
