"""What may be in a file: numbers and namespaces in a checkpoint, and literals where fairseq calls eval. No code."""

import argparse
import ast
import builtins
import codecs
import contextlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from fairseq import models, tasks, utils
from fairseq.models import ARCH_CONFIG_REGISTRY
from models_for_tests import dictionary, fake_task

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.safe_files import arrays
from fairseq_attn_plugin.patches.safe_files.literals import NotLiteral, literal

# ---- checkpoints


def round_trip(value, path):
    torch.save({"value": value}, path)
    return torch.load(path)["value"]


class Crafted:
    """Pickled as the call ``function(*arguments)``, followed by ``__setstate__(state)`` if there is one."""

    def __init__(self, function, arguments, state=None):
        self.call = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.random.RandomState(0).rand(3, 4)),
        np.array([[True, False]]),
        np.array(3.5, dtype=np.float32),
        np.arange(3, dtype=">i4"),
        np.array([1 + 2j]),
    ],
    ids=lambda array: "%s%s" % (array.dtype.str, array.shape),
)
def test_plain_arrays(array, tmp_path):
    read = round_trip(array, tmp_path / "file.pt")
    assert isinstance(read, np.ndarray) and read.dtype == array.dtype.newbyteorder("=") and read.shape == array.shape
    np.testing.assert_array_equal(read, array)
    # a file that is saved again names numpy's type and not ours, so that stock fairseq reads it
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.dumps(read + 0 if array.dtype != bool else read, protocol)
        assert b"fairseq_attn_plugin" not in again
        np.testing.assert_array_equal(pickle.loads(again), array)


def test_plain_scalars_and_namespaces(tmp_path):
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


def array_of(dtype, shape=(1,)):
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
def test_refused(payload, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"value": payload}, "file.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load("file.pt")
    assert os.listdir(tmp_path) == ["file.pt"], "the payload was executed"


def test_weights_only_stays_on():
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" not in os.environ
    with torch.serialization.safe_globals([np.ndarray, np.dtype]):  # the user has allowed numpy's own types
        allowed = torch._weights_only_unpickler._get_user_allowed_globals().values()
    assert not {np.ndarray, np.dtype, os.system, eval, exec, getattr} & set(allowed)


def test_stand_ins_refuse_what_no_array_holds():
    for call, words in (
        (lambda: arrays.plain_array(dict, (0,), b"b"), "class"),
        (lambda: arrays.plain_scalar(arrays.PlainDtype("i1"), "a"), "scalar of"),
        (lambda: arrays.plain_scalar(arrays.PlainDtype("f8"), b"abc"), "scalar of"),
    ):
        with pytest.raises(pickle.UnpicklingError, match=words):
            call()


# ---- literals


@pytest.mark.parametrize(
    "text",
    "True|None|3|-2|1e-3|0.9,0.98|(0.9, 0.999)|[(512, 3)] * 20|[(512, 10, 5)] + [(512, 3, 2)] * 4|"
    "{'a': [1, 'b']}|(1, [2] * 3)|'a' + 'b'|2 * 3 + 1|[]|3 * [True]|  7|[[1] * 3, (2,)]|{'a': [1] * 2}|1-2j".split("|"),
)
def test_a_literal_has_the_value_that_eval_gives(text):
    value = literal(text)
    assert value == eval(text) and type(value) is type(eval(text))


OTHERS = [
    *("", "x", "print(1)", "__import__('os').system('true')", "().__class__", "[x for x in (1,)]", "lambda: 1", "\0"),
    *("9 ** 9 ** 9", "5e-4/2", "-(2*3)", "-[1]", "{1, 2} - {1}", "{**{}}", "'%s' % 1", "f'{1}'", "[1] + 2"),
    *("[(512, 3)] * 10**9", "(" * 5000, "-" * 200_000 + "1"),
]


@pytest.mark.parametrize("text", OTHERS, ids=lambda text: text[:30] or "empty")
def test_everything_else_is_refused(text):
    with pytest.raises(NotLiteral, match="must be a literal") as refused:
        literal(text)
    assert refused.value.text == text and len(str(refused.value)) < 250


def test_what_is_no_text_is_refused_as_eval_does():
    for value in (True, [1], compile("1", "", "eval")):
        with pytest.raises(TypeError):
            literal(value)
    assert utils.eval_bool(object(), default=True) is True


def test_no_module_of_fairseq_has_the_builtin():
    """Reads the source of fairseq: who calls eval has the parser of literals under this name, and nobody calls exec."""
    folder, calling = Path(fairseq.__file__).parent, {}
    for path in folder.rglob("*.py"):
        if "examples" in path.parts:
            continue
        calls = [node.func for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
        names = {function.id for function in calls if isinstance(function, ast.Name)}
        assert not names & {"exec", "compile", "__import__"}, path
        assert b"builtins" not in path.read_bytes(), f"{path} may call eval by another name"
        if "eval" in names:
            name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            calling[name] = getattr(sys.modules.get(name), "eval", None)
    assert len(calling) > 15 and set(calling.values()) == {literal}, calling


@pytest.mark.parametrize(
    ("name", "option"),
    [("lstm", "adaptive_softmax_cutoff"), ("fconv", "encoder_layers"), ("multilingual", "left_pad_source")],
)
def test_no_option_runs_code(name, option, tmp_path, monkeypatch):
    """Each is one that stock fairseq runs: with the builtin under the name eval the file is there."""
    for side in ("xx", "yy"):
        dictionary().save(str(tmp_path / f"dict.{side}.txt"))
    made = tmp_path / "executed"
    texts = {option: f"open({str(made)!r}, 'w')"}

    def build():
        if name != "multilingual":
            options = argparse.Namespace(arch=name, criterion="adaptive_loss", **texts)
            ARCH_CONFIG_REGISTRY[name](options)
            return models.build_model(options, fake_task(), True)
        sides = dict.fromkeys(("source_lang", "target_lang", "encoder_langtok"))
        options = argparse.Namespace(task="multilingual_translation", data=str(tmp_path), lang_pairs="xx-yy", **sides)
        options.training, options.decoder_langtok, options.max_source_positions = True, False, 16
        vars(options).update(left_pad_target="False", **texts)
        return tasks.setup_task(options)

    with pytest.raises(OptionError, match=f"--{option.replace('_', '-')} .*: must be a literal"):
        build()
    assert not made.exists()
    for module in [one for name, one in sys.modules.items() if name.split(".")[0] == "fairseq"]:
        monkeypatch.setattr(module, "eval", builtins.eval, raising=False)
    with contextlib.suppress(Exception):  # a file is no value of the option
        build()
    assert made.exists()
