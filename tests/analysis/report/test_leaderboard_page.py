"""The page of a leaderboard, and its tests of significance against sacrebleu's own."""

import json
import random
import re

import numpy as np
import pytest
from leaderboard import bleu_statistics, holm, main, read_tables, score_bleu, write_leaderboard
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from fairseq_attn_plugin.errors import OptionError

WORDS = "a house by the river has two red windows and one small door".split()


def corpus():
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) for _ in range(120)]


def translate(references, errors, seed):
    """The references with a share of wrong words, and some words missing."""
    rng = random.Random(seed)
    lines = []
    for line in references:
        words = [rng.choice(WORDS) if rng.random() < errors else word for word in line.split()]
        lines.append(" ".join(word for word in words if rng.random() > errors / 4))
    return lines


REFERENCES = corpus()
OUTPUTS = {
    "lstm_soft": [translate(REFERENCES, 0.3, seed) for seed in (1, 2)],
    "better": [translate(REFERENCES, 0.2, seed) for seed in (3, 4, 5)],
    "equal": [translate(REFERENCES, 0.29, seed) for seed in (6,)],
}


def statistics(lines):
    """Words of the translation, words of the reference, matching n-grams for n = 1 to 4, counted by sacreBLEU."""
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    scores = [metric.corpus_score([line], [[reference]]) for line, reference in zip(lines, REFERENCES)]
    return [[score.sys_len, score.ref_len, *score.counts] for score in scores]


def scores_of(samples=1000, **outputs):
    counts = {name: [bleu_statistics(statistics(lines)) for lines in seeds] for name, seeds in outputs.items()}
    return score_bleu(counts, "lstm_soft", samples)


def corpus_bleu(lines):
    return BLEU(tokenize="none", lowercase=True, force=True).corpus_score(lines, [REFERENCES]).score


def test_one_seed_agrees_with_sacrebleus_tests():
    """Intervals with its bootstrap, p-values with its approximate randomisation, which is two-sided as ours are."""
    one = {name: seeds[:1] for name, seeds in OUTPUTS.items()}
    one["near"] = [translate(REFERENCES, 0.25, 11)]
    named = [(name, seeds[0]) for name, seeds in one.items()]
    ours = scores_of(2000, **one)
    for kind in ("bs", "ar"):
        metric = BLEU(tokenize="none", lowercase=True, force=True, references=[REFERENCES])
        _, results = PairedTest(named, {"BLEU": metric}, None, test_type=kind, n_samples=2000)()
        for name, theirs in zip(one, results["BLEU"]):
            assert ours[name].value == pytest.approx(theirs.score, abs=1e-9)
            if kind == "bs":
                assert ours[name].interval == pytest.approx(theirs.ci, rel=0.1)
            elif name != "lstm_soft":
                assert ours[name].p_value == pytest.approx(theirs.p_value, abs=0.04)


def test_holm_by_hand():
    corrected = holm({"a": 0.04, "b": 0.01, "c": 0.02, "d": 0.5})
    assert corrected == pytest.approx({"a": 0.08, "b": 0.04, "c": 0.06, "d": 0.5})
    assert list(corrected) == ["a", "b", "c", "d"]
    assert holm({"a": 0.03, "b": 0.03}) == pytest.approx({"a": 0.06, "b": 0.06}), "never below a smaller p"
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0} and holm({}) == {}


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    for name, seeds in OUTPUTS.items():
        for seed, lines in enumerate(seeds, 1):
            write(folder / "multi30k" / "de-en.bpe", name, seed, lines)
    return folder


def write(folder, name, seed, lines, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "command": f"ARCH={name} SEED={seed} fairseq-attn recipe multi30k",
        **{"system": name, "seed": seed, "dataset": "multi30k", "pair": "de-en", "split": "test"},
        **{"parameters": 1000000, "best_updates": 500 + 100 * seed, "valid_perplexity": 7.5, "entropy": 1.25},
        **({} if name == "equal" else {"information": 0.5 + 0.1 * seed}),
        "bleu": {"tokenized": {"score": corpus_bleu(lines), "signature": "tok:none"}, "detokenized": None},
        "chrf": {"score": 50.5, "signature": "nc:6"},
        "cpu_seconds_per_1000_updates": None if name == "equal" else 99.6,
        "statistics": {"sentences": [" ".join(map(str, counts)) for counts in statistics(lines)]},
        **changes,
    }
    (folder / f"{name}.seed{seed}.json").write_text(json.dumps(content))


def cells(out, heading):
    """Rows of the first table after a heading of the Markdown page, {system: {column: text}}."""
    lines = (out / "report.md").read_text(encoding="utf-8").partition(heading)[2].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: dict(zip(table[0], row)) for row in table[2:]}


def test_the_page(results, tmp_path, capsys):
    out = tmp_path / "report"
    main([str(results), "--out", str(out)])
    assert "report.md" in capsys.readouterr().out
    rows = cells(out, "## multi30k/de-en.bpe")
    assert list(rows) == ["lstm\\_soft", "better", "equal"], "the baseline is the first"
    soft, better, equal = rows.values()
    assert [row["seeds"] for row in rows.values()] == ["2", "3", "1"]
    bleus = [corpus_bleu(lines) for lines in OUTPUTS["better"]]
    assert better["BLEU"] == f"{np.mean(bleus):.2f} ({np.std(bleus, ddof=1):.2f})"
    assert equal["BLEU"] == f"{corpus_bleu(OUTPUTS['equal'][0]):.2f}"
    assert better["updates to the best epoch"] == "700 (100)" and better["parameters"] == "1,000,000"
    assert better["p"] == "0.001" and better["p, Holm"] == "0.002"
    assert soft["p"] == soft["p, Holm"] == "\u2013"
    assert equal["s for 1,000 updates"] == "\u2013" and better["s for 1,000 updates"] == "100"
    assert better["information"] == "0.70 (0.10)" and equal["information"] == "\u2013"
    assert "AER, synthetic" not in soft and "TER" not in soft, "no empty columns"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "ARCH=better SEED=1 fairseq-attn recipe multi30k" in page


def test_a_file_has_a_run_in_each_line(results, tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(path.read_text() + "\n" for path in sorted(results.rglob("*.json"))))
    write_leaderboard(results, tmp_path / "files", ["equal", "better"], "better", samples=50)
    write_leaderboard(lines, tmp_path / "lines", ["equal", "better"], "better", samples=50)
    rows = cells(tmp_path / "lines", "## multi30k")
    assert list(rows) == ["equal", "better"] and rows["better"]["p"] == "\u2013"
    assert cells(tmp_path / "lines", "## multi30k de-en") == cells(tmp_path / "files", "## multi30k/de-en.bpe")
    lines.write_text(lines.read_text().replace('"best_updates"', '"updates"', 2))
    with pytest.raises(OptionError, match="lines.jsonl/1: is not complete"):
        read_tables(lines)


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        ("(?s).*", "{", "cannot be read"),
        ('"best_updates": [0-9]+, ', "", "is not complete"),
        (r'"sentences": \["', '"sentences": ["3 ', "complete"),
        (r'"sentences": \[', '"sentences": ["1 1 1 0 0 0", ', "the same sentences"),
    ],
)
def test_damaged_results_are_named(pattern, text, message, results):
    path = results / "multi30k" / "de-en.bpe" / "lstm_soft.seed1.json"
    path.write_text(re.sub(pattern, text, path.read_text(), count=1))
    with pytest.raises(OptionError, match=f"{path}.*{message}"):
        read_tables(results)


def test_mistakes(results, tmp_path):
    with pytest.raises(OptionError, match="has no results of a leaderboard"):
        read_tables(tmp_path / "results" / "multi30k", ["lstm"])
    with pytest.raises(OptionError, match="--baseline lstm: must be one of better, equal, lstm_soft"):
        read_tables(results, baseline="lstm")
