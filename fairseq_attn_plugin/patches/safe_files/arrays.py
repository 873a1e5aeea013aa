"""Reads the numpy arrays of a checkpoint without giving the file access to numpy's own types.

fairseq keeps some meters as numpy arrays (the n-gram counts of ``--eval-bleu``). A checkpoint may therefore name
``numpy.ndarray``, ``numpy.dtype`` and ``_reconstruct`` (or ``scalar``). Allowing numpy's own types would open a hole: a
crafted dtype state can clear the flags of an object array, whose bytes are then taken for pointers. The stand-ins below
accept what numpy writes for plain booleans and numbers, and refuse everything else.
"""

import pickle
import re
from typing import Any, Callable, List, Tuple

import numpy as np

_PLAIN_CODE = re.compile(r"[biufc]\d{1,2}\Z")
_PLAIN_STATE = (None, None, None, -1, -1)


def _refuse(what: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError("%s in a checkpoint may only hold plain numbers" % what)


class PlainDtype:
    """Stands in for ``numpy.dtype``: the kind and width of a number, then its byte order."""

    def __init__(self, code: Any, *_align_and_copy: Any) -> None:
        text = code.decode("ascii", "replace") if isinstance(code, bytes) else code
        if not isinstance(text, str) or not _PLAIN_CODE.match(text):
            raise _refuse("the numpy dtype %r" % (code,))
        self.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order: Any = state[1].decode("ascii", "replace") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or tuple(state[2:7]) != _PLAIN_STATE or any(state[7:]):
            raise _refuse("the numpy dtype state %r" % (state,))
        self.dtype = self.dtype.newbyteorder(order)


def _plain(dtype: Any, raw: Any) -> np.dtype:
    """The dtype to read ``raw`` with, built afresh, since a dtype from the file cannot be trusted."""
    if isinstance(dtype, PlainDtype):
        dtype = dtype.dtype
    # numpy's own dtype comes here only if the user has allowed it
    if not isinstance(dtype, np.dtype) or not _PLAIN_CODE.match(dtype.str[1:]) or not isinstance(raw, bytes):
        raise _refuse("a numpy array of %r" % (type(dtype),))
    return np.dtype(dtype.str)


class PlainArray(np.ndarray):
    """Stands in for ``numpy.ndarray``: filled from raw bytes of a plain dtype, and pickled as an ndarray."""

    def __new__(cls, *arguments: Any) -> "PlainArray":
        if arguments:
            raise _refuse("a numpy array made of %r" % (arguments,))
        return np.empty(0, "b").view(cls)

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, fortran, raw = state
        # numpy converts foreign byte orders into the machine's own, as it does when it reads a pickle itself
        filled: Any = (1, tuple(shape), _plain(dtype, raw), bool(fortran), raw)
        try:
            super().__setstate__(filled)
        except (TypeError, ValueError) as error:
            raise _refuse("a numpy array of shape %r" % (shape,)) from error

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


def plain_array(kind: Any, _shape: Any, _code: Any) -> PlainArray:
    """Stands in for numpy's ``_reconstruct``: an empty array, to be filled by ``__setstate__``."""
    if kind not in (PlainArray, np.ndarray):
        raise _refuse("a numpy array of class %r" % (kind,))
    return PlainArray()


def plain_scalar(dtype: Any, raw: Any) -> Any:
    """Stands in for numpy's ``scalar``: one number from its bytes."""
    plain = _plain(dtype, raw)
    if len(raw) != plain.itemsize:
        raise _refuse("a numpy scalar of %d bytes as %s" % (len(raw), plain))
    return np.frombuffer(raw, plain)[0]


def stand_ins() -> List[Tuple[Callable[..., Any], str]]:
    """Pairs for ``torch.serialization.add_safe_globals``: stand-in, and the name it answers to."""
    pairs: List[Tuple[Callable[..., Any], str]] = [(PlainArray, "numpy.ndarray"), (PlainDtype, "numpy.dtype")]
    # under their own names too, in case the user has allowed numpy's types under numpy's names
    pairs += [(kind, "%s.%s" % (kind.__module__, kind.__name__)) for kind in (PlainArray, PlainDtype)]
    # the module moved with numpy 2; a checkpoint carries the name of the numpy that wrote it
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        pairs += [(plain_array, module + "._reconstruct"), (plain_scalar, module + ".scalar")]
    return pairs
