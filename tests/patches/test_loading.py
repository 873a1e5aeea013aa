"""What may be in a checkpoint, and what is refused."""

import argparse
import codecs
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy as np
import pytest
import torch

import fairseq_attn_plugin  # noqa: F401 (installs the patches)
from fairseq_attn_plugin.patches.safe_files import arrays

from cli import REPO, USER_DIR


def round_trip(value: Any, path: Path) -> Any:
    torch.save({"value": value}, path)
    return torch.load(path)["value"]


class Crafted:
    """Pickled as the call ``function(*arguments)``, followed by ``__setstate__(state)`` if there is one."""

    def __init__(self, function: Callable[..., Any], arguments: Tuple[Any, ...], state: Any = None) -> None:
        self.call = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.call


def test_namespace(tmp_path: Path) -> None:
    options = argparse.Namespace(arch="lstm", lr=[0.1], nested=argparse.Namespace(a=None))
    assert round_trip(options, tmp_path / "file.pt") == options


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


@pytest.mark.parametrize("scalar", [np.float64(0.25), np.float32(-1.5), np.int64(7), np.bool_(True)], ids=repr)
def test_plain_scalars(scalar: Any, tmp_path: Path) -> None:
    read = round_trip(scalar, tmp_path / "file.pt")
    assert read == scalar and read.dtype == scalar.dtype


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
    "getattr": Crafted(getattr, ("a string", "join")),
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


def python(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    env = dict(os.environ, PYTHONPATH=str(REPO), **environment)
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)


def test_import_registers_once_and_prints_nothing() -> None:
    """In a notebook, by --user-dir, and both: the models are there, and fairseq does not complain of duplicates."""
    done = python(
        "import argparse, fairseq_attn_plugin\n"
        "from fairseq import utils\n"
        "from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY\n"
        "before = dict(MODEL_REGISTRY), dict(ARCH_MODEL_REGISTRY)\n"
        "utils.import_user_module(argparse.Namespace(user_dir=%r))\n"
        "assert (MODEL_REGISTRY, ARCH_MODEL_REGISTRY) == before\n"
        "assert 'lstm_soft' in ARCH_MODEL_REGISTRY or 'lstm_soft' in MODEL_REGISTRY\n" % USER_DIR
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    ours = [line for line in done.stderr.splitlines() if "fairseq_attn_plugin" in line]
    # this one line is fairseq's own
    assert [line for line in ours if not line.endswith("has already been imported.")] == []


def test_attention_without_fairseq() -> None:
    """With neither fairseq nor hydra installed the attention mechanisms work, and OptionError is raised."""
    done = python(
        "import sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Hide(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.split('.')[0] in ('fairseq', 'fairseq_cli', 'hydra', 'omegaconf'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "import importlib.util\n"
        "find_spec = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'fairseq' else find_spec(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "import torch\n"
        "from fairseq_attn_plugin.attention import build_attention\n"
        "from fairseq_attn_plugin.errors import OptionError\n"
        "attention = build_attention('soft', query_dim=4, memory_dim=4)\n"
        "memory = attention.precompute(torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))\n"
        "context, weights, *_ = attention.step(torch.randn(2, 1, 4), memory, attention.initial_state(memory))\n"
        "assert context.shape == (2, 1, 4) and weights.shape == (2, 1, 3)\n"
        "try:\n"
        "    build_attention('no such mechanism', query_dim=4, memory_dim=4)\n"
        "except OptionError as error:\n"
        "    assert 'soft' in str(error)\n"
        "else:\n"
        "    raise AssertionError('an unknown mechanism was built')\n"
    )
    assert done.returncode == 0, done.stderr


def test_stand_ins_refuse_what_no_array_holds() -> None:
    with pytest.raises(pickle.UnpicklingError, match="'O'"):
        arrays.PlainDtype("O")
    with pytest.raises(pickle.UnpicklingError, match="class"):
        arrays.plain_array(dict, (0,), b"b")
    with pytest.raises(pickle.UnpicklingError, match="3 bytes"):
        arrays.plain_scalar(arrays.PlainDtype("f8"), b"abc")
