"""fairseq-attn plot: which sentences, which matrices, which rows and columns, gold links, files, mistakes."""

import numpy as np
import pytest
from records_for_tests import record, write_records
from refusals import refuses

from fairseq_attn_plugin.analysis.alignment.links import parse_alignment
from fairseq_attn_plugin.analysis.drawing import panels
from fairseq_attn_plugin.analysis.drawing.panels import choose_sentences, panel_of
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.commands.analysis import plot as command

pytest.importorskip("matplotlib")


@pytest.fixture
def drawn(monkeypatch):
    """{name of the picture: panels}; nothing is drawn."""
    pictures = {}
    monkeypatch.setattr(command, "heatmaps", lambda panels, path: pictures.update({path.name: panels}))
    return pictures


def plot(*arguments):
    main(["plot", *map(str, arguments)])


def corpus(path, lengths, **options):
    """A sentence for each length of its source; 0 for one that is left out."""
    pairs = [(" ".join(f"s{i}" for i in range(length)), "t0 t1") for length in lengths]
    records = [record(number, *pair) for number, pair in enumerate(pairs) if pair[0]]
    return write_records(path, path.stem, records=records, **{"sentences": len(pairs), **options})


def test_which_sentences(tmp_path, drawn, capsys):
    one = corpus(tmp_path / "a.jsonl", [3, 5, 4, 6, 5, 5])
    other = corpus(tmp_path / "b.jsonl", [3, 0, 4, 6, 5, 5])

    def numbers(*options):
        drawn.clear()
        plot(one, other, *([] if "--out" in options else ["--out", tmp_path / "pictures"]), *options)
        return [int(name[len("sentence-") : -len(".png")]) for name in drawn]

    assert numbers("--sentences", 4, 0, 4, "--out", tmp_path / "lstm_adm.seed1") == [4, 0]
    assert numbers("--sentences", 4, 0, 4, "--out", tmp_path / "wmt.de") == [4, 0]
    assert (tmp_path / "lstm_adm.seed1").is_dir(), "a folder may be called as a training"
    assert numbers() == [0, 2, 3, 4, 5]  # 1 is not in both
    assert numbers("--first", 2) == [0, 2]
    assert capsys.readouterr().out.endswith("pictures: 2 pictures, sentence-0000.png to sentence-0002.png\n")


def test_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(panels, "_BLOCK", 2)
    systems = [
        open_records(corpus(tmp_path / "a.jsonl", [2, 3] * 6)),
        open_records(corpus(tmp_path / "b.jsonl", [2, 3, 0, 3, 2, 0] * 2)),
    ]
    for options, expected in (
        ({"first": 5}, [0, 1, 3, 4, 6]),
        ({"first": 50}, [0, 1, 3, 4, 6, 7, 9, 10]),
        ({"first": 3, "length": (3, 3)}, [1, 3, 7]),
        ({"numbers": [10, 0, 9, 1, 3]}, [10, 0, 9, 1, 3]),
    ):
        chosen = list(choose_sentences(systems, **options))
        assert [one.number for one in chosen] == expected
        assert all(record.id == one.number for one in chosen for record in one.records)


def test_words_subwords_and_ends():
    one = record(0, "ein klei@@ nes", "a sma@@ ll")
    # diagonal() gives 0.7 to columns 0, 1, 2 and 3, and 0.1 to the others
    words = panel_of(one, label="soft")
    assert (words.source, words.target, words.label) == (["ein", "kleines"], ["a", "small"], "soft")
    np.testing.assert_allclose(words.weights, [[0.7, 0.2], [0.1, 0.8]])
    pieces = panel_of(one, subwords=True, end=True)
    assert pieces.source == ["ein", "klei@@", "nes", "</s>"] and pieces.target == ["a", "sma@@", "ll", "</s>"]
    np.testing.assert_allclose(pieces.weights, one.attention)
    assert panel_of(one, subwords=True).weights.shape == (3, 3)
    ends = panel_of(one, end=True)
    assert ends.source[-1] == ends.target[-1] == "</s>"
    np.testing.assert_allclose(ends.weights[-1], [0.1, 0.2, 0.7])
    rows = record(0, "a b", "x y", np.array([[0.5, 1.5, 0], [0, 0, 0], [0, 0, 1]]))
    np.testing.assert_allclose(panel_of(rows, normalize=True).weights, [[0.25, 0.75], [0, 0]])


@pytest.mark.parametrize("subwords", ("sentencepiece", "none"))
def test_without_blanks_between_words_rows_and_columns_are_subwords(tmp_path, drawn, subwords):
    one = record(0, "\u2581日本 の 絵", "\u2581a \u2581b", subwords=subwords)
    path = write_records(tmp_path / "a.jsonl", records=[one], subwords=subwords, source_lang="ja")
    plot(path, "--out", tmp_path / "a.png")
    assert open_records(path).header.unspaced == (subwords == "sentencepiece")
    assert drawn["a.png"][0].source == ["\u2581日本", "の", "絵"]
    plot(path, "--out", tmp_path / "b.png", "--no-subwords")
    assert len(drawn["b.png"][0].source) == (1 if subwords == "sentencepiece" else 3)


def test_gold_links_of_words_and_of_their_pieces():
    one, gold = record(0, "ein klei@@ nes", "a sma@@ ll"), parse_alignment("0-0 1p1")
    panel = panel_of(one, gold=gold)
    assert panel.gold == {(0, 0)} and panel.possible == {(0, 0), (1, 1)}
    panel = panel_of(one, gold=gold, subwords=True)
    assert panel.possible == {(0, 0), (1, 1), (1, 2), (2, 1), (2, 2)}


@pytest.mark.parametrize(
    ("names", "options", "labels"),
    [
        ((), [], ["soft", "elbo"]),
        (("posterior", "bayes"), [], ["soft", "elbo: prior", "elbo: posterior"]),
        (("bayes",), [], ["soft", "elbo: prior", "elbo: exact posterior"]),
        (("posterior", "bayes"), ["--weights", "attention"], ["soft", "elbo: prior"]),
        (("posterior", "bayes"), ["--weights", "attention, bayes"], ["soft", "elbo: prior", "elbo: exact posterior"]),
    ],
)
def test_which_matrices(tmp_path, drawn, names, options, labels):
    soft = write_records(tmp_path / "soft.jsonl", records=[record(0, "a b", "x y")])
    latent = record(0, "a b", "x y")
    for shift, name in enumerate(names, 1):
        latent.weights[name] = np.roll(latent.attention, shift, axis=1)
    elbo = write_records(tmp_path / "elbo.jsonl", "elbo", records=[latent], weights=("attention", *names))
    plot(soft, elbo, "--out", tmp_path / "a.png", "--sentences", 0, *options)
    panels = drawn["a.png"]
    assert [panel.label for panel in panels] == labels
    for panel in panels:
        shift = ["prior", "posterior", "exact posterior"].index(panel.label.partition(": ")[2] or "prior")
        weights = np.roll(record(0, "a b", "x y").attention, min(shift, len(names)), axis=1)
        np.testing.assert_allclose(panel.weights, weights[:2, :2], atol=1e-5)


def test_gold(tmp_path, drawn, capsys):
    own = record(1, "c d", "z w", reference="z v")
    same = record(0, "a@@ b", "x y", reference="x y")
    soft = write_records(tmp_path / "soft.jsonl", records=[record(0, "ab", "x y"), record(1, "c d", "z v")])
    beam = write_records(tmp_path / "beam.jsonl", "beam", records=[same, own], target="beam 5", split="valid")
    gold = tmp_path / "gold"
    for content, options in (("0-1\n0-0 1p1\n", []), ("1-2\n1-1 2p2\n", ["--one-based"])):
        gold.write_text(content)
        plot(soft, beam, "--out", tmp_path, "--gold", gold, *options)
        assert [panel.gold for panel in drawn["sentence-0000.png"]] == [{(0, 1)}, {(0, 1)}]
        # the second translation is not what the gold links are about
        assert [panel.possible for panel in drawn["sentence-0001.png"]] == [{(0, 0), (1, 1)}, set()]
        assert "gold links belong to the references" in capsys.readouterr().err


@refuses(
    (["--sentences", 7], r"^--sentences 7: is not in \S*soft.jsonl; its corpus has 3 sentences, counted from 0,"),
    (["NONE"], r"^there is no sentence to draw in \S*soft.jsonl and \S*none.jsonl$"),
    (["--out", "OUT/a.jpg"], r"a.jpg: cannot draw .jpg; use .png, .svg, .pdf$"),
    (["--sentences", "0-99999999999"], r"--sentences 0-99999999999: must be a number, from 0 to 9999999"),
    (["--out", "OUT/a.xyz", "--first", 1], r"a.xyz: cannot draw .xyz; use .png, .svg, .pdf$"),
    (["--weights", "bayes"], r"^--weights bayes: \S*soft.jsonl has attention$"),
    (["--out", "OUT/a.png"], r"^--out \S*a.png: is one picture, not 3; give a folder, or one sentence to"),
    (["--out", "OUT/file"], r"^--out \S*file: cannot be created: File exists$"),
    (["--gold", "OUT/gold"], r"--gold \S*gold: sentence 0: link 3-0: the source has 3 words, .* --one-based$"),
    (["--gold", "OUT/first", "--one-based"], r"sentence 0: link 4-1: the source has 3 words, counted from 1$"),
    (["OTHER"], r"^sentence 0: \S*soft.jsonl and \S*other.jsonl have .* source words \('kleines' and 'klei@@'\)"),
    (["SHORT", "--sentences", 2], r"^--sentences 2: is not in \S*short.jsonl; its corpus has 3"),
)
def test_mistakes(options, tmp_path, drawn):
    soft = write_records(tmp_path / "soft.jsonl")
    files = {
        "OTHER": write_records(tmp_path / "other.jsonl", "other", subwords="none"),
        "NONE": write_records(tmp_path / "none.jsonl", "none", pairs=[], sentences=3),
        "SHORT": write_records(tmp_path / "short.jsonl", "short", pairs=[("ein kleines haus", "x")], sentences=3),
    }
    (tmp_path / "file").write_text("0-0\n")
    (tmp_path / "gold").write_text("3-0\n\n\n")
    (tmp_path / "first").write_text("4-1\n\n\n")
    options = [str(files.get(option, option)).replace("OUT", str(tmp_path)) for option in options]
    yield lambda: plot(soft, *options, *([] if "--out" in options else ["--out", tmp_path / "pictures"]))
    assert not drawn


def test_as_a_user_runs_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = [("$a$ <b> _c_", "x & y"), ("", "z"), ("das w@@ ort", "")]
    write_records(tmp_path / "soft.jsonl", pairs=pairs)
    write_records(tmp_path / "adm.jsonl", "adm", pairs=pairs)
    plot("soft.jsonl", "$MQT$=adm.jsonl", "--out", "pictures", "--normalize")
    names = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert names == [f"sentence-000{number}.png" for number in range(3)]
