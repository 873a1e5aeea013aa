"""Checkpoints under today's torch.

torch >= 2.6 reads files with ``weights_only=True`` and stops at the types that a fairseq checkpoint holds in addition
to tensors and plain containers. The checkpoints of all stock optimizers, schedulers and meters that were tried hold
``argparse.Namespace`` (the model options of ``--arch``) and numpy numbers and arrays (the meters of ``--eval-bleu``).
The patch allows these types, numpy's through stand-ins that cannot be abused
(:mod:`fairseq_attn_plugin.patches.safe_arrays`). ``weights_only`` stays on: a file that carries executable pickle is
refused and not executed. Older torch reads checkpoints as it always did.
"""

import argparse
import functools
import pickle
from typing import Any, Callable, Dict

import torch
from torch import _weights_only_unpickler as unpickler

from . import safe_arrays
from .wrapping import MakeWrapper, Patch

__all__ = ["PATCH", "allow_checkpoint_types", "reads_weights_only"]


def reads_weights_only() -> bool:
    """Whether this torch reads files with ``weights_only=True`` unless told otherwise (torch >= 2.6)."""
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in torch.__version__.split(".")[:2])
    return (major, minor) >= (2, 6) and hasattr(torch.serialization, "add_safe_globals")


def allow_checkpoint_types() -> None:
    """Allow ``argparse.Namespace`` and the numpy stand-ins in files that ``torch.load`` reads."""
    if reads_weights_only():
        torch.serialization.add_safe_globals([argparse.Namespace, *safe_arrays.stand_ins()])


def _prefer_what_others_allow(original: Callable[[], Dict[str, Any]]) -> Callable[[], Dict[str, Any]]:
    """Let numpy's own type win over the stand-in of the same name if the user has allowed numpy's.

    torch takes the type that a set yields last. The order of a set differs from process to process, and numpy's array
    does not accept a stand-in as its dtype.
    """
    own = [stand_in for stand_in, _ in safe_arrays.stand_ins()]

    def by_name() -> Dict[str, Any]:
        allowed: Dict[str, Any] = original()
        for entry in torch.serialization.get_safe_globals():
            if not isinstance(entry, tuple) and not any(entry is stand_in for stand_in in own):
                allowed[f"{entry.__module__}.{entry.__qualname__}"] = entry
        return allowed

    return by_name


def _bytes_of_the_file(content: Any = b"", *encoding: str) -> bytearray:
    """A bytearray of bytes or text. One of a number of zeros takes memory that has nothing to do with the file."""
    if not isinstance(content, (bytes, str)):
        raise pickle.UnpicklingError("a bytearray in a checkpoint must have its bytes there, not %r" % (content,))
    return bytearray(content, *encoding)  # type: ignore[arg-type]


def _without_empty_memory(original: Callable[[], Dict[str, Any]]) -> Callable[[], Dict[str, Any]]:
    @functools.lru_cache(maxsize=1)
    def by_name() -> Dict[str, Any]:
        return {**original(), "builtins.bytearray": _bytes_of_the_file}

    return by_name


# private to torch; a torch without them is left alone
_PRIVATE: Dict[str, MakeWrapper] = {
    "_get_user_allowed_globals": _prefer_what_others_allow,
    "_get_allowed_globals": _without_empty_memory,
}
_WRAPS = {f"{unpickler.__name__}:{name}": change for name, change in _PRIVATE.items() if hasattr(unpickler, name)}

PATCH = Patch(
    name="loading",
    reason="torch >= 2.6 refuses the types in a fairseq checkpoint",
    checked=("0.12.3", "0.12.3.1"),
    wraps=_WRAPS,
    extra=allow_checkpoint_types,
    needed=reads_weights_only,
)
