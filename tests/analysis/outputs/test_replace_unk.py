"""Unknown words replaced: the rules by hand, the filter, and fairseq's own option."""

import io
import re
import subprocess

import pytest

from fairseq_attn_plugin._replace_unk import positions_of, replace_unknown
from fairseq_attn_plugin.analysis import cli
from fairseq_attn_plugin.analysis.outputs.replacement import Count, replace_lines
from fairseq_attn_plugin.errors import OptionError

from cli import TINY, USER_DIR, prepare, run_cli

LEXICON = {"haus": "house", "schäferhund": "shepherd", "hund": "dog"}


@pytest.mark.parametrize(
    ("target", "source", "links", "expected"),
    [
        # words: from the lexicon, copied, to an unknown source word, to nothing
        ("the <unk> of <unk>", "das haus von berlin", {1: 1, 3: 3}, "the house of berlin"),
        ("<unk> <unk> <unk>", "haus <unk> haus", {0: 0, 1: 1}, "house <unk> <unk>"),
        ("<unk> <unk>", "haus haus", {0: 0, 1: 0}, "house house"),
        # a split word: its translation or itself, once
        ("the <unk> .", "der schä@@ fer@@ hund .", {1: 1}, "the shepherd ."),
        ("the <unk> <unk> .", "der schä@@ fer@@ hund .", {1: 1, 2: 2}, "the shepherd ."),
        ("<unk> <unk> , <unk>", "ber@@ lin , ber@@ lin", {0: 0, 1: 0, 3: 3}, "berlin , berlin"),
        ("<unk>", "ber@@ lin", {0: 1}, "berlin"),
        # the hypothesis spells the word
        ("<unk> t@@ <unk> !", "é@@ t@@ é !", {0: 0, 1: 1, 2: 2, 3: 3}, "é@@ t@@ é !"),
        ("Beyon@@ c@@ <unk> sings", "Beyon@@ c@@ é singt", {0: 0, 1: 1, 2: 2, 3: 3}, "Beyon@@ c@@ é sings"),
        ("x@@ <unk> y", "a@@ é@@ b c", {1: 1, 2: 3}, "x@@ é y"),
        # a piece that the lexicon has
        ("<unk>", "hund@@ e", {0: 0}, "hundsomething"),
    ],
)
def test_rules(target, source, links, expected):
    lexicon = {**LEXICON, "hund@@": "hundsomething"}
    done = replace_unknown(target.split(), source.split(), links, lexicon)
    assert " ".join(done.tokens) == expected
    assert len(done.words) == target.split().count("<unk>")
    assert done.from_lexicon + done.copied + done.tokens.count("<unk>") == len(done.words)


def test_numbers_by_hand():
    done = replace_unknown("<unk> <unk> <unk> <unk>".split(), "haus berlin <unk>".split(), {0: 0, 1: 1, 2: 2}, LEXICON)
    assert done == (["house", "berlin", "<unk>", "<unk>"], ["house", "berlin", "<unk>", "<unk>"], 1, 1)


def test_alignments_of_fairseq():
    assert positions_of([(3, 0), (1, 1)]) == {0: 3, 1: 1}
    # the end of the source, the last column, is no word; the last row is the end's
    assert positions_of([["0.1", "0.2", "0.7"], ["0.5", "0.4", "0.1"], ["0.0", "0.0", "1.0"]]) == {0: 1, 1: 0, 2: 0}
    assert positions_of([["1.0"], ["1.0"]]) == {} and positions_of([]) == {}
    # two source positions, the end included: rows of two weights are no pairs
    assert positions_of([["0.2", "0.8"]]) == {0: 0}


# ---- the filter

HARD = """2026 | INFO | something of fairseq
S-3\tdas haus in <unk>
T-3\tthe house in <<unk>>
H-3\t-0.5\tthe <unk> in <unk>
D-3\t-0.5\tThe <unk>, in <unk>!
P-3\t-0.1 -0.2 -0.3 -0.4 -0.5
A-3\t0-0 1-1 2-2 3-3
H-3\t-0.7\tthe house
D-3\t-0.7\tThe house
P-3\t-0.1 -0.2 -0.3
A-3\t0-0 1-1
S-0\t
H-0\t-1.0\t
A-0\t
Generate test with beam=2
"""
SOURCE = ["", "one", "two", "das haus in essen"]


def run(text, *args, **options):
    count = Count()
    lines = list(replace_lines(io.StringIO(text, newline=""), *args, count=count, **options))
    return "".join(lines), count


def test_only_unknown_words_change():
    replaced, count = run(HARD, LEXICON, SOURCE)
    expected = HARD.replace("the <unk> in <unk>", "the house in essen").replace("<unk>, in <unk>!", "house, in essen!")
    assert replaced == expected and (count.from_lexicon, count.copied, count.left) == (1, 1, 0)
    assert str(count) == "replaced 2 of 2 <unk>, 1 by the lexicon, 1 by the source word"
    replaced, count = run(HARD.replace("\n", "\r\n"), LEXICON)
    assert count == Count(1, 0, 1) and replaced == HARD.replace("\n", "\r\n").replace("the <unk>", "the house").replace(
        "The <unk>", "The house"
    )


def test_soft_alignments():
    rows = "0.9,0,0,0,0.1 0,0.4,0.1,0,0.5 0,0,1,0,0 0,0,0.2,0.8,0 0,0,0,0,1"
    soft = HARD.replace("A-3\t0-0 1-1 2-2 3-3", f"A-3\t{rows}")
    assert run(soft, LEXICON, SOURCE)[0] == run(HARD, LEXICON, SOURCE)[0].replace("0-0 1-1 2-2 3-3", rows)


BPE = """S-0\tder schä@@ fer@@ hund
T-0\tthe she@@ pherd
H-0\t-0.5\tthe <unk> <unk> r@@ uns
D-0\t-0.5\tthe <unk> <unk> runs
A-0\t0-0 1-1 2-2 3-3 3-4
"""


@pytest.mark.parametrize("source", [None, ["der schä@@ fer@@ hund"], ["der schäferhund"]])
def test_subwords(source):
    replaced, count = run(BPE, LEXICON, source, remove_bpe=True)
    assert count == Count(from_lexicon=2)
    assert replaced.splitlines() == [
        "S-0\tder schäferhund",
        "T-0\tthe shepherd",
        "H-0\t-0.5\tthe shepherd runs",
        "D-0\t-0.5\tthe shepherd runs",
        "A-0\t0-0 1-1 2-2 3-3 3-4",
    ]


@pytest.mark.parametrize(
    ("change", "source", "message"),
    [
        (("A-3\t0-0 1-1 2-2 3-3\n", ""), None, "standard input, line 4: H-3 has <unk>, and no line A-3 follows; run"),
        (("A-3", "A-4"), None, "H-3 has <unk>, and no line A-3 follows"),
        (("S-3\tdas haus in <unk>\n", ""), None, "line 3: no line S-3 comes before H-3; give the text by --source"),
        (
            ("0-0 1-1 2-2 3-3", "0-0 1-1 2-2 3-3 4-4"),
            None,
            "H-3 has 4 tokens and its source 4, which its alignment",
        ),
        (("0-0 1-1 2-2 3-3", "0-0 1-1 2-2 9-3"), None, "H-3 has 4 tokens and its source 4, which its alignment"),
        (("0-0 1-1 2-2 3-3", "0.5,0.5"), None, "run fairseq-generate without --remove-bpe and --post-process"),
        (("0-0 1-1 2-2 3-3", "0,x y,1"), None, "A-3 is no alignment of fairseq-generate --print-alignment"),
        (("", ""), ["x"], "--source: has 1 lines, standard input, line 4 is of sentence 3, counted from 0"),
        (("", ""), ["", "", "", "das haus"], "--source, line 4: has 2 words, S-3 has 4 tokens; give the text that was"),
    ],
)
def test_what_cannot_be_replaced(change, source, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        run(HARD.replace(*change) if change[0] else HARD, LEXICON, source)


def test_the_command_reads_and_writes_files(tmp_path, capsys, monkeypatch):
    for name, content in (("in", HARD), ("lexicon", "haus\thouse\t1\t3\n"), ("source", "\n".join(SOURCE))):
        (tmp_path / name).write_text(content)
    options = ["replace-unk", "--lexicon", str(tmp_path / "lexicon"), "--source", str(tmp_path / "source")]
    cli.main([*options, str(tmp_path / "in"), "--out", str(tmp_path / "out")])
    assert (tmp_path / "out").read_text() == run(HARD, LEXICON, SOURCE)[0]
    assert "replaced 2 of 2 <unk>" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO(HARD))
    cli.main(options[:1])
    printed = capsys.readouterr()
    assert printed.out == HARD.replace("the <unk> in", "the haus in").replace("The <unk>,", "The haus,")
    assert printed.err == (
        "replaced 1 of 2 <unk>, 0 by the lexicon, 1 by the source word (1 were aligned to unknown source words: give "
        "--source)\n"
    )
    (tmp_path / "in").write_text(HARD.replace("A-3", "X-3"))
    with pytest.raises(OptionError, match=r"in, line 4: H-3 has <unk>"):
        cli.main([*options, str(tmp_path / "in"), "--out", str(tmp_path / "not")])
    assert not (tmp_path / "not").exists()
    for wrong, message in ((tmp_path / "no", "cannot be read: No such file"), (tmp_path, "cannot be read: Is a dir")):
        with pytest.raises(OptionError, match=message):
            cli.main(["replace-unk", str(wrong)])
    (tmp_path / "in").write_bytes(b"S-0\t\xff\n")
    with pytest.raises(OptionError, match="in: is not UTF-8"):
        cli.main(["replace-unk", str(tmp_path / "in")])


def test_a_sentence_is_written_when_its_alignment_is_there(tmp_path):
    """For somebody who types into fairseq-interactive."""
    command, environment = prepare("attn-analysis", "replace-unk")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8") as process:
        process.stdin.write("S-0\té\nH-0\t-1\t<unk>\nA-0\t0-0\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(3)] == ["S-0\té\n", "H-0\t-1\té\n", "A-0\t0-0\n"]
        process.stdin.close()
        assert process.wait(60) == 0


# ---- fairseq's own option


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """Raw data with words that the vocabularies lack, and a model that has seen little of them."""
    folder = tmp_path_factory.mktemp("raw")
    known, rare = ["ama", "bel", "cor", "dun"], ["kru", "lom"]
    for split, lines in (("train", 40), ("test", 8)):
        sentences = [[known[(n + k) % 4] for k in range(n % 3 + 1)] + [rare[n % 2]] for n in range(lines)]
        (folder / f"{split}.xx").write_text("".join(" ".join(s) + "\n" for s in sentences))
        (folder / f"{split}.yy").write_text("".join(" ".join(w[::-1] for w in s) + "\n" for s in sentences))
    command = ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--dataset-impl", "raw"]
    command += ["--trainpref", folder / "train", "--validpref", folder / "test", "--testpref", folder / "test"]
    run_cli([*command, "--destdir", folder / "bin", "--nwordssrc", 8, "--nwordstgt", 8])
    command = ["fairseq-train", folder / "bin", "--user-dir", USER_DIR, "--dataset-impl", "raw", *TINY["lstm_soft"]]
    command += ["--optimizer", "adam", "--lr", 0.02, "--dropout", 0, "--batch-size", 10, "--max-epoch", 10, "--cpu"]
    run_cli([*command, "--save-dir", folder, "--no-epoch-checkpoints", "--num-workers", 0, "--disable-validation"])
    (folder / "lexicon.tsv").write_text("kru\turk\t0.9\t9\nkru\tother\t0.1\t1\n")
    return folder


def generate(folder, *options):
    command = ["fairseq-generate", folder / "bin", "--user-dir", USER_DIR, "--dataset-impl", "raw", "--cpu"]
    command += ["--beam", 1, "--path", folder / "checkpoint_last.pt", "--gen-subset", "test"]
    return run_cli([*command, *options]).stdout


def hypotheses(output):
    return dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", output, re.MULTILINE))


def test_fairseqs_option_does_as_the_filter(unknown):
    plain = generate(unknown, "--print-alignment")
    assert all("<unk>" in line for line in hypotheses(plain).values())
    source = (unknown / "test.xx").read_text().splitlines()
    expected = hypotheses(run(plain, {"kru": "urk"}, source)[0])
    assert not any("<unk>" in line for line in expected.values())
    assert any("urk" in line for line in expected.values()) and any("lom" in line for line in expected.values())
    replaced = generate(unknown, "--replace-unk", unknown / "lexicon.tsv", "--print-alignment", "soft")
    assert hypotheses(replaced) == expected


def test_fairseqs_option_without_file_or_alignment():
    import torch
    from fairseq import utils
    from fairseq.data import Dictionary

    assert utils.load_align_dict(None) is None
    assert utils.load_align_dict("@@ ") == {}, "what fairseq's parser makes of --replace-unk without a file"
    with pytest.raises(OptionError, match="--replace-unk /no/such/file: cannot be read: No such file"):
        utils.load_align_dict("/no/such/file")
    dictionary = Dictionary()
    known = dictionary.add_symbol("known")
    for tokens, fails in (([dictionary.unk(), 2], True), ([known, 2], False)):
        # what the generator gives as alignment where none was asked for
        arguments = (torch.tensor(tokens), "haus", torch.empty(0), {}, dictionary)
        if fails:
            with pytest.raises(OptionError, match="^--replace-unk: needs the alignment of the words; add --print-"):
                utils.post_process_prediction(*arguments)
        else:
            assert utils.post_process_prediction(*arguments)[1] == "known"


def test_subwords_are_looked_up_before_they_are_joined():
    import torch
    from fairseq import utils
    from fairseq.data import Dictionary

    import fairseq_attn_plugin  # noqa: F401

    dictionary = Dictionary()
    tokens = torch.tensor([dictionary.add_symbol("ber@@"), dictionary.add_symbol("lin"), dictionary.unk(), 2])
    source, pairs = "ber@@ lin haus", [(0, 0), (1, 1), (2, 2)]
    results = {
        remove: utils.post_process_prediction(tokens, source, pairs, {"haus": "house"}, dictionary, remove)
        for remove in (None, "@@ ")
    }
    assert [result[1] for result in results.values()] == ["ber@@ lin house", "berlin house"]
    assert all(result[2] is pairs for result in results.values())
    assert dictionary.string(results["@@ "][0]) == "berlin house"
    # without the option nothing has changed
    unchanged = utils.post_process_prediction(tokens, source, pairs, None, dictionary)
    assert unchanged[0] is tokens and unchanged[1] == "ber@@ lin <unk>"
