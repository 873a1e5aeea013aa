"""What may be in a checkpoint, and what is refused."""

import argparse
import codecs
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy as np
import pytest
import torch

import fairseq_attn_plugin  # noqa: F401 (installs the patches)
from fairseq_attn_plugin.patches.safe_files import arrays


def round_trip(value: Any, path: Path) -> Any:
    torch.save({"value": value}, path)
    return torch.load(path)["value"]


class Crafted:
    """Pickled as the call ``function(*arguments)``, followed by ``__setstate__(state)`` if there is one."""

    def __init__(self, function: Callable[..., Any], arguments: Tuple[Any, ...], state: Any = None) -> None:
        self.call = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.random.RandomState(0).rand(3, 4)),
        np.array([[True, False]]),
        np.array(3.5, dtype=np.float32),
        np.arange(3, dtype=">i4"),
        np.ones((1, 5), dtype=np.uint8),
        np.array([1 + 2j]),
    ],
    ids=lambda array: "%s%s" % (array.dtype.str, array.shape),
)
def test_plain_arrays(array: np.ndarray, tmp_path: Path) -> None:
    read = round_trip(array, tmp_path / "file.pt")
    assert isinstance(read, np.ndarray) and read.dtype == array.dtype.newbyteorder("=") and read.shape == array.shape
    np.testing.assert_array_equal(read, array)
    # a file that is saved again names numpy's type and not ours, so that stock fairseq reads it
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.dumps(read + 0 if array.dtype != bool else read, protocol)
        assert b"fairseq_attn_plugin" not in again
        np.testing.assert_array_equal(pickle.loads(again), array)


def test_plain_scalars_and_namespaces(tmp_path: Path) -> None:
    for scalar in (np.float64(0.25), np.float32(-1.5), np.int64(7), np.bool_(True)):
        read = round_trip(scalar, tmp_path / "file.pt")
        assert read == scalar and read.dtype == scalar.dtype
    options = argparse.Namespace(arch="lstm", lr=[0.1], nested=argparse.Namespace(a=None))
    assert round_trip(options, tmp_path / "file.pt") == options


POINTER = (0x4141414141414141).to_bytes(8, "little")
OBJECT_WITHOUT_FLAGS = Crafted(np.dtype, ("O", False, True), (3, "|", None, None, None, -1, -1, 0))
INT_WITH_OBJECT_FIELD = Crafted(
    np.dtype, ("i8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 8, 0)
)


RECONSTRUCT = np.zeros(1).__reduce__()[0]


def array_of(dtype: Any, shape: Tuple[int, ...] = (1,)) -> Crafted:
    return Crafted(RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, shape, dtype, False, POINTER))


REFUSED = {
    "os.system": Crafted(os.system, ("touch executed",)),
    "eval": Crafted(eval, ("open('executed', 'w')",)),
    "subprocess": Crafted(subprocess.check_call, (["touch", "executed"],)),
    "codecs": Crafted(codecs.decode, (b"x", "rot13")),
    # if numpy's own types are allowed, each of these makes numpy take bytes of the file for pointers to objects
    "object array": array_of(OBJECT_WITHOUT_FLAGS),
    "object field": array_of(INT_WITH_OBJECT_FIELD),
    "fewer bytes than the shape needs": array_of(np.dtype("f8"), shape=(1000,)),
    "ndarray on a buffer": Crafted(np.ndarray, ((1,), "O", POINTER)),
    "ndarray without state": Crafted(np.ndarray, ((4,), "O")),
    "object dtype": np.dtype("O"),
    "strings": np.array(["a", "b"]),
    "objects": np.array([{}, None]),
    "records": np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    "dates": np.zeros(2, dtype="M8[s]"),
}


@pytest.mark.parametrize("payload", REFUSED.values(), ids=REFUSED.keys())
def test_refused(payload: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"value": payload}, "file.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load("file.pt")
    assert os.listdir(tmp_path) == ["file.pt"], "the payload was executed"


def test_a_user_who_has_allowed_numpy_still_reads_arrays(tmp_path: Path) -> None:
    """torch chooses among two entries of one name at random, and numpy's types do not go with the stand-ins."""
    torch.save(np.arange(3.0), tmp_path / "file.pt")
    dtype = [np.dtype, type(np.dtype("f8"))]
    for chosen in ([np.ndarray], dtype, [np.ndarray, *dtype, RECONSTRUCT]):
        with torch.serialization.safe_globals(chosen):
            allowed = torch._weights_only_unpickler._get_user_allowed_globals()
            assert all(allowed[f"{one.__module__}.{one.__qualname__}"] is one for one in chosen)
            np.testing.assert_array_equal(torch.load(tmp_path / "file.pt"), np.arange(3.0))


def test_weights_only_stays_on() -> None:
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" not in os.environ
    allowed = {entry[0] if isinstance(entry, tuple) else entry for entry in torch.serialization.get_safe_globals()}
    assert not allowed & {np.ndarray, np.dtype, os.system, eval, exec, getattr}


def test_stand_ins_refuse_what_no_array_holds() -> None:
    with pytest.raises(pickle.UnpicklingError, match="'O'"):
        arrays.PlainDtype("O")
    with pytest.raises(pickle.UnpicklingError, match="class"):
        arrays.plain_array(dict, (0,), b"b")
    with pytest.raises(pickle.UnpicklingError, match="3 bytes"):
        arrays.plain_scalar(arrays.PlainDtype("f8"), b"abc")
