"""A checkpoint as a translator: alone, without its data folder, and with translations that begin with given words."""

import pytest
import torch

from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.decoding.export.runtime import one_line
from fairseq_attn_plugin.decoding.generator import Generator
from fairseq_attn_plugin.decoding.options import DecodingOptions
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


def test_extracts_the_corpus_of_its_folder(tiny_data, zoo, tmp_path):
    checkpoint, files = str(zoo("reversal").last), [tmp_path / "alone.jsonl", tmp_path / "both.jsonl"]
    for given, file in zip(([checkpoint], [str(tiny_data), "--path", checkpoint]), files):
        main(["extract", *given, "--out", str(file)])
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("command", [["translate"], ["serve", "--port", "0"]], ids=lambda words: words[0])
def test_a_folder_that_is_not_there(command, zoo, tmp_path):
    state = torch.load(zoo("reversal").last, weights_only=False)
    state["cfg"]["task"]["data"] = "nowhere"
    torch.save(state, tmp_path / "moved.pt")
    said = "moved.pt: was trained on nowhere, which is not there; name its dictionaries' folder first, and .* --path"
    with pytest.raises(OptionError, match=said):
        main([*command, str(tmp_path / "moved.pt")])


TEXTS = ("ama bel cor dun", "hus", "ilo zzz ama")


@pytest.fixture(scope="module")
def translators(tiny_data, zoo):
    def make(**options):
        return Translator(str(tiny_data), str(zoo("reversal").last), cpu=True, **options)

    stock = make(beam=4, decoding=DecodingOptions(decoding_engine="stock"))
    assert not isinstance(stock._generator, Generator)
    return {"beam": make(beam=4), "greedy": make(beam=1), "stock": stock}


def test_joiners_and_soft_hyphens_stay():
    assert one_line("می\u200cخواهم  Schiff\u00adfahrt\tda\u2028\x00hier\n") == "می\u200cخواهم Schiff\u00adfahrt da hier"


@pytest.mark.parametrize(
    "prefix", ["leb", "roc amA", "unseen nud", " amu\n", "roc leb ama and many more words than that"]
)
def test_translations_begin_with_the_prefix(translators, prefix):
    """The search of fairseq finds the same."""
    words = prefix.lower().split()
    known = translators["beam"].task.target_dictionary
    shown = [word if word in known else "<unk>" for word in words]
    for text in TEXTS:
        found = translators["beam"](text, 3, prefix)
        assert [one.record.target[: len(words)] for one in found] == [shown] * len(found)
        assert [one.given for one in found] == [len(words)] * len(found)
        expected = translators["stock"](text, 3, prefix)
        assert [one.text for one in found] == [one.text for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)
        assert translators["greedy"](text, prefix=prefix)[0].record.target[: len(words)] == shown


def test_the_best_translation_continues_its_own_beginning(translators):
    best = translators["greedy"](TEXTS[0])[0]
    again = translators["greedy"](TEXTS[0], prefix=" ".join(best.record.target[:2]))[0]
    assert again.text == best.text and again.record.scores == pytest.approx(best.record.scores, abs=1e-5)
    for prefix in ("", "  ", "\x00"):
        free = translators["greedy"](TEXTS[0], prefix=prefix)[0]
        assert free.text == best.text and free.given == 0


def test_prefixes_that_are_too_long_are_refused(translators):
    with pytest.raises(OptionError, match="the prefix is too long: 300 subwords, a translation has at most 2"):
        translators["beam"]("ama", prefix="amu " * 300)
    with pytest.raises(OptionError, match="the prefix is too long: 5001 characters"):
        translators["beam"]("ama", prefix="x" * 5001)


def test_a_prefix_is_split_as_the_target_is(tiny_data, zoo, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na m\nam a</w>\n")
    made = Translator(str(tiny_data), str(zoo("reversal").last), bpe_codes=str(codes), tokenizer="moses", cpu=True)
    one = made("ama", prefix="ama, AMA")[0]
    assert one.given == 3 and one.record.target[:3] == ["ama", "<unk>", "ama"]  # tokenised and in lower case
