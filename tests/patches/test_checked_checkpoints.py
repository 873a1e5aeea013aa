"""Damaged and foreign checkpoints: each is refused in one line, by every tool that reads it."""

import argparse
import copy
import zipfile
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from in_process import run_tool
from training import training_command

from fairseq_attn_plugin.analysis.inference.loading import data_of, load_models
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.checkpoints import check_finite
from fairseq_attn_plugin.errors import OptionError, one_line
from fairseq_attn_plugin.export import export_direction
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel
from fairseq_attn_plugin.patches.safe_files.checkpoints import _finite, check_state

from cli import TINY, USER_DIR


@pytest.fixture
def state(zoo):
    return dict(torch.load(zoo("lstm_soft").last))


def line_of(function, *args, **kwargs):
    with pytest.raises(Exception) as raised:
        function(*args, **kwargs)
    line = one_line(raised.value)
    assert line is not None, "a trace is shown"
    return line


def save(state, path):
    torch.save(state, path)
    return path


# ---- the file


def test_flipped_bytes_are_found_wherever_they_are(zoo, tmp_path):
    whole = zoo("lstm_soft").last.read_bytes()
    with zipfile.ZipFile(zoo("lstm_soft").last) as archive:
        records = [record for record in archive.infolist() if record.file_size > 64]
        assert len(records) > 10
        for record in records[:: len(records) // 8]:
            damaged = bytearray(whole)
            # behind the header, whose name and padding have less than 200 bytes
            place = whole.index(archive.read(record.filename), record.header_offset)
            damaged[place + 40] ^= 1
            (tmp_path / "damaged.pt").write_bytes(damaged)
            line = line_of(checkpoint_utils.load_checkpoint_to_cpu, str(tmp_path / "damaged.pt"))
            assert record.filename in line and "is damaged" in line


def test_a_file_without_checksums_loads(state, tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        save(state, tmp_path / "none.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("none.pt", "old.pt"):
        read = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / name))["model"]
        assert all(torch.equal(read[key], value) for key, value in state["model"].items())


# ---- the contents

BROKEN = {
    "bare state dict": lambda state: state["model"],
    "list": lambda state: [state],
    "number as model": lambda state: {**state, "model": 3},
    "empty model": lambda state: {**state, "model": {}},
    "no extra_state": lambda state: {**state, "extra_state": None},
    "updates of text": lambda state: {**state, "optimizer_history": [{"num_updates": "a"}]},
    "empty args": lambda state: {**state, "args": argparse.Namespace(), "cfg": None},
    "list as cfg": lambda state: {**state, "cfg": [1]},
}
# refused by what uses the options only; a training has its own
UNUSABLE = {
    "no configuration": lambda state: {**state, "cfg": None},
    "no task": lambda state: with_options(state, "task", None, None),
    "no model": lambda state: with_options(state, "model", None, None),
    "unknown architecture": lambda state: with_options(state, "model", "_name", "nonsense"),
    "text as size": lambda state: with_options(state, "model", "encoder_hidden_size", "many"),
    "negative size": lambda state: with_options(state, "model", "encoder_hidden_size", -1),
    "text as parameter": lambda state: {**state, "model": {**state["model"], "decoder.x": "text"}},
    "NaN": lambda state: {**state, "model": with_nan(state["model"])},
}
REFERENCES = {
    "environment": "${oc.env:SECRET}",
    "field": "${model.encoder_layers}",
    "escaped": "$\\{oc.env:SECRET\\}",
    "hidden in a literal": "'$' '{oc.env:SECRET}'",
    "escaped in a literal": "'\\x24\\x7boc.env:SECRET}'",
    "in a list": ["a", {"b": ("${oc.env:SECRET}",)}],
    "bytes": b"${oc.env:SECRET}",
    "namespace": argparse.Namespace(a="${oc.env:SECRET}"),
    "key": {"${oc.env:SECRET}": 1},
}


def with_options(state, group, name, value):
    cfg = copy.deepcopy(state["cfg"])
    if name is None:
        cfg[group] = value
    else:
        cfg[group][name] = value
    return {**state, "cfg": cfg}


def with_nan(model):
    changed = {name: parameter.clone() for name, parameter in model.items()}
    changed[list(changed)[2]].view(-1)[1] = float("nan")
    return changed


def trainings(data, path, out):
    command = training_command(data, out / "run", *TINY["lstm_soft"], "--disable-validation", updates=2)
    for option in ("--restore-file", "--finetune-from-model"):
        yield run_tool(*command, option, path, fails=True).error


@pytest.mark.parametrize("name", [*BROKEN, *UNUSABLE])
def test_broken_or_unusable(name, state, tiny_data, tmp_path):
    path = save({**BROKEN, **UNUSABLE}[name](state), tmp_path / "file.pt")
    line = line_of(load_models, str(tiny_data), str(path), cpu=True)
    # a value that an option may not have is explained as on the command line
    assert len(line) < 600 and (str(path) in line or name in UNUSABLE and "--" in line)
    assert ("it is a bare state dict; must be a checkpoint that" in line) == (name == "bare state dict")


def test_every_tool_has_the_line(state, tiny_data, tmp_path):
    path, exported = tmp_path / "file.pt", tmp_path / "exported.pt"
    save(BROKEN["bare state dict"](state), path)
    lines, options = list(trainings(tiny_data, path, tmp_path)), [tiny_data, "--user-dir", USER_DIR, "--path", path]
    for tool in ("generate", "interactive"):
        lines.append(run_tool(f"fairseq-{tool}", *options, stdin="ama\n", fails=True).error)
    lines.append(line_of(load_models, str(tiny_data), str(path), cpu=True))  # fairseq-attn extract, serve and others
    lines += [line_of(export_direction, str(path), "xx-yy", str(exported)), line_of(data_of, str(path))]
    assert all("it is a bare state dict" in line and str(path) in line for line in lines), lines
    assert not exported.exists()


def test_a_training_does_not_continue_from_nan(state, tiny_data, tmp_path):
    path = save(UNUSABLE["NaN"](state), tmp_path / "diverged.pt")
    for line in trainings(tiny_data, path, tmp_path):
        assert line.startswith(f"checkpoint {path}: ") and "holds NaN or an infinity" in line


def test_memory_of_a_gpu_that_is_not_enough_keeps_its_trace(zoo, tiny_data, monkeypatch):
    error = torch.cuda.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(AttnLSTMModel, "build_model", mock.Mock(side_effect=error))
    with pytest.raises(torch.cuda.OutOfMemoryError) as raised:
        load_models(str(tiny_data), str(zoo("lstm_soft").last), cpu=True)
    assert one_line(raised.value) is None


def test_the_options_of_a_checkpoint_are_not_evaluated(zoo, tiny_data, tmp_path):
    state = torch.load(zoo("lstm").last)
    options = state["cfg"]["model"]
    options.criterion, options.adaptive_softmax_cutoff = "adaptive_loss", f"open({str(tmp_path / 'executed')!r}, 'w')"
    line = line_of(load_models, str(tiny_data), str(save(state, tmp_path / "hostile.pt")), cpu=True)
    assert "--adaptive-softmax-cutoff" in line and "must be a literal" in line
    assert not (tmp_path / "executed").exists()


def test_the_user_dir_of_a_checkpoint_is_not_imported(state, tiny_data, tmp_path):
    (tmp_path / "smuggled").mkdir()
    (tmp_path / "smuggled" / "__init__.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    path = save(with_options(state, "common", "user_dir", str(tmp_path / "smuggled")), tmp_path / "file.pt")
    load_models(str(tiny_data), str(path), cpu=True)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["nonsense", 3])
def test_an_unknown_task(name, state, tiny_data, tmp_path):
    """fairseq-generate has a task of its own."""
    path = save(with_options(state, "task", "_name", name), tmp_path / "file.pt")
    line = line_of(load_models, str(tiny_data), str(path), cpu=True)
    assert f"its task {name} is not registered" in line and str(path) in line
    path = save({**state, "args": argparse.Namespace(task=name, arch="lstm"), "cfg": None}, path)
    assert str(path) in line_of(load_models, str(tiny_data), str(path), cpu=True)


@pytest.mark.parametrize("name", REFERENCES)
def test_references_to_other_values(name, state, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "the secret")
    value = REFERENCES[name]
    options = argparse.Namespace(task="translation", arch="lstm_soft", source_lang=value)
    places = [
        with_options(state, "task", "source_lang", value),
        with_options(state, "model", "w2v_args", {"model": {"a": value}}),
        {**state, "cfg": None, "args": options},
        {**state, "cfg": None, "args": argparse.Namespace(**{**vars(options), "source_lang": "xx", "bpe": value})},
    ]
    for changed in places:
        path = save(changed, tmp_path / "file.pt")
        for read in (checkpoint_utils.load_checkpoint_to_cpu, data_of):
            line = line_of(read, str(path))
            assert "refers to another value" in line and "the secret" not in line and str(path) in line
        assert "refers to" in line_of(export_direction, str(path), "xx-yy", str(tmp_path / "out.pt"))


def test_what_fairseq_writes_passes(zoo, state, tiny_data):
    for name in ("lstm", "lstm_soft"):
        assert load_models(str(tiny_data), str(zoo(name).last), cpu=True).languages == ("xx", "yy")
    args = argparse.Namespace(data="C:\\data", symbol="$", remove_bpe="@@ ", pattern="\\$x", last={"a": "$", "b": {}})
    check_state({**state, "args": args, "cfg": None}, "file")


def test_the_first_parameter_that_is_not_finite_is_named():
    ones = torch.ones(3)
    for tensors, name in (
        ([("a", ones), ("b", torch.tensor([1.0, float("nan")])), ("c", ones / 0)], "b"),
        ([("a", ones), ("c", ones.half() / 0)], "c"),
    ):
        with pytest.raises(OptionError, match=f"file: {name} holds NaN or an infinity"):
            check_finite("file", tensors)
    # sums that overflow, of values that are finite
    largest = torch.full((4,), torch.finfo(torch.float32).max)
    check_finite("file", [("a", largest), ("b", torch.full((4,), 65504.0).half()), ("c", torch.ones(2).long())])


class Trainer:
    def __init__(self, bias):
        self.model = build_attention("soft", query_dim=4, memory_dim=4, bias=bias, bias_dim=3)

    def get_model(self):
        return self.model

    @_finite
    def load_checkpoint(self, filename, reset_optimizer=False):
        self.model.load_state_dict({"biases.position_vector": torch.ones(3)}, strict=False)
        return {}


def test_several_biases_of_an_earlier_version_need_a_new_optimizer():
    """Its state belongs to parameters in another order."""
    with pytest.raises(OptionError, match="checkpoint earlier.pt: was trained with several biases by an earlier"):
        Trainer("position,fertility").load_checkpoint("earlier.pt")
    assert Trainer("position,fertility").load_checkpoint("earlier.pt", True) == {}
    assert Trainer("position").load_checkpoint("earlier.pt") == {}
