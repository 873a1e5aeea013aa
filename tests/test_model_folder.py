"""The model folder: every subcommand takes its name in the place of a checkpoint, and needs no further option."""

import json
import re
import shutil

import pytest
import torch

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.analysis.records import open_records
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import Text, open_model_folder, write_model_folder

MOSES = {"languages": ["xx", "yy"], "dash_splits": False, "escape": False}


@pytest.fixture(scope="module")
def folder(zoo, tiny_data, once):
    def make(folder):
        codes = folder.parent / "codes"
        codes.write_text("#version: 0.2\na m\nam a</w>\nb e\nbe l</w>\n")
        text = Text(False, "none", bpe_codes=str(codes), tokenizer=MOSES, normalizer="moses")
        content = {"languages": ["xx", "yy"], "data": None, "log": None}
        write_model_folder(folder, zoo("reversal").last, tiny_data, text, content)
        for name, to in (("test.xx", "test.xx"), ("test.yy", "test.yy"), ("test.yy", "test.hyp.yy")):
            lines = (tiny_data.parent / "text" / name).read_text().splitlines(keepends=True)
            (folder / to).write_text("".join(lines[:5]))

    return once("model-folder", make)


def test_the_folder_needs_nothing_else(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    found = open_model_folder(copy)
    assert found.languages == ("xx", "yy") and found.data == str(copy)
    assert sorted(path.name for path in copy.glob("[!at]*")) == [
        *("bpe.codes", "dict.xx.txt", "dict.yy.txt", "model.pt", "settings.json")
    ]
    assert torch.load(copy / "model.pt", weights_only=False)["last_optimizer_state"] is None
    assert found.detokenizer()("leb , ama !") == "leb, ama!"
    scores = {"scores": {"bleu": {"signature": "nrefs:1|tok:zh|version:2"}}}
    tokenizers = [one.bleu_tokenizer for one in (found, found._replace(settings={**found.settings, **scores}))]
    assert tokenizers == ["13a", "zh"]
    translator = Translator.of_folder(str(copy))
    assert translator.encode("ama “bel”")[0] == ["ama", '"', "bel", '"']  # normalised, tokenised, not escaped
    assert translator("ama bel")[0].text == "leb ama"


def test_text_of_a_folder_can_be_changed_by_an_option(folder, tmp_path):
    out = tmp_path / "a.jsonl"
    (tmp_path / "text").write_text("ama, BEL\n")
    command = ["extract", str(folder), "--source-text", str(tmp_path / "text"), "--beam", "1", "--out", str(out)]
    cli.main(command)
    assert next(iter(open_records(out))).source[:2] == ["ama", ","]
    assert open_records(out).header.name == "model-folder"
    cli.main([*command, "--case", "lower", "--overwrite"])
    assert next(iter(open_records(out))).source == ["ama", ",", "bel"]
    with pytest.raises(OptionError, match="^--case lower: needs --source-text"):  # what the folder sets is no mistake
        cli.main(["extract", str(folder), "--case", "lower", "--out", str(out)])


def test_commands_that_read_attention_extract_it_once(folder, tmp_path, capsys):
    page = tmp_path / "page.html"
    cli.main(["explore", str(folder), "--out", str(page)])
    assert "5 sentences" in capsys.readouterr().out and "model-folder" in page.read_text()
    made = folder / "attention" / "test.beam5.jsonl"
    before = made.stat().st_mtime_ns
    cli.main(["plot", f"mine={folder}", "--sentences", "2", "--out", str(tmp_path / "one.svg")])
    assert "mine" in (tmp_path / "one.svg").read_text() and made.stat().st_mtime_ns == before
    cli.main(["align", str(folder), "--out", str(tmp_path / "links")])
    assert len((tmp_path / "links").read_text().splitlines()) == 5
    assert open_records(folder / "attention" / "test.reference.jsonl").header.target == "reference"
    forced = made.with_name("test.reference.jsonl")
    for words, out in (
        (["confidence"], ["--json", str(made)]),
        (["aer", "--gold", str(tmp_path / "links")], ["--json", str(forced)]),
        (["lexicon"], ["--out", str(forced)]),
        (["align"], ["--out", str(forced)]),
    ):
        with pytest.raises(OptionError, match="is one of the files that are read, and would be lost"):
            cli.main([*words, str(folder), *out])
    cli.main(["lexicon", str(folder), "--out", str(tmp_path / "lexicon")])
    cli.main(["compare", str(folder)])
    assert re.search(r"\| model-folder +\| +100\.00 \|", capsys.readouterr().out)


def test_a_report_of_a_model_folder_or_of_several(folder, tmp_path, capsys):
    both = tmp_path / "both"
    for name in ("one", "two"):
        shutil.copytree(folder, both / name)
    command = ["--out", str(tmp_path / "report"), "--samples", "0"]
    cli.main(["report", str(both), *command])
    assert "| two" in (tmp_path / "report" / "report.md").read_text()
    cli.main(["report", str(both / "one"), *command])
    assert "| two" not in (tmp_path / "report" / "report.md").read_text()
    for side in ("xx", "yy", "hyp.yy"):  # one sentence less
        test = both / "two" / f"test.{side}"
        test.write_text("".join(test.read_text().splitlines(keepends=True)[1:]))
    cli.main(["report", str(both), *command])
    assert "two: left out: has 4 sentences, one has 5: another test set" in capsys.readouterr().err


def test_export_knows_the_text(folder, tmp_path):
    from fairseq_attn_plugin.decoding.export import runtime

    cli.main(["export", str(folder), "--to", str(tmp_path / "it")])
    exported = runtime.Translator(str(tmp_path / "it"))
    assert exported.tokens("ama “bel”") == ["ama", '"', "bel", '"']
    assert exported.translate(["ama bel"]) == ["leb ama"]


def test_models_of_other_test_sets_are_not_compared(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    texts = ["--reference", str(folder / "test.yy"), "--train", str(folder / "test.yy")]
    cli.main(["compare", str(folder), str(other)])
    (other / "test.yy").write_text((folder / "test.xx").read_text())
    for words in (["compare"], ["frequency", *texts]):
        with pytest.raises(OptionError, match=f"^{other}: has another test set than {folder}; compare models of one$"):
            cli.main([*words, str(folder), str(other)])


@pytest.mark.parametrize(
    "lost, said",
    [
        ("model.pt", "has no model.pt; copy the whole folder"),
        ("bpe.codes", "has no bpe.codes"),
        ("dict.yy.txt", "has no dict.yy.txt"),
    ],
)
def test_a_folder_that_lacks_a_file(folder, tmp_path, lost, said):
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / lost).unlink()
    with pytest.raises(OptionError, match=f"copy: {said}"):
        cli.main(["extract", str(copy), "--out", str(tmp_path / "x.jsonl")])


def test_damaged_and_unfinished_folders(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    settings = json.loads((copy / "settings.json").read_text())
    for damaged in (
        {name: value for name, value in settings.items() if name != "normalizer"},
        {**settings, "languages": None},
        {**settings, "bpe": "words"},
        {**settings, "tokenizer": []},
    ):
        (copy / "settings.json").write_text(json.dumps(damaged))
        with pytest.raises(OptionError, match="settings.json: is damaged"):
            open_model_folder(copy)
    (copy / "settings.json").write_text("[" * 100_000)
    assert open_model_folder(copy) is None
    (copy / "settings.json").unlink()
    assert open_model_folder(copy) is None and open_model_folder(tmp_path / "none") is None
    (copy / "training").mkdir()
    assert open_model_folder(copy) is None  # anybody's folder of this name
    (copy / "training" / "lock").touch()
    with pytest.raises(OptionError, match="its training has not ended"):
        open_model_folder(copy)


def test_data_without_a_checkpoint(tiny_data, tmp_path):
    with pytest.raises(OptionError, match="is no model folder of fairseq-attn train; give its checkpoint by --path"):
        cli.main(["extract", str(tiny_data), "--out", str(tmp_path / "x.jsonl")])
    (tmp_path / "test.hyp").write_text("a\n")
    with pytest.raises(OptionError, match="--reference: is missing"):
        cli.main(["compare", str(tmp_path / "test.hyp")])
