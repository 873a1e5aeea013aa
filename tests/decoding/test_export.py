"""fairseq-attn export: raw text in, the translations of fairseq-generate out, without torch and fairseq."""

import functools
import hashlib
import io
import json
import math
import os
import re
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from in_process import run_tool

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.commands.translate import _columns, _lines
from fairseq_attn_plugin.decoding.export import exported_folder, runtime
from fairseq_attn_plugin.decoding.export.exported_folder import flaw_of
from fairseq_attn_plugin.decoding.export.onnx_graphs import bound_loops
from fairseq_attn_plugin.decoding.export.runtime import Hypothesis, Translator, one_line, spell
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import read_settings
from fairseq_attn_plugin.text.subwords import spell as spell_subwords

from cli import USER_DIR, run_cli

pytest.importorskip("onnxruntime", reason="NO TEST OF EXPORTED MODELS: onnxruntime is missing")
pytest.importorskip("onnx", reason="NO TEST OF EXPORTED MODELS: onnx is missing")


def export(checkpoint, folder, *options):
    cli.main(["export", str(checkpoint), "--to", str(folder), *map(str, options)])
    return folder


@pytest.fixture(scope="module")
def exported(zoo, once):
    """``exported("reversal")``: the folder of a model of the zoo."""

    def folder_of(name, *options):
        made = once(
            "-".join(["exported", name, *options]), lambda place: export(zoo(name).last, place / "it", *options)
        )
        return str(made / "it")

    return folder_of


@pytest.fixture(scope="module")
def lines(tiny_data):
    return (tiny_data.parent / "text" / "test.xx").read_text().splitlines()


def of_fairseq(data, checkpoint, nbest, *options):
    """For every line the hypotheses of fairseq-generate: score (natural logarithm) and text."""
    given = ["--user-dir", USER_DIR, "--path", checkpoint, "--gen-subset", "test", "--no-progress-bar"]
    done = run_tool("fairseq-generate", data, *given, "--nbest", nbest, *options)
    found = {}
    for number, score, text in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", done.stdout, re.M):
        found.setdefault(int(number), []).append((float(score) * np.log(2), text))
    return [found[number] for number in range(len(found))]


@pytest.mark.parametrize(
    ("name", "beam", "lenpen"), [("reversal", 1, 1.0), ("reversal", 3, 0.5), ("latent", 3, 0.5), ("agreement", 3, 0.5)]
)
def test_hypotheses_are_those_of_fairseq(name, beam, lenpen, exported, zoo, tiny_data, lines):
    expected = of_fairseq(tiny_data, zoo(name).last, beam, "--beam", beam, "--lenpen", lenpen, "--batch-size", 7)
    found = Translator(exported(name), beam=beam, lenpen=lenpen, threads=1).search(lines, nbest=beam, batch_size=7)
    assert len(found) == len(expected) == 40
    for mine, theirs in zip(found, expected):
        assert [one.text for one in mine] == [text for _, text in theirs]
        assert [one.score for one in mine] == pytest.approx([score for score, _ in theirs], abs=2e-4)
        for one in mine:
            assert sum(one.scores) / (len(one.target) + 1) ** lenpen == pytest.approx(one.score, abs=1e-5)
            assert one.attention.shape == (len(one.target) + 1, len(one.source) + 1)
            np.testing.assert_allclose(one.attention.sum(1), 1, atol=1e-5)


def test_translations_end_where_they_must(exported, zoo, tiny_data, lines):
    """At the greatest length the end is the next word, probable or not."""
    expected = of_fairseq(tiny_data, zoo("reversal").last, 2, "--beam", 2, "--max-len-b", 3, "--min-len", 3)
    translator = Translator(exported("reversal"), beam=2)
    translator.settings.update(max_len_b=3, min_len=3)
    found = translator.search(lines, nbest=2)
    assert [[one.text for one in mine] for mine in found] == [[text for _, text in theirs] for theirs in expected]
    assert {len(one.target) for mine in found for one in mine} == {3}


def test_empty_lines_and_long_lines(exported):
    translator = Translator(exported("reversal"))
    assert translator.translate([]) == [] and translator.translate(["", " "]) == ["", ""]
    one, two = translator.translate(["", "AMA  bel\t", "ama bel"])[1:]
    assert one == two != ""
    with pytest.raises(ValueError, match="line 2: the sentence is too long: 1024 subwords, the model takes at"):
        translator.translate(["ama", "ama " * 1024])
    with pytest.raises(ValueError, match="^'ama bel': must be a list of lines$"):
        translator.translate("ama bel")
    # what looks like a special symbol is not one
    assert translator.encode(["</s>", "<pad>", "<unk>", "zzz", "ama"])[:4] == [3, 3, 3, 3]


WITHOUT = """
import sys, runpy
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "fairseq", "fairseq_attn_plugin", "sentencepiece", "subword_nmt"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])  # as for a script
runpy.run_path(sys.argv[0], run_name="__main__")
assert not {"torch", "fairseq", "fairseq_attn_plugin"} & set(sys.modules)
"""


def test_without_torch_and_fairseq(exported, lines, tmp_path):
    folder = exported("reversal")
    given, texts = "--alignments --beam 2 --threads 1 --batch-size 3".split(), [*lines[:8], "", "ama"]
    command = [sys.executable, "-c", WITHOUT, f"{folder}/translate.py", *given]
    done = run_cli(command, stdin="\n".join([*texts, ""]), cwd=tmp_path)
    expected = Translator(folder, beam=2).search(texts)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [text for text, _ in rows] == [found[0].text if found else "" for found in expected]
    pairs = [" ".join("%d-%d" % pair for pair in found[0].alignment()) if found else "" for found in expected]
    assert [links for _, links in rows] == pairs and any(pairs)


def test_settings_and_files(exported, zoo):
    folder = Path(exported("reversal"))
    settings = read_settings(folder)
    assert settings["languages"] == ["xx", "yy"] and settings["precision"] == "float32" and settings["beam"] == 5
    names = {path.name for path in folder.iterdir() if path.is_file()}  # Python may have compiled the program
    assert names == {*settings["files"], "settings.json"} >= {"README.md", "source.txt", "step.onnx", "translate.py"}
    for name, digest in settings["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert len((folder / "translate.py").read_text().splitlines()) <= 300


def test_int8_is_near(exported, lines):
    exact, fast = (Translator(exported("reversal", *given)) for given in ((), ("--precision", "int8")))
    assert fast.settings["precision"] == "int8"
    assert sum(map(str.__eq__, exact.translate(lines), fast.translate(lines))) >= 30


def test_text_is_prepared_as_the_model_knows_it(zoo, tiny_data, tmp_path):
    """Moses and BPE codes; the translation is detokenised."""
    from fairseq_attn_plugin.analysis.translator import Translator as OfTorch

    (tmp_path / "codes").write_text("#version: 0.2\na m\nam a</w>\n")
    given = ["--bpe-codes", tmp_path / "codes", "--tokenizer", "moses"]
    folder = export(zoo("reversal").last, tmp_path / "out" / "it", *given)
    text = 'AMA, "bel" &am'
    theirs = OfTorch(str(tiny_data), str(zoo("reversal").last), bpe_codes=str(tmp_path / "codes"), tokenizer="moses")
    (mine,) = Translator(str(folder)).search([text])
    assert mine[0].source == theirs.encode(text)[0] and mine[0].text == theirs(text)[0].text
    assert "pip install numpy onnxruntime subword-nmt sacremoses" in (folder / "README.md").read_text()


def test_sentencepiece(zoo, tmp_path):
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ama bel cor dun", "esk fim gol"] * 20),
        model_prefix=str(tmp_path / "sp"),
        vocab_size=24,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    folder = export(zoo("reversal").last, tmp_path / "it", "--sentencepiece-model", tmp_path / "sp.model")
    (mine,) = Translator(str(folder)).search(["ama bel"])
    expected = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sp.model"))
    assert mine[0].source == expected.encode("ama bel", out_type=str)


def test_unknown_words_are_copied(exported):
    """The source word with the greatest weight stands for an unknown word, once for several that look at it."""
    translator = Translator(exported("reversal"))
    weights = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.0, 0.8, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    known = translator.symbols[1].index("ama")
    translator.settings["subwords"] = "bpe"
    found = translator._readable(["x@@", "y", "z"], (-1.0, [known, 3, 3], [-1.0] * 4, weights), True)
    assert found.text == "ama xy" and found.attention.shape == (3, 4) and len(found.scores) == 3
    kept = translator._readable(["x@@", "y", "z"], (-1.0, [known, 3, 3], [-1.0] * 4, weights), False)
    assert kept.text == "ama <unk> <unk>" and kept.alignment() == [(0, 0), (0, 1), (0, 2)]


def test_a_model_without_attention(zoo, tiny_data, tmp_path):
    from training import SIZES, train

    trained = train(tiny_data, tmp_path / "m", "--arch", "lstm_soft", *SIZES, "--decoder-attention", "False", updates=3)
    translator = Translator(str(export(trained.last, tmp_path / "it")))
    assert translator.search(["ama"])[0][0].attention is None
    with pytest.raises(ValueError, match="the model has no attention"):
        translator.search(["ama"])[0][0].alignment()


def test_mistakes_are_named(zoo, tiny_data, tmp_path):
    checkpoint, to = str(zoo("reversal").last), tmp_path / "it"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "text").write_text("no checkpoint")
    for path, options, message in [
        (checkpoint, ["--precision", "int4"], "--precision int4: is unknown; choose from float32, int8"),
        (checkpoint, ["--to", tmp_path / "full"], "--to .*full: exists; name another folder, or remove it"),
        (checkpoint, ["--to", tmp_path / "text" / "it"], "--to .*it: cannot be written: "),
        (checkpoint, ["--beam", "0"], "--beam 0: must be at least 1"),
        (checkpoint, ["--bpe-codes", "gone"], "--bpe-codes gone: there is no such file"),
        (checkpoint, ["--data", "gone"], "^data folder gone: is not there; give the one that fairseq-preprocess"),
        (
            checkpoint,
            ["--to=", "--out=x", "--direction=a-b", "--beam=3"],
            "--beam 3: is of a folder, --to FOLDER; leave",
        ),
        (checkpoint, ["--tokenizer", "nltk"], "--tokenizer nltk: is not part of an exported model"),
        ("gone.pt", [], "gone.pt: there is no such file"),
        (zoo("lstm").last, [], "a LSTMModel cannot be exported; must be a translation model of this package"),
    ]:
        with pytest.raises(OptionError, match=message):
            export(path, to, *options)
    assert not to.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["full", "text"]
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["task"]["data"] = "nowhere"
    torch.save(state, tmp_path / "moved.pt")
    with pytest.raises(OptionError, match="moved.pt: was trained on nowhere, which is not there; .* --data"):
        export(tmp_path / "moved.pt", to)
    export(tmp_path / "moved.pt", to, "--data", tiny_data)
    assert (to / "step.onnx").exists()


def test_a_folder_of_something_else(tmp_path, exported):
    for options, message in [
        ({"beam": 0}, "--beam 0: must be a whole number from 1 to 10000"),
        ({"lenpen": math.nan}, "--lenpen NaN: must be a number from -10 to 10"),
        ({"threads": -1}, "--threads -1: must be a whole number from 0 to 1000"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}$"):
            Translator(exported("reversal"), **options)
    whole = read_settings(exported("reversal"))
    for name, value, message in [
        ("beam", True, "true: must be a whole number from 1 to 10000"),
        ("max_len", math.nan, "NaN: must be a whole number from 1 to 1000000"),
        ("max_len_a", -1, "-1: must be a number from 0 to 1000"),
        ("max_source_positions", None, "null: must be a whole number from 2 to 1000000"),
        ("subwords", "foo", '"foo": must be "bpe" or "sentencepiece" or "none"'),
        ("tokenizer", {}, "{}: must be null or of Moses"),
        ("languages", ["de"], '["de"]: must be two languages'),
        ("attention", 5, "5: must be null or a name"),
    ]:
        (tmp_path / "settings.json").write_text(json.dumps({**whole, name: value}))
        with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/settings.json: {name} {message}")):
            Translator(str(tmp_path))
    others = [{**whole, "format": "another"}, {**whole, "files": {}}, {**whole, "bpe": "subword_nmt"}, {"beam": 5}, []]
    others.append({**whole, "files": list(whole["files"])})
    for text in ("", "{", "\x00", "[" * 100_000, *map(json.dumps, others)):
        (tmp_path / "settings.json").write_text(text)
        with pytest.raises(ValueError, match=f"{tmp_path}/settings.json: is damaged, or of another program; copy"):
            Translator(str(tmp_path))


@pytest.fixture
def copy(exported, tmp_path):
    return Path(shutil.copytree(exported("reversal"), tmp_path / "copy"))


def signed(folder, **changes):
    """Settings that fit the files as they are."""
    settings = read_settings(folder)
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in settings["files"]}
    (folder / "settings.json").write_text(json.dumps({**settings, "files": digests, **changes}))


def test_a_file_that_was_not_exported(copy):
    for name in ("step.onnx", "target.txt", "README.md", "translate.py"):
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content[:-1] + b"x")
        with pytest.raises(ValueError, match=rf"^{copy}/{name}: is not what was exported \(SHA-256 in settings.json\)"):
            Translator(str(copy))
        (copy / name).unlink()
        with pytest.raises(ValueError, match=f"^{copy}/{name}: is missing; copy the whole"):
            Translator(str(copy))
        (copy / name).write_bytes(content)
    assert Translator(str(copy)).translate(["ama"]) != [""]
    outside = Path(shutil.copy(copy / "README.md", copy.parent))
    for name in (f"../{outside.name}", str(outside)):
        signed(copy, files={**read_settings(copy)["files"], name: hashlib.sha256(outside.read_bytes()).hexdigest()})
        with pytest.raises(ValueError, match=f"{outside.name}: is missing"):
            Translator(str(copy))


def test_graphs_vocabularies_and_settings_fit(copy):
    files = {name: (copy / name).read_bytes() for name in ("source.txt", "target.txt", "step.onnx", "encoder.onnx")}
    other = f"{copy}: encoder.onnx, step.onnx, source.txt .* do not fit each other; export the model again"
    for name, content, changes, message in [
        ("source.txt", files["source.txt"] + b"more\n", {}, other),
        ("source.txt", files["source.txt"].rsplit(b"\n", 2)[0], {}, other),
        ("target.txt", files["target.txt"] + b"more\n", {}, other),
        ("step.onnx", files["encoder.onnx"], {}, other),
        ("step.onnx", files["step.onnx"], {"attention": None}, other),
        ("step.onnx", b"not a graph", {}, f"{copy}/step.onnx: is damaged: "),
    ]:
        (copy / name).write_bytes(content)
        signed(copy, **changes)
        with pytest.raises(ValueError, match=f"^{message}") as raised:
            Translator(str(copy))
        assert "\n" not in str(raised.value)
        (copy / name).write_bytes(files[name])


def endless():
    """A graph whose loop never ends."""
    from onnx.parser import parse_model

    return parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        graph (int64[1,2] source) => (int64[1,2] out) <int64 most = {9223372036854775807}, bool true = {1}> {
            out = Loop <body = step (int64 i, bool on, int64[1,2] x) => (bool still, int64[1,2] y) {
                still = Identity(on)
                y = Identity(x)
            }> (most, true, source)
        }"""
    )


def test_a_graph_that_may_never_end_is_refused(copy, monkeypatch):
    import onnx

    onnx.save(endless(), copy / "encoder.onnx")
    signed(copy)
    with pytest.raises(ValueError, match="encoder.onnx: has a loop that may never end"):
        Translator(str(copy))
    model = endless()
    bound_loops(model)
    content = memoryview(model.SerializeToString())
    assert flaw_of(content) == ""
    monkeypatch.setattr(exported_folder, "MOST_ROUNDS", exported_folder.MOST_ROUNDS - 1)
    assert "may never end" in flaw_of(content)
    monkeypatch.undo()
    # a loop in a loop, and data in other files
    model = endless()
    model.graph.node[0].attribute[0].g.node.append(endless().graph.node[0])
    bound_loops(model)
    assert "may never end" in flaw_of(memoryview(model.SerializeToString()))
    for place in range(6):
        model = endless()
        graph = model.graph.node[0].attribute[0].g if place == 1 else model.graph
        sparse = model.graph.node[0].attribute.add() if place > 3 else graph
        sparse = (sparse.sparse_tensors if place > 3 else sparse.sparse_initializer).add() if place > 1 else None
        far = graph.initializer.add(name="far") if sparse is None else sparse.indices if place % 2 else sparse.values
        far.external_data.add(key="location", value="pipe")
        bound_loops(model)
        assert "data in other files" in flaw_of(memoryview(model.SerializeToString()))


def test_a_model_without_numbers_is_an_error(copy):
    """It names the sentence; an empty line would be taken for a translation."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(copy / "step.onnx"))
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(np.nan), tensor.name))
    onnx.save(model, copy / "step.onnx")
    signed(copy)
    with pytest.raises(FloatingPointError, match="^line 12: no translation has a finite probability; the model's par"):
        Translator(str(copy)).search(["", "ama"], before=10)
    with pytest.raises(OptionError, match="^the sentence 'ama bel': no translation has a finite probability"):
        cli.main(["translate", str(copy), "ama bel"])


def test_the_command_refuses_what_an_exported_model_does_not_have(copy):
    with pytest.raises(OptionError, match=f"^--decoding-precision int8: {copy} is an exported model, .*; leave it out"):
        cli.main(["translate", str(copy), "ama", "--decoding-precision", "int8"])
    with pytest.raises(OptionError, match=f"^--model-overrides x: {copy} is an exported model"):
        cli.main(["translate", str(copy), "ama", "--model-overrides", "x"])
    (copy / "settings.json").unlink()
    os.mkfifo(copy / "settings.json")  # which would wait for whoever writes into it
    with pytest.raises(OptionError, match=f"^{copy}: is no model folder, checkpoint or exported model"):
        cli.main(["translate", str(copy), "ama"])


@pytest.mark.parametrize("text", ["ama\x00bel\x7fcor", "ama\rbel\u2028cor", "ama\u200dbel \x1fcor", "AMA\xa0bel\tcor"])
def test_control_characters_are_those_of_the_command(text, exported):
    mine = Translator(exported("reversal"))
    assert mine.tokens(text) == one_line(text).lower().split()
    assert len(mine.tokens(text)) == (2 if "\u200d" in text else 3)


@pytest.mark.parametrize("name", ["sacremoses", "sentencepiece", "subword_nmt", "onnxruntime"])
def test_a_missing_package_is_named(name, copy, monkeypatch):
    models = {"sentencepiece": "sentencepiece.model", "subword_nmt": "bpe.codes"}
    changes = {"normalizer": "moses"} if name == "sacremoses" else {}
    if name in models:
        (copy / models[name]).touch()
        changes = {"bpe": name}
        signed(copy, files={**read_settings(copy)["files"], models[name]: ""})
    signed(copy, **changes)
    for module in (name, f"{name}.apply_bpe"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"^this model needs {name}: pip install {name.replace('_', '-')}$"):
        Translator(str(copy))


def test_mistakes_of_the_program_are_one_line(copy, monkeypatch, capsys):
    (copy / "target.txt").write_bytes(b"")
    for options, message in [
        (["--folder", str(copy)], f"{copy}/target.txt: is not what was exported"),
        (["--folder", str(copy.parent)], f"{copy.parent}/settings.json: is missing"),
    ]:
        with pytest.raises(SystemExit, match=f"^translate.py: error: {message}"):
            given(b"ama\n", lambda: runtime.main(options), monkeypatch)  # noqa: B023


def given(content, program, monkeypatch):
    """What a program writes to standard output for a standard input."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    program()
    sys.stdout.flush()
    return out.getvalue().decode()


def test_the_program_copies_unknown_words_on_demand(exported, monkeypatch):
    asked, readable = [], Translator._readable
    monkeypatch.setattr(Translator, "_readable", lambda *words: asked.append(words[3]) or readable(*words))
    for options in ([], ["--replace-unknown"]):
        command = ["--folder", str(exported("reversal")), *options]
        given(b"ama\n", functools.partial(runtime.main, command), monkeypatch)
    assert asked == [False, True]


def test_a_line_that_is_too_long_costs_no_other(exported, zoo, tiny_data, lines, tmp_path, monkeypatch, capsys):
    """As in fairseq-attn translate: one line in the log, an empty translation. A file is searched in batches."""
    texts = [*lines[:3], "ama " * 1024, "a" * 5001, *lines[3:20], "ama " * 3000, "ama\rbel\x00cor", lines[20]]
    folder, options, found = exported("reversal"), ["--beam", "2"], []
    of_torch = [str(tiny_data), "--path", str(zoo("reversal").last)]
    for program in (
        lambda: runtime.main(["--folder", folder, *options]),
        lambda: cli.main(["translate", folder, *options, "--keep-unknown"]),
        lambda: cli.main(["translate", *of_torch, *options, "--keep-unknown", "--cpu"]),
    ):
        written = given("\n".join([*texts, ""]).encode(), program, monkeypatch)
        found.append((written, capsys.readouterr().err))
        marked = given(b"\xef\xbb\xbfama\n", program, monkeypatch)
        assert marked == given(b"ama\n", program, monkeypatch), "a byte-order mark is no part of the first word"
        capsys.readouterr()
    (tmp_path / "lines").write_text("\n".join(texts), encoding="utf-8", newline="")
    of_file = ["translate", folder, *options, "--keep-unknown", "--input", str(tmp_path / "lines")]
    found.append((given(b"", lambda: cli.main(of_file), monkeypatch), capsys.readouterr().err))
    mine = found[0]
    assert found == [mine] * 4
    rows = mine[0].split("\n")[:-1]
    assert [place for place, row in enumerate(rows) if not row] == [3, 4, 22] and len(rows) == len(texts)
    assert mine[1].splitlines()[0] == (
        "line 4: the sentence is too long: 1024 subwords, the model takes at most 1023; its translation is empty"
    )
    assert ": 5001 characters" in mine[1]  # without the line's end
    for size in ("0", "-1"):
        with pytest.raises(SystemExit, match=f"^translate.py: error: --batch-size {size}: must be at least 1$"):
            given(b"ama\n", lambda: runtime.main(["--folder", folder, f"--batch-size={size}"]), monkeypatch)  # noqa: B023


def test_lines_of_a_pipe_are_translated_as_they_come(monkeypatch):
    sent, out, seen = [b"\xef\xbb\xbfama\nbe", b"l", b"\n\ncor \xc3", b"\xa4\n", b"dun", b""], io.BytesIO(), []
    pieces = iter(2 * sent)

    def read1(size):
        seen.append(out.getvalue().decode())
        return next(pieces)

    monkeypatch.setattr(sys, "stdin", Namespace(buffer=Namespace(read1=read1)))
    assert list(_lines(Namespace(text=[], input=None))) == [["ama"], ["bel", ""], ["cor ä"], ["dun"]]
    # of an exported model, too; an answer is there before the next line is awaited
    monkeypatch.setattr(runtime, "Translator", lambda *options: Namespace(search=search))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))

    def search(lines, *options):
        return [[Namespace(text=line.upper())] for line in lines]

    runtime.main([])
    assert seen[6:] == ["", "AMA\n", "AMA\n", "AMA\nBEL\n\n", "AMA\nBEL\n\nCOR Ä\n", "AMA\nBEL\n\nCOR Ä\n"]
    assert out.getvalue().decode() == "AMA\nBEL\n\nCOR Ä\nDUN\n"


def test_words_that_attend_to_the_end_alone_have_no_link():
    weights = np.array([[0.0, 0.0, 1.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]])
    one = runtime.Hypothesis(-1.0, ["a", "b"], ["c", "d"], [-1.0] * 3, weights, "none")
    assert one.alignment() == [(1, 1)]
    shown = Namespace(text="c d", copied="c d", score=-1.0, record=one)
    assert _columns(0, shown, Namespace(keep_unknown=False, nbest=1, alignments=True)) == ["c d", "1-1"]


def test_without_onnx(zoo, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(OptionError, match=r"pip install 'fairseq_attn_plugin\[export\]'"):
        export(zoo("reversal").last, tmp_path / "it")


def test_words_of_subwords():
    cases = [("bpe", ["a@@", "b", "c@@", "@@", "d@@"]), ("sentencepiece", ["\u2581a", "b", "\u2581", "c"])]
    for marks, tokens in [*cases, ("none", ["a@@", "b"]), ("bpe", []), ("sentencepiece", ["a", "\u2581b"])]:
        assert spell(tokens, marks)[0] == spell_subwords(tokens, marks)
    weights = np.array([[0.1, 0.2, 0.6, 0.1], [0.5, 0.2, 0.2, 0.1], [0, 0, 0, 1]])
    found = Hypothesis(-1.0, ["a@@", "b", "c"], ["d@@", "e"], [-1.0] * 3, weights, "bpe")
    assert found.target_words == ["de"] and found.source_words == ["ab", "c"]
    np.testing.assert_allclose(found.word_attention(), [[0.5, 0.4]])
    assert found.alignment() == [(0, 0)]
    # the symbol of the beginning is no text, whatever word it would be part of
    for marks, tokens in [("bpe", ["d@@", "<s>"]), ("none", ["<s>", "d"]), ("sentencepiece", ["\u2581d", "<s>"])]:
        found = Hypothesis(-1.0, ["a"], tokens, [-1.0] * 3, None, marks)
        assert found.text == "d" and found.target == tokens


def test_translate_reads_the_folder_as_it_reads_the_checkpoint(exported, zoo, tiny_data, lines, capsys):
    found = []
    options = [*lines[:5], "ama <zzz> dun", "--beam", "3", "--nbest", "2", "--alignments"]
    for model in ([exported("reversal")], [str(tiny_data), "--path", str(zoo("reversal").last), "--cpu"]):
        capsys.readouterr()
        cli.main(["translate", *model, *options])
        rows = [row.split("\t") for row in capsys.readouterr().out.splitlines()]
        found.append([[number, f"{float(score):.2f}", *rest] for number, score, *rest in rows])
    assert found[0] == found[1] and len(found[0]) == 12


def test_translate_searches_as_the_folder_was_exported(exported, lines, capsys):
    """Without options; both are those of the command line where it has them."""
    folder, found = exported("reversal", "--beam", "3", "--lenpen", "0.5"), []
    for options, beam, lenpen in (([], 3, 0.5), (["--beam", "2"], 2, 0.5), (["--lenpen", "2"], 3, 2.0)):
        capsys.readouterr()
        cli.main(["translate", folder, *lines, "--nbest", "2", "--keep-unknown", *options])
        found.append([row.split("\t")[1:] for row in capsys.readouterr().out.splitlines()])
        expected = Translator(folder, beam=beam, lenpen=lenpen).search(lines, nbest=2)
        assert [text for _, text in found[-1]] == [one.text for line in expected for one in line]
        scores = [one.score for line in expected for one in line]
        np.testing.assert_allclose([float(score) for score, _ in found[-1]], scores, atol=1e-3)
    assert found[0] != found[1] and found[0] != found[2]
    cli.main(["translate", exported("reversal", "--beam", "7"), lines[0], "--nbest", "6"])
    assert len(capsys.readouterr().out.splitlines()) >= 6
    with pytest.raises(OptionError, match="^--nbest 8: must be from 1 to 7, the width of the beam$"):
        cli.main(["translate", exported("reversal", "--beam", "7"), lines[0], "--nbest", "8"])


def test_an_error_of_a_library_is_one_line(exported, monkeypatch):
    """sentencepiece raises RuntimeError for a damaged subword model."""

    def fail(*_):
        raise RuntimeError("Internal:\n  no model")

    monkeypatch.setattr(runtime, "Translator", fail)
    with pytest.raises(OptionError, match="cannot be read as an exported model: Internal: no model$"):
        cli.main(["translate", exported("reversal"), "ama"])
