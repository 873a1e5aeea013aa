"""Damaged checkpoints, read by fairseq-attn extract and fairseq-generate, each in a process of its own."""

import argparse
import copy
import io
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from fuzzing import attempt_in_child, fuzz
from hypothesis import strategies as st
from in_process import run_tool
from mutations import damaged_bytes
from test_fuzz_records import strict

from fairseq_attn_plugin.cli import main

HOSTILE = "__import__('pathlib').Path('executed').touch()"
INTERPOLATION = "${oc.env:FUZZED_SECRET}"
SECRET = "this-is-no-secret"


@pytest.fixture(scope="module")
def valid(zoo):
    made = torch.load(zoo("lstm_soft").last, map_location="cpu", weights_only=False)
    return Valid({**made, "last_optimizer_state": None})


@pytest.fixture(scope="module")
def packed(zoo):
    return zoo("lstm_soft").last.read_bytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUZZED_SECRET", SECRET)
    return tmp_path


def plain(checkpoint: dict) -> dict:
    """A checkpoint whose configuration is of plain dictionaries, to be damaged."""
    cfg = checkpoint["cfg"].items()
    return {**checkpoint, "cfg": {name: vars(one) if isinstance(one, argparse.Namespace) else one for name, one in cfg}}


others = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, -1, 1, 7, 10**8, 2**63, 10**30, 0.5, float("nan"), float("inf"), "", "x", HOSTILE, INTERPOLATION]
    ),
    st.sampled_from([[], {}, [1, 2], {"a": 1}, [[]], ["x"]]).map(copy.deepcopy),
    st.builds(torch.zeros, st.sampled_from([(), (0,), (3,), (2, 2)])),
    st.builds(argparse.Namespace),
)


class Valid(dict):
    """A checkpoint that is printed in a word."""

    def __repr__(self) -> str:
        return "valid"


class Damaged:
    """A checkpoint, and what was done to it, which is what Hypothesis prints."""

    def __init__(self, made: object, *done: object):
        self.made, self.done = made, " ".join(map(str, done))

    def __repr__(self) -> str:
        return self.done[:200]


def damage_tensor(draw, tensor: torch.Tensor) -> object:
    change = draw(st.sampled_from(["nan", "inf", "cut", "shape", "kind", "expanded", "other"]))
    if change in ("nan", "inf"):
        tensor = tensor.clone()
        tensor.view(-1)[:1] = float(change)
        return tensor
    return {
        "cut": lambda: tensor[:-1].clone(),
        "shape": lambda: tensor.reshape(-1),
        "kind": lambda: tensor.to(draw(st.sampled_from([torch.float16, torch.int64, torch.bool, torch.complex64]))),
        "expanded": lambda: torch.zeros(1).expand(10**7, 10**5),  # of 4 bytes
        "other": lambda: draw(others),
    }[change]()


@st.composite
def damaged_checkpoint(draw, valid: dict) -> Damaged:
    made = plain(dict(valid))
    change = draw(st.sampled_from(["whole", "part", "part", "cfg", "cfg", "cfg", "model", "model"]))
    if change == "whole":
        whole = draw(st.sampled_from(["other", "state", "only the state", "list"]))
        choices = {"state": made["model"], "only the state": {"model": made["model"]}, "list": [made]}
        return Damaged(draw(others) if whole == "other" else choices[whole], whole)
    if change == "part":
        name = draw(st.sampled_from(sorted(made)))
        return Damaged(made, name, replaced(draw, made, name))
    if change == "model":
        made["model"] = OrderedDict(made["model"])
        name = draw(st.sampled_from(sorted(made["model"])))
        if draw(st.integers(0, 3)) == 0:
            del made["model"][name]
            return Damaged(made, name, "left out")
        new = draw(st.sampled_from([name, name, "strange.weight"]))
        made["model"][new] = damage_tensor(draw, made["model"][name])
        return Damaged(made, new, made["model"][new])
    made["cfg"] = {name: dict(one) if isinstance(one, dict) else one for name, one in made["cfg"].items()}
    section = draw(st.sampled_from(["model", "model", "task", *sorted(made["cfg"])]))
    if not made["cfg"][section] or draw(st.integers(0, 4)) == 0:
        return Damaged(made, "cfg", section, replaced(draw, made["cfg"], section))
    name = draw(st.sampled_from(sorted(made["cfg"][section])))
    done = ["cfg", section, name, replaced(draw, made["cfg"][section], name)]
    if draw(st.booleans()) and isinstance(made["cfg"]["model"], dict):
        made["cfg"]["model"] = argparse.Namespace(**made["cfg"]["model"])
        done.append("in a namespace")
    return Damaged(made, *done)


def replaced(draw, values: dict, name: str) -> object:
    if draw(st.integers(0, 4)) == 0:
        del values[name]
        return "left out"
    values[name] = draw(others)
    return repr(values[name])


def read(folder: Path, data: Path, checkpoint: bytes, tool: str) -> None:
    (folder / "damaged.pt").write_bytes(checkpoint)
    out = folder / "out.jsonl"
    for made in folder.glob("out*"):
        made.unlink()

    def run() -> None:
        if tool == "extract":
            main(["extract", str(data), "--path", "damaged.pt", "--gen-subset", "test", "--cpu", "--out", str(out)])
        else:
            run_tool("fairseq-generate", data, "--path", "damaged.pt", "--gen-subset", "test", "--cpu", "--beam", 2)

    def check() -> None:
        if tool == "extract":
            text = out.read_text(encoding="utf-8")
            assert SECRET not in text
            for line in text.splitlines():
                strict(line)

    ended = attempt_in_child(f"checkpoints, {tool}", run, check)
    assert SECRET not in ended.line
    assert not (folder / "executed").exists()


tools = st.sampled_from(["extract", "extract", "generate"])


@fuzz(st.data(), tools, examples=12)
def test_values(folder, tiny_data, valid, drawn, tool):
    stream = io.BytesIO()
    torch.save(drawn.draw(damaged_checkpoint(valid)).made, stream)
    read(folder, tiny_data, stream.getvalue(), tool)


@fuzz(st.data(), tools, examples=8)
def test_bytes(folder, tiny_data, packed, drawn, tool):
    """Bits flipped, parts left out, cut off, as in a download that failed."""
    read(folder, tiny_data, drawn.draw(damaged_bytes(packed)), tool)


def test_the_valid_one_is_read(folder, tiny_data, valid, packed):
    stream = io.BytesIO()
    torch.save(plain(valid), stream)
    for data in (packed, stream.getvalue()):
        for tool in ("extract", "generate"):
            read(folder, tiny_data, data, tool)
