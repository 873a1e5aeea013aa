"""Unknown words in the output of fairseq-generate, replaced by ``fairseq-attn replace-unk``."""

import io
import re
import subprocess

import pytest

from fairseq_attn_plugin.analysis import cli
from fairseq_attn_plugin.analysis.outputs.replacement import Count, replace_lines
from fairseq_attn_plugin.errors import OptionError

from cli import prepare

LEXICON = {"haus": "house", "schäferhund": "shepherd", "hund": "dog"}

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
        (("H-3\t-0.5\tthe <unk>", "H-3\tthe <unk>"), None, "line 4: must be H-3, a score and words, separated by tabs"),
        (("S-3\tdas haus in <unk>\n", ""), None, "line 3: no line S-3 precedes H-3; give the text with --source"),
        (
            ("0-0 1-1 2-2 3-3", "0-0 1-1 2-2 3-3 4-4"),
            None,
            "H-3 has 4 tokens and its source 4, which its alignment",
        ),
        (("0-0 1-1 2-2 3-3", "0-0 1-1 2-2 9-3"), None, "H-3 has 4 tokens and its source 4, which its alignment"),
        (("0-0 1-1 2-2 3-3", "0.5,0.5"), None, "run fairseq-generate without --remove-bpe and --post-process"),
        (("0-0 1-1 2-2 3-3", "0,x y,1"), None, "A-3 is not an alignment of fairseq-generate --print-alignment"),
        (("", ""), ["x"], "--source: has 1 lines, but standard input, line 4 is of sentence 3, counted from 0"),
        (("", ""), ["", "", "", "das haus"], "--source, line 4: has 2 words, S-3 has 4 tokens; give exactly the text"),
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
        "replaced 1 of 2 <unk>, 0 by the lexicon, 1 by the source word (1 are aligned to unknown source words: give "
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
    command, environment = prepare("fairseq-attn", "replace-unk")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8") as process:
        process.stdin.write("S-0\té\nH-0\t-1\t<unk>\nA-0\t0-0\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(3)] == ["S-0\té\n", "H-0\t-1\té\n", "A-0\t0-0\n"]
        process.stdin.close()
        assert process.wait(60) == 0
