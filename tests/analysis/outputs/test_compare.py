"""fairseq-attn compare: which words differ, scores, and the two forms in which sentences are shown."""

import re

import pytest
import sacrebleu
from refusals import refuses

from fairseq_attn_plugin.analysis.outputs.comparison import Span, add_comparison, compare
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError

REFERENCE = ["the cat sat on the mat .", "a dog <b>runs</b> .", "x"]
SYSTEMS = {
    "soft": ["the cat is on the mat .", "a dog <b>runs</b> .", "x"],
    "mqt": ["cat sat on a small mat .", "the <script>alert(1)</script> dog", ""],
}
SOURCE = ["die katze saß auf der matte .", "ein hund & <i>so</i>", "x"]


def spans(output, reference):
    return compare({"a": [output]}, [reference]).sentences[0].outputs[0].spans


def test_words_that_differ():
    reference = "the cat sat on the mat ."
    assert spans("the cat is on the mat .", reference) == [
        Span("same", ["the", "cat"]),
        Span("other", ["is"]),
        Span("same", "on the mat .".split()),
    ]
    # nothing stands in the place of "the" and "sat": they are missing; "a small" stands in that of "the"
    assert spans("cat on a small mat .", reference) == [
        Span("missing", ["the"]),
        Span("same", ["cat"]),
        Span("missing", ["sat"]),
        Span("same", ["on"]),
        Span("other", ["a", "small"]),
        Span("same", ["mat", "."]),
    ]
    assert spans("", "a b") == [Span("missing", ["a", "b"])]
    assert spans("a", "") == [Span("other", ["a"])] and spans("", "") == []


def test_scores_are_those_of_sacrebleu():
    result = compare(SYSTEMS, REFERENCE, tokenize="13a")
    for sentence in result.sentences:
        for output in sentence.outputs:
            pair = SYSTEMS[output.label][sentence.number], [REFERENCE[sentence.number]]
            assert output.scores["bleu"] == sacrebleu.sentence_bleu(*pair, use_effective_order=True).score
            assert output.scores["chrf"] == sacrebleu.sentence_chrf(*pair).score
    for label, lines in SYSTEMS.items():
        assert result.corpus[label]["bleu"] == sacrebleu.corpus_bleu(lines, [REFERENCE]).score
    assert "tok:13a" in result.signatures["bleu"] and "eff:no" in result.signatures["bleu"]
    assert [one.scores["bleu"] for one in compare({"a": ["X"]}, ["x"]).sentences[0].outputs] == [0.0]
    # Moses' escapes are part of the lines, and not of what is shown
    one, other = "it &apos;s a dog &amp; a cat", "it &apos;s one dog &amp; a cat"
    (sentence,), _, corpus, _ = compare({"a": [one]}, [other], [one])
    assert sentence.outputs[0].scores["chrf"] == sacrebleu.sentence_chrf(one, [other]).score
    assert corpus["a"]["chrf"] == sacrebleu.corpus_chrf([one], [[other]]).score
    assert sentence.source == "it 's a dog & a cat" and sentence.outputs[0].spans[0].words == ["it", "'s"]


def test_order_of_sentences():
    systems = {"a": ["x y z w", "x y z w", "q q q q"], "b": ["x y z w", "x q q q", "x q q q"]}
    reference = ["x y z w"] * 3

    def numbers(sort, **others):
        return [one.number for one in compare(systems, reference, sort=sort, **others).sentences]

    assert numbers("order") == [0, 1, 2] and numbers("best") == [0, 1, 2] and numbers("worst") == [2, 1, 0]
    assert numbers("difference", metric="chrf") == [1, 2, 0]
    assert numbers("best", metric="ter") == [0, 1, 2], "the lower, the better"
    assert numbers("worst", first=1) == [2] and numbers("order", sentences=[2, 0]) == [2, 0]
    assert numbers("best", sentences=[2, 1], first=1) == [1]
    with pytest.raises(OptionError, match="--sentences 3: there are 3 sentences"):
        numbers("order", sentences=[3])
    with pytest.raises(OptionError, match="has no sentences"):
        compare({"a": []}, [])


def printed(*arguments):
    document = Document("x")
    add_comparison(document, compare(*arguments))
    rows = [line.strip("| ").split("|") for line in document.markdown("").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


def test_as_markdown():
    rows = printed(SYSTEMS, REFERENCE, SOURCE)
    assert rows[0] == ["system", "BLEU", "chrF2", "TER"] and [row[0] for row in rows[2:4]] == ["soft", "mqt"]
    start = [row[0] for row in rows].index("sentence 0")
    source, reference, soft, mqt = rows[start + 2 : start + 6]
    assert source == ["source", "die katze saß auf der matte .", *["\u2013"] * 3]
    assert reference[:2] == ["reference", "the cat sat on the mat ."]
    assert soft[:2] == ["soft", "the cat +is+ on the mat ."] and all(re.fullmatch(r"\d+\.\d", one) for one in soft[2:])
    assert mqt[1] == "-the- cat sat on +a small+ mat ."
    assert printed({"a": ["x\x1b[2J y"]}, ["x z"])[-1][1] == "+x\ufffd\\[2J y+"


@pytest.fixture
def files(tmp_path):
    """Paths of the reference, the source and the outputs, as text."""
    texts = {"test.en": REFERENCE, "test.de": SOURCE, **{f"{label}.txt": lines for label, lines in SYSTEMS.items()}}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return tmp_path


def test_page(files, pages):
    out = files / "page.html"
    options = ["--source", str(files / "test.de"), "--reference", str(files / "test.en"), "--out", str(out)]
    main(["compare", f"soft <1>={files / 'soft.txt'}", str(files / "mqt.txt"), *options])
    pages.open(out.as_uri())
    assert pages.texts("article h2") == ["0", "1", "2"]
    assert pages.texts(".name")[2:4] == ["soft <1>", "mqt"]
    assert pages.texts("article:first-child .other") == ["is", "a small"]
    assert pages.texts("#s1 .output .other") == ["the <script>alert(1)</script>"]
    # no system has "sat on the mat" as a whole, but each of its words is matched by one of them
    assert not pages.texts("article .unseen")
    pages.one("#sort [value=difference]").click()
    assert pages.texts("article h2")[-1] == "0"
    pages.one("#search").send_keys("soft")  # the name of a system, in no sentence
    assert not pages.shown("article") and pages.one("#count").text == "0 of 3 sentences"
    pages.one("#search").clear()
    pages.one("#search").send_keys("KATZE mat")
    assert [one.get_attribute("id") for one in pages.shown("article")] == ["s0"]
    assert pages.one("#count").text == "1 of 3 sentences"
    pages.resize(390, 800)
    assert pages.script("return document.documentElement.scrollWidth") <= 390
    assert pages.requests() == [out.as_uri()] and not pages.problems()


def test_the_command(files, capsys):
    generated = "T-1\tx\nH-1\t-0.1\ta dog runs\nH-0\t-0.2\tthe cat\nH-2\t-0.2\tx\n"
    (files / "out.txt").write_text(generated)
    given = [str(files / "soft.txt"), f"bpe={files / 'out.txt'}", "--first", "2"]
    main(["compare", *given, "--reference", str(files / "test.en"), "--source", str(files / "test.de")])
    done = capsys.readouterr()
    assert "| the cat -sat on the mat .- " in done.out
    assert done.out.startswith("# Outputs compared\n") and "1 of 3 sentences not shown; --first 0" in done.err


@refuses(
    (["bpe.txt"], r"bpe: has subwords \(.*a@@\), --reference .*--remove-bpe"),
    (["short.txt"], r"short: has 1 sentences, --reference .*test\.en has 3"),
    (["--source", "short.txt"], r"--source .* has 1 sentences, --reference .* has 3"),
    (["--sort", "difference"], r"^--sort difference: needs the outputs of two systems$"),
    (["--out", "x.pdf"], r"--out x\.pdf: must end in \.html"),
)
def test_mistakes_are_named(options, files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    (files / "bpe.txt").write_text("a@@ b\nc\nd\n")
    (files / "short.txt").write_text("a\n")
    yield lambda: main(["compare", "soft.txt", *options, "--reference", "test.en"])
    assert capsys.readouterr().out == ""
