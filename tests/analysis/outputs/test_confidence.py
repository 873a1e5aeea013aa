"""fairseq-attn confidence: the measures of Rikters and Fishel, and their correlation with quality."""

import json

import numpy as np
import pytest
from records_for_tests import record, write_records
from scipy import stats

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.outputs.confidence import correlate, sentence_chrf
from fairseq_attn_plugin.analysis.records.confidence import attention_confidence, measures_of, record_confidence
from fairseq_attn_plugin.errors import OptionError

import oracles


@pytest.mark.parametrize("seed", range(4))
def test_the_measures_are_those_of_the_formulas(seed):
    random = np.random.default_rng(seed)
    weights = random.dirichlet(np.full(5, 0.3), size=4) * random.uniform(0.5, 2, size=(4, 1))
    weights[0, :] *= seed != 1  # a row without weight
    weights[:, 2] *= seed != 2  # a column without weight
    found, rows = attention_confidence(weights), weights.tolist()
    parts = oracles.coverage(rows), oracles.certainty(rows), oracles.certainty(list(zip(*rows)))
    assert found == pytest.approx((*parts, sum(parts)))
    assert max(found) <= 0


def test_the_ends_do_not_count_and_files_have_the_measures(tmp_path):
    one = record(0, "a b", "x", np.array([[0.5, 0, 0.5], [0, 0, 1]]))
    assert record_confidence(one).out == 0 and attention_confidence(np.zeros((0, 3))).total == 0
    assert measures_of(one)["length"] == -2 and measures_of(one)["score"] == -0.5
    assert "score" not in measures_of(record(0, "a", "x", np.eye(2), scores=[]))
    path, wanted = write_records(tmp_path / "x.jsonl", records=[one]), record_confidence(one)
    found = json.loads(path.read_text(encoding="utf-8").splitlines()[1])["confidence"]
    assert found == pytest.approx({**wanted._asdict(), "total": wanted.total}, abs=1e-5)


def test_correlations_are_those_of_scipy():
    random = np.random.default_rng(3)
    quality = random.normal(size=60)
    measures = {"near": quality + random.normal(size=60), "score": quality + 2 * random.normal(size=60)}
    measures["same"] = np.ones(60)
    found = correlate(measures, quality, samples=200)
    for name in ("near", "score"):
        assert found[name].spearman == pytest.approx(stats.spearmanr(measures[name], quality).statistic)
        assert found[name].kendall == pytest.approx(stats.kendalltau(measures[name], quality).statistic)
        low, high = found[name].spearman_interval
        assert low < found[name].spearman < high and high - low < 0.6
    best = np.argsort(-measures["near"])[:30]
    assert found["near"].best_half == pytest.approx(quality[best].mean())
    # the residuals of ranks, each regressed on those of the score
    left, right, given = (stats.rankdata(one) for one in (measures["near"], quality, measures["score"]))
    rest = [one - np.polyval(np.polyfit(given, one, 1), given) for one in (left, right)]
    assert found["near"].given_score == pytest.approx(np.corrcoef(rest)[0, 1])
    assert found["same"].spearman is None and found["same"].kendall_interval is None
    with pytest.raises(OptionError, match="2 sentences: a correlation needs at least 3"):
        correlate({"x": [1, 2]}, [1, 2])


def test_confidence_prints_a_table_and_writes_figures(tmp_path, capsys):
    """Of sentences whose attention is the sharper, the greater their number."""
    records = []
    for number in range(8):
        weights = np.eye(4) * (number + 1) + np.full((4, 4), 0.5)
        target = "the dog slee@@" if number > 4 else f"a x{number} y"
        weights = weights / weights.sum(1, keepdims=True)
        records.append(record(number, f"a b{number} c", target, weights, reference="the dog sleeps"))
    path = write_records(tmp_path / "x.jsonl", records=records, target="beam 5")
    cli.main(["confidence", f"s.seed1={path}", f"s|2={path}", "--samples", "50", "--json", f"{tmp_path}/c.json"])
    printed = capsys.readouterr().out
    assert printed.count("| confidence |") == 2 and r"| s\|2 " in printed
    found = json.loads((tmp_path / "c.json").read_text())["systems"]["s.seed1"]
    values = [record_confidence(one).total for one in records]
    quality = sentence_chrf([" ".join(one.target_words) for one in records], ["the dog sleeps"] * 8)
    assert found["measures"]["confidence"]["spearman"] == pytest.approx(stats.spearmanr(values, quality).statistic)
    assert found["chrf"] == pytest.approx(np.mean(quality)) and found["sentences"] == 8
    assert found["each"]["id"] == list(range(8)) and found["each"]["confidence"] == pytest.approx(values, abs=1e-4)


def test_without_references_the_table_has_means(tmp_path, capsys):
    impossible = record(1, "a b", "x", scores=[float("-inf"), -1.0])
    path = write_records(tmp_path / "x.jsonl", records=[record(0, "a b c d", "x"), impossible])
    cli.main(["confidence", str(path), "--json", f"{tmp_path}/c.json"])
    assert "| length | -3.000 |" in " ".join(capsys.readouterr().out.split())
    each = json.loads((tmp_path / "c.json").read_text())["systems"]["soft"]["each"]
    assert each["id"] == [0, 1] and each["length"] == [-4, -2] and each["score"] == [-0.5, None]
    with pytest.raises(OptionError, match="^--seed 1: needs references"):
        cli.main(["confidence", str(path), "--seed", "1"])


def test_a_correlation_may_have_no_interval(tmp_path, capsys):
    """One of three translations is right: in both samples all have the same quality."""
    given = [record(n, "a b"[: 2 * n + 1], word, reference="x") for n, word in enumerate("ayx")]
    path = write_records(tmp_path / "x.jsonl", records=given, target="beam 5")
    cli.main(["confidence", str(path), "--samples", "2", "--seed", "43"])
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "| length " in line)
    assert " -0.500 " in row and "[" not in row
