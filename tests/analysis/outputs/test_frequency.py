"""Frequencies of words, accuracy by training count, scores: worked examples, slow counts, sacrebleu, the command."""

import json
import random

import pytest
import sacrebleu
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.outputs.frequency import (
    CLOSEST,
    LEAST,
    Accuracy,
    Analysis,
    Bins,
    accuracy,
    count_bins,
    count_words,
    frequency_table,
    percent_bins,
    percentiles,
    shares,
)
from fairseq_attn_plugin.analysis.outputs.significance import score_systems
from fairseq_attn_plugin.errors import OptionError

# 10 words: the 4, of 2, cat dog 1 each, a 2
TRAINING = count_words(["the the of a cat", "the the of a dog", ""])


def test_percentiles_by_hand():
    # rarest first: cat, dog (1 each, 2 of 10 words), then of, a (2 each, 4 of 10), then the (4 of 10)
    assert TRAINING == {"the": 4, "of": 2, "a": 2, "cat": 1, "dog": 1}
    assert percentiles(TRAINING) == {"cat": 10.0, "dog": 10.0, "of": 40.0, "a": 40.0, "the": 80.0}


def test_accuracy_by_hand():
    assert count_bins(TRAINING).names == ("unseen", "1", "2-4", "5-9", "10-99", "100-999", "1000+")
    assert shares({}, percent_bins(TRAINING)) == [0.0] * 11
    one = Accuracy(1, 1, 2)
    assert (one.precision, one.recall, one.f1) == (1.0, 0.5, pytest.approx(2 / 3))
    assert (Accuracy(0, 0, 2).precision, Accuracy(0, 2, 0).recall, Accuracy(0, 0, 0).f1) == (None, None, None)


def test_accuracy_equals_striking_out_words_one_by_one():
    rng = random.Random(2)
    vocabulary = ["the", "of", "a", "cat", "dog", "new"]
    texts = [[" ".join(rng.choices(vocabulary, k=rng.randint(0, 9))) for _ in range(200)] for _ in range(2)]
    bins = count_bins(TRAINING)
    expected = [[0, 0, 0] for _ in bins.names]
    for output, reference in zip(*texts):
        left = reference.split()
        for word in left:
            expected[bins.of(word)][2] += 1
        for word in output.split():
            expected[bins.of(word)][1] += 1
            if word in left:
                left.remove(word)
                expected[bins.of(word)][0] += 1
    assert [[one.matches, one.output, one.reference] for one in accuracy(*texts, bins)] == expected


# ---- scores


def corpus(seed, errors, lines=60):
    """Sentences of ten words, always the same, and these with some of the words replaced."""
    reference = [" ".join(random.Random(number).choices("abcdefghij", k=10)) for number in range(lines)]
    rng = random.Random(seed)
    return reference, [" ".join(w if rng.random() > errors else "x" for w in line.split()) for line in reference]


def test_scores_are_sacrebleus():
    reference, good = corpus(1, 0.1)
    bad = corpus(1, 0.4)[1]
    systems = {"bad": [bad], "good": [good]}
    alone, signatures = score_systems(systems, reference)
    for label, (lines,) in systems.items():
        assert alone["BLEU"][label].value == sacrebleu.corpus_bleu(lines, [reference], tokenize="none").score
        assert alone["chrF2"][label].value == sacrebleu.corpus_chrf(lines, [reference]).score
        assert alone["TER"][label].value == sacrebleu.corpus_ter(lines, [reference]).score
        assert alone["BLEU"][label].p_value is None and alone["BLEU"][label].interval is None
    assert "tok:none" in signatures["BLEU"] and "case:lc" in signatures["TER"]
    tested, _ = score_systems(systems, reference, baseline="good", samples=100)
    assert list(tested["BLEU"]) == ["bad", "good"]
    for metric in ("BLEU", "chrF2", "TER"):
        good, bad = tested[metric]["good"], tested[metric]["bad"]
        assert good.value == pytest.approx(alone[metric]["good"].value)
        assert good.p_value is None and bad.p_value == pytest.approx(1 / 101), "no sample of 100 differs as much"
        assert 0 < good.interval < 10
    assert score_systems(systems, reference, baseline="good", samples=100)[0] == tested


def test_systems_that_do_not_differ_and_scores_of_zero_are_not_tested():
    reference, one = corpus(1, 0.2)
    seeds = [one, corpus(3, 0.2)[1], corpus(4, 0.3)[1]]
    systems = {"one": seeds, "same": seeds[1:] + seeds[:1], "as good": [corpus(2, 0.2)[1]]}
    for of in score_systems(systems, reference, baseline="one", samples=50)[0].values():
        assert of["same"].value == pytest.approx(of["one"].value) and of["same"].p_value is None
        assert 0.05 < of["as good"].p_value < 1
    systems = {"one": [one], "nothing": [["x"] * len(one)], "perfect": [reference]}
    scores, _ = score_systems(systems, reference, baseline="one", samples=50)
    assert scores["BLEU"]["nothing"].value == 0 and scores["BLEU"]["nothing"].p_value is None
    assert scores["chrF2"]["nothing"].p_value is None and scores["TER"]["nothing"].p_value < 0.05
    assert scores["TER"]["perfect"].value == 0 and scores["TER"]["perfect"].p_value < 0.05
    scores, _ = score_systems(systems, reference, baseline="nothing", samples=50)
    assert {score.p_value for score in scores["BLEU"].values()} == {None}
    scores, _ = score_systems({"one": [one[:1]], "other": [["w1 w2"]]}, reference[:1], baseline="one", samples=50)
    assert {score.p_value for of in scores.values() for score in of.values()} == {None}, "a sample is the test set"


def test_the_same_seeds_are_compared():
    reference, one = corpus(1, 0.2)
    late, other = corpus(2, 0.3)[1], corpus(3, 0.2)[1]
    systems = {"a": [late, other], "b": [one]}

    def p_values(systems, **given):
        scores, _ = score_systems(systems, reference, "a", samples=50, **given)
        return {metric: of["b"].p_value for metric, of in scores.items()}

    matched, pooled = p_values({"a": [other], "b": [one]}), p_values(systems)
    assert matched != pooled
    assert p_values(systems, seeds_of={"a": [2, 1], "b": [1]}) == matched
    assert p_values(systems, seeds_of={"a": [2, 3], "b": [1]}) == pooled, "none in common"
    assert p_values(systems, seeds_of={"a": [], "b": [1]}) == pooled, "not known"


# ---- the command


@pytest.fixture
def files(tmp_path):
    (tmp_path / "train").write_text("the the of a cat\nthe the of a dog\n")
    (tmp_path / "ref").write_text("the cat of a dog\nthe dog\n\n")
    (tmp_path / "hyp").write_text("the cat of the $dog$\n\na\n")
    (tmp_path / "_2").write_text("the cat of a dog\nthe do@@ g\n\n".replace("@@ ", ""))
    return tmp_path


def command(files, *options, systems=("hyp", "_2")):
    named = [str(files / name) for name in systems]
    return ["frequency", *named, "--train", str(files / "train"), "--reference", str(files / "ref"), *map(str, options)]


def test_tables_and_json(files, capsys):
    path = files / "all.json"
    cli.main(command(files, "--json", path))
    printed = capsys.readouterr().out
    values = json.loads(path.read_text())
    assert values["rare_bins"] == ["0-10 %", "10-20 %", "20-30 %"]
    assert values["different_words_in_bins"] == [0, 2, 0, 0, 2, 0, 0, 0, 1, 0, 0]
    assert values["reference"]["words"] == 7 and values["reference"]["different_words"] == 5
    assert values["reference"]["rare_share"] == pytest.approx(100 / 7)
    hyp, same = values["systems"]["hyp"], values["systems"]["_2"]
    # of 6 words: cat; of, a; the, the; $dog$. The rare one is 100 / 6 in one of three bins
    assert hyp["shares"][1::3] == pytest.approx([100 / 6, 200 / 6, 0, 100 / 6])
    assert hyp["rare_share"] == pytest.approx(100 / 18) and hyp["rare_deviation"] == pytest.approx(-61.1111, abs=1e-3)
    assert hyp["deviations"][-1] is None and same["deviations"][1] == 0.0
    rare = {"matches": 1, "output": 1, "reference": 3, "precision": 1.0, "recall": pytest.approx(1 / 3), "f1": 0.5}
    assert hyp["accuracy"]["1"] == rare
    assert "| 10-20 %" in printed and "16.67 (-61.1)" in printed and f"42.86 (+0.0 {CLOSEST}{LEAST})" in printed
    assert "| rare: mean of 3 |" in printed and "50.0 (100.0 / 33.3)" in printed
    (files / "training").write_text("a\nb\nc\n")
    with pytest.raises(OptionError, match="training: is the name of another column"):
        cli.main(command(files, systems=["training"]))


def test_the_table_marks_both_criteria():
    """Table 4 of the density-matrix paper: closest to the reference, and least over-representation."""
    names, bins = ("baseline", "structured", "mqt"), ("En-Vi", "Vi-En", "En-Ro", "Ro-En")
    deviations = (-4.82, -10.77, -4.59, 34.23), (11.57, -20.85, 14.61, 37.47), (0.28, -8.68, -7.87, 23.17)
    of = {name: [100 + value for value in values] for name, values in zip(names, deviations)}
    analysis = Analysis(
        Bins(bins, lambda word: 0),
        Bins((), lambda word: 0),
        dict.fromkeys(("training", "reference", *names), (1, 1)),
        [0] * len(bins),
        {"training": [1.0] * 4, "reference": [100.0] * 4, **of},
        {name: [] for name in names},
    )
    _, rows = frequency_table(analysis)
    marks = [["".join(mark for mark in (CLOSEST, LEAST) if mark in cell) for cell in row[4:]] for row in rows[:4]]
    both = CLOSEST + LEAST
    assert marks == [["", "", both], ["", "", CLOSEST], [CLOSEST, LEAST, ""], ["", "", both]]
    assert rows[0][-1] == f"100.28 (+0.3 {both})" and rows[2][-2] == f"114.61 (+14.6 {LEAST})"


@refuses(
    ({"hyp": "do@@ g\n\n\n"}, [], r"hyp: has subwords \(do@@\), --train "),
    ({"train": "\n \n"}, [], "train: has no words; it must be the target side"),
    ({"ref": "", "hyp": "", "_2": ""}, [], "ref: has no sentences"),
    ({}, ["--json", "/dev/null/x"], "--json /dev/null/x: cannot be written"),
)
def test_mistakes(change, options, files):
    for name, content in change.items():
        (files / name).write_text(content)
    cli.main(command(files, *options))
