"""Crafted and damaged checkpoints: each is refused in one line, by every tool that reads it."""

import argparse
import copy
import resource
import zipfile
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from in_process import run_tool
from omegaconf import OmegaConf
from test_safe_files import Crafted

from fairseq_attn_plugin.analysis.inference.loading import data_of, load_models
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.checkpoints import check_finite
from fairseq_attn_plugin.errors import OptionError, one_line
from fairseq_attn_plugin.export import export_direction
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel
from fairseq_attn_plugin.patches.safe_files.checkpoints import Limit, _finite
from fairseq_attn_plugin.patches.safe_files.contents import check_state

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


def test_compressed_records_are_not_unpacked(tmp_path):
    big, bomb = tmp_path / "big.pt", tmp_path / "bomb.pt"
    save({"model": {"a": torch.zeros(25_000_000)}}, big)
    with zipfile.ZipFile(big) as old, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as new:
        for record in old.infolist():
            new.writestr(record.filename, old.read(record.filename))
    with mock.patch.object(torch, "load") as load, mock.patch.object(zipfile.ZipFile, "open") as unpack:
        assert "is compressed" in line_of(checkpoint_utils.load_checkpoint_to_cpu, str(bomb))
    assert not load.called and not unpack.called


def test_memory_that_is_not_in_the_file(state, tmp_path):
    laughs = ["ha"]
    for _ in range(40):
        laughs = [laughs, laughs]
    sparse = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (10**12,))
    for changes, said in (
        ({"model": {"a": torch.zeros(1).expand(10**9)}}, "a tensor of 1,000,000,000 elements in 4 bytes"),
        ({"model": {"a": Crafted(torch.Tensor, (10**8,))}}, "has tensors of 400,"),
        ({"extra_state": {"a": Crafted(bytearray, (10**11,))}}, "bytearray"),
        ({"model": {"a": sparse}}, "is not dense"),
        ({"cfg": {**state["cfg"], "task": {"data": laughs}}}, "of more than 100,000 values"),
    ):
        save({**state, **changes}, tmp_path / "file.pt")
        assert said in line_of(checkpoint_utils.load_checkpoint_to_cpu, str(tmp_path / "file.pt"))


def test_a_bytearray_of_bytes_is_read_as_before(tmp_path):
    save({"a": bytearray(b"abc"), "b": bytearray()}, tmp_path / "file.pt")
    assert torch.load(tmp_path / "file.pt") == {"a": bytearray(b"abc"), "b": bytearray()}


def test_a_state_that_was_read_before_bounds_its_model(state, tiny_data, tmp_path):
    """fairseq passes it on by position."""
    path = str(save(with_options(state, "task", "data", str(tiny_data)), tmp_path / "file.pt"))
    read = checkpoint_utils.load_checkpoint_to_cpu(path)
    with mock.patch.object(Limit, "ALWAYS", (0, 0)):
        models, _ = checkpoint_utils.load_model_ensemble([path], state=read)
    assert len(models) == 1


def test_a_configuration_of_omegaconf_loads(state, tmp_path, monkeypatch):
    """As in files of fairseq 1.0.0a0, if the user allows their types."""
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    cfg = {name: value for name, value in state["cfg"].items() if isinstance(value, dict)}
    path = save({**state, "cfg": OmegaConf.create(cfg)}, tmp_path / "file.pt")
    assert checkpoint_utils.load_checkpoint_to_cpu(str(path))["cfg"].task._name == "translation"
    save({**state, "cfg": OmegaConf.create({"task": {"data": "${oc.env:HOME}"}})}, path)
    assert "refers to another value" in line_of(checkpoint_utils.load_checkpoint_to_cpu, str(path))


# ---- the contents

BROKEN = {
    "bare state dict": lambda state: state["model"],
    "model alone": lambda state: {"model": state["model"]},
    "list": lambda state: [state],
    "nothing": lambda state: None,
    "number as model": lambda state: {**state, "model": 3},
    "empty model": lambda state: {**state, "model": {}},
    "text as parameter": lambda state: {**state, "model": {**state["model"], "decoder.x": "text"}},
    "number as name": lambda state: {**state, "model": {**state["model"], 3: torch.ones(1)}},
    "no extra_state": lambda state: {**state, "extra_state": None},
    "no history": lambda state: {**state, "optimizer_history": []},
    "history of text": lambda state: {**state, "optimizer_history": ["a"]},
    "empty history": lambda state: {**state, "optimizer_history": [{}]},
    "updates of text": lambda state: {**state, "optimizer_history": [{"num_updates": "a"}]},
    "iterator of text": lambda state: {**state, "extra_state": {"train_iterator": "a"}},
    "epoch of text": lambda state: {**state, "extra_state": {"train_iterator": {"epoch": "a"}}},
    "task_state": lambda state: {**state, "task_state": [3]},
    "args of text": lambda state: {**state, "args": "text"},
    "empty args": lambda state: {**state, "args": argparse.Namespace(), "cfg": None},
    "args of another task": lambda state: {**state, "args": argparse.Namespace(task="no", arch="lstm"), "cfg": None},
    "list as cfg": lambda state: {**state, "cfg": [1]},
    "tensor as model options": lambda state: with_options(state, "model", None, torch.ones(2)),
    "stream as path": lambda state: with_options(state, "model", "encoder_embed_path", 2),
    "text as task options": lambda state: with_options(state, "task", None, "translation"),
}
# refused by what uses the options only; a training has its own
UNUSABLE = {
    "no configuration": lambda state: {**state, "cfg": None},
    "empty configuration": lambda state: {**state, "cfg": {}},
    "no task": lambda state: with_options(state, "task", None, None),
    "no model": lambda state: with_options(state, "model", None, None),
    "unknown architecture": lambda state: with_options(state, "model", "_name", "nonsense"),
    "text as size": lambda state: with_options(state, "model", "encoder_hidden_size", "many"),
    "dictionary as attention": lambda state: with_options(state, "model", "attention", {"a": 1}),
    "negative size": lambda state: with_options(state, "model", "encoder_hidden_size", -1),
    "no layers": lambda state: with_options(state, "model", "decoder_layers", 0),
    "many layers": lambda state: with_options(state, "model", "encoder_layers", 10**8),
    "many units": lambda state: with_options(state, "model", "encoder_hidden_size", 99_999_999_999),
    "wide embeddings": lambda state: with_options(state, "model", "decoder_embed_dim", 10**7),
    "NaN": lambda state: {**state, "model": with_nan(state["model"])},
}
REFERENCES = {
    "environment": "${oc.env:SECRET}",
    "field": "${model.encoder_layers}",
    "escaped": "$\\{oc.env:SECRET\\}",
    "hidden in a literal": "'$' '{oc.env:SECRET}'",
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


def tools(data, path):
    """The lines of all that reads a checkpoint in order to use its model."""
    options = [data, "--user-dir", USER_DIR, "--path", path]
    yield run_tool("fairseq-generate", *options, fails=True).error
    yield run_tool("fairseq-interactive", *options, stdin="ama\n", fails=True).error
    yield line_of(load_models, str(data), str(path), cpu=True)  # fairseq-attn extract, serve and the others


def trainings(data, path, out):
    command = ["fairseq-train", data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "adam", "--lr", 0.01]
    command += ["--max-tokens", 500, "--max-update", 2, "--save-dir", out / "run", "--disable-validation"]
    for option in ("--restore-file", "--finetune-from-model"):
        yield run_tool(*command, option, path, fails=True).error


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name, state, tmp_path):
    path = save(BROKEN[name](state), tmp_path / "broken.pt")
    line = line_of(checkpoint_utils.load_checkpoint_to_cpu, str(path))
    assert str(path) in line and len(line) < 600
    by_use = name in ("empty history", "empty args", "args of another task")
    assert by_use or "must be a checkpoint that fairseq-train wrote" in line, line


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable(name, state, tiny_data, tmp_path):
    path = save(UNUSABLE[name](state), tmp_path / "unusable.pt")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = line_of(load_models, str(tiny_data), str(path), cpu=True)
    # a value that an option may not have is explained as on the command line
    assert len(line) < 600 and (str(path) in line or "--" in line)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def test_every_tool_has_the_line(state, tiny_data, tmp_path):
    path, exported = tmp_path / "file.pt", tmp_path / "exported.pt"
    save(BROKEN["no history"](state), path)
    lines = [*tools(tiny_data, path), *trainings(tiny_data, path, tmp_path)]
    lines += [line_of(export_direction, str(path), "xx-yy", str(exported)), line_of(data_of, str(path))]
    assert all(str(path) in line and len(line) < 600 for line in lines), lines
    save(UNUSABLE["many layers"](state), path)
    lines = [*tools(tiny_data, path), line_of(export_direction, str(path), "xx-yy", str(exported))]
    assert all((str(path) in line or "--" in line) and len(line) < 600 for line in lines), lines
    assert not exported.exists()


def test_a_training_does_not_continue_from_nan(state, tiny_data, tmp_path):
    path = save(UNUSABLE["NaN"](state), tmp_path / "diverged.pt")
    for line in trainings(tiny_data, path, tmp_path):
        assert line.startswith(f"checkpoint {path}: ") and "holds NaN or an infinity" in line


@pytest.mark.parametrize(
    "build_model",
    [
        lambda *_, **__: torch.nn.Linear(2, 3)(torch.zeros(5)),
        mock.Mock(side_effect=torch.cuda.OutOfMemoryError("CUDA out of memory")),
    ],
    ids=["code of a --user-dir", "out of memory"],
)
def test_faults_that_are_not_of_the_checkpoint_keep_their_trace(build_model, zoo, tiny_data, monkeypatch):
    monkeypatch.setattr(AttnLSTMModel, "build_model", build_model)
    with pytest.raises(RuntimeError, match="shape|memory") as raised:
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
    size = zoo("lstm_soft").last.stat().st_size
    args = argparse.Namespace(data="C:\\data", symbol="$", remove_bpe="@@ ", pattern="\\$x", lr=[0.1])
    check_state({**state, "args": args, "cfg": None}, "file", size)
    history = {"best_loss": 1.0, "optimizer": {}, "epoch": 3, "batch_offset": 0, "val_loss": None}
    check_state({"model": state["model"], "args": args, **history}, "file", size)  # fairseq before 0.6
    with pytest.raises(OptionError, match="looks like a bare state dict"):
        check_state(state["model"], "file", size)


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
