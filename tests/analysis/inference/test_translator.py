"""A checkpoint as a translator: alone, without its data folder, and in batches."""

import os
import shutil
import sys

import numpy as np
import pytest
import torch
from records_for_tests import record

from fairseq_attn_plugin.analysis.inference.translation import translation_of
from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.commands import translate
from fairseq_attn_plugin.decoding.export.runtime import one_line
from fairseq_attn_plugin.errors import OptionError


def test_translates_as_with_its_data_folder(tiny_data, zoo, capsys):
    checkpoint, found = str(zoo("reversal").last), []
    for given in ([checkpoint], [str(tiny_data), "--path", checkpoint]):
        main(["translate", *given, "--beam", "2", "ama bel", "dora"])
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] and len(found[0].splitlines()) == 2


def test_lines_with_several_sentences_are_named(zoo, capsys):
    lines = ["ama bel", "Ama belle. Dora.", "ama", "Ama belle! Dora"]
    main(["translate", str(zoo("reversal").last), "--beam", "1", *lines])
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4
    assert "line 2 and 1 other: several sentences; a model that has learned single sentences may leave out" in err


@pytest.mark.parametrize("to_file", [False, True])
def test_a_terminal_shows_the_progress_unless_it_shows_the_translations(to_file, zoo, tmp_path, monkeypatch, capsys):
    (tmp_path / "text").write_text("ama bel\n" * 3)
    options = ["--input", str(tmp_path / "text"), *["--out", str(tmp_path / "out")] * to_file]
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    main(["translate", str(zoo("reversal").last), "--beam", "1", *options])
    out, err = capsys.readouterr()
    assert ("3 lines" in err) == (not out) == to_file


def test_what_was_translated_before_an_interruption_is_kept(zoo, tmp_path, monkeypatch, capsys):
    (tmp_path / "text").write_text("ama bel\n" * 3)
    monkeypatch.setattr(translate, "BUFFER", 2)
    of_lines = Translator.translate_all

    def interrupted(self, lines, nbest):
        if len(lines) < 2:
            raise KeyboardInterrupt
        return of_lines(self, lines, nbest)

    monkeypatch.setattr(Translator, "translate_all", interrupted)
    with pytest.raises(SystemExit):
        main(["translate", str(zoo("reversal").last), "--input", f"{tmp_path}/text", "--out", f"{tmp_path}/out"])
    assert "out.interrupted has the translations of the first 2 lines\n" in capsys.readouterr().err
    assert len((tmp_path / "out.interrupted").read_text().splitlines()) == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.interrupted", "text"]


@pytest.mark.parametrize("command", [["translate"], ["serve", "--port", "0"]], ids=lambda words: words[0])
def test_a_folder_that_is_not_there(command, zoo, tmp_path):
    state = torch.load(zoo("reversal").last, weights_only=False)
    state["cfg"]["task"]["data"] = "nowhere"
    torch.save(state, tmp_path / "moved.pt")
    said = "moved.pt: was trained on nowhere, which is not there; name its dictionaries' folder first, and .* --path"
    with pytest.raises(OptionError, match=said):
        main([*command, str(tmp_path / "moved.pt")])


def test_dictionaries_are_enough(tiny_data, zoo, tmp_path, capsys):
    """Of a training whose data, in several folders, named the languages."""
    for language in ("xx", "yy"):
        shutil.copy(tiny_data / f"dict.{language}.txt", tmp_path)
    state = torch.load(zoo("reversal").last, weights_only=False)
    state["cfg"]["task"]["data"] = os.pathsep.join([str(tmp_path), "nowhere"])
    torch.save(state, tmp_path / "moved.pt")
    for words in ([str(zoo("reversal").last)], [str(tmp_path / "moved.pt")]):
        main(["translate", *words, "--beam", "1", "ama bel cor"])
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


@pytest.mark.parametrize("side", ["xx", "yy"])
def test_one_side_in_subwords(side, tiny_data, zoo, tmp_path):
    """Words to subwords, as of Chinese to English, and back."""
    for language in ("xx", "yy"):
        words = (tiny_data / f"dict.{language}.txt").read_text()
        (tmp_path / f"dict.{language}.txt").write_text(words.replace(" ", "@@ ") if language == side else words)
    state = torch.load(zoo("reversal").last, weights_only=False)
    state["cfg"]["task"].update(source_lang="xx", target_lang="yy")
    del state["extra_state"]["dictionaries"]
    torch.save(state, tmp_path / "model.pt")
    in_words = Translator(str(tiny_data), str(zoo("reversal").last), beam=1, cpu=True)("ama bel")[0]
    found = Translator(str(tmp_path), str(tmp_path / "model.pt"), beam=1, cpu=True)
    (one,) = found("ama@@ bel@@" if side == "xx" else "ama bel")
    assert one.text == (in_words.text if side == "xx" else in_words.text.replace(" ", "")) and one.text
    assert one.record.source_words == (["amabel"] if side == "xx" else ["ama", "bel"])


def test_joiners_and_soft_hyphens_stay():
    assert one_line("می\u200cخواهم  Schiff\u00adfahrt\tda\u2028\x00hier\n") == "می\u200cخواهم Schiff\u00adfahrt da hier"


def test_a_model_that_has_hardly_learnt_may_write_the_beginning():
    found = translation_of(record(0, "ein hund", "<s> a <s> <unk>"), -1.0, [], False, str)
    assert (found.text, found.copied) == ("a <unk>", "a hund")


def test_an_unknown_piece_of_sentencepiece_is_the_whole_word():
    found = translation_of(record(0, "▁Ber lin", "▁a <unk>", subwords="sentencepiece"), -1.0, [], False, str)
    assert (found.text, found.copied) == ("a<unk>", "a Berlin")


def test_a_batch_has_the_attention_of_each_sentence_alone(tiny_data, zoo):
    """Of stock lstm, which moves the columns of sentences that are padded, too."""
    texts = ["ama bel", "ama zzz cor dun esk fim", "bel"]
    for name in ("lstm", "reversal"):
        made = Translator(str(tiny_data), str(zoo(name).last), beam=2, cpu=True)
        for text, (one, *_) in zip(texts, made.translate_all(texts, nbest=2), strict=True):
            alone = made(text)[0]
            assert one.text == alone.text and one.unknown == alone.unknown == [1] * ("zzz" in text)
            np.testing.assert_allclose(one.record.attention, alone.record.attention, atol=1e-5)


def test_one_sentence_is_no_list_and_a_list_no_sentence(tiny_data, zoo):
    translate = Translator(str(tiny_data), str(zoo("reversal").last), beam=1, cpu=True)
    with pytest.raises(OptionError, match="^'ama bel': must be a list of sentences"):
        translate.translate_all("ama bel")
    with pytest.raises(OptionError, match="^--nbest 2: must be from 1 to 1"):
        translate.translate_all(["ama bel"], nbest=2)
    for wrong in (["a", "b"], None):
        with pytest.raises(OptionError, match=r"^(\['a', 'b'\]|None): must be a sentence"):
            translate(wrong)


@pytest.mark.parametrize("option", ["tokenizer", "case"])
def test_a_slip_in_how_text_is_prepared(option, tiny_data, zoo):
    with pytest.raises(OptionError, match=f"^--{option} mosses: must be one of "):
        Translator(str(tiny_data), str(zoo("reversal").last), cpu=True, **{option: "mosses"})
