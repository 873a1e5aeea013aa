"""The tables of a leaderboard, and its tests of significance against sacrebleu's own."""

import json
import random
import re
import tracemalloc

import numpy as np
import pytest
from leaderboard import bleu_statistics, holm, main, read_runs, score_bleu
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from fairseq_attn_plugin.errors import OptionError

from cli import REPO

WORDS = "a house by the river has two red windows and one small door".split()


def translate(references, errors, seed):
    """The references with a share of wrong words, and some words missing."""
    rng = random.Random(seed)
    lines = []
    for line in references:
        words = [rng.choice(WORDS) if rng.random() < errors else word for word in line.split()]
        lines.append(" ".join(word for word in words if rng.random() > errors / 4))
    return lines


DRAW = random.Random(1)
REFERENCES = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(3, 12))) for _ in range(120)]
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


def corpus_bleu(lines):
    return BLEU(tokenize="none", lowercase=True, force=True).corpus_score(lines, [REFERENCES]).score


def test_one_seed_agrees_with_sacrebleus_tests():
    """Intervals with its bootstrap, p-values with its approximate randomisation, which is two-sided as ours are."""
    one = {name: seeds[:1] for name, seeds in OUTPUTS.items()}
    one["near"] = [translate(REFERENCES, 0.25, 11)]
    named = [(name, seeds[0]) for name, seeds in one.items()]
    counts = {name: [bleu_statistics(statistics(lines)) for lines in seeds] for name, seeds in one.items()}
    ours = score_bleu(counts, "lstm_soft", 2000)
    for kind in ("bs", "ar"):
        metric = BLEU(tokenize="none", lowercase=True, force=True, references=[REFERENCES])
        _, results = PairedTest(named, {"BLEU": metric}, None, test_type=kind, n_samples=2000)()
        for name, theirs in zip(one, results["BLEU"]):
            assert ours[name].value == pytest.approx(theirs.score, abs=1e-9)
            if kind == "bs":
                assert ours[name].interval == pytest.approx(theirs.ci, rel=0.1)
            elif name != "lstm_soft":
                assert ours[name].p_value == pytest.approx(theirs.p_value, abs=0.04)


def test_one_sample_is_in_memory_at_a_time():
    statistics = {"a": [np.ones((5000, 2), dtype=np.int64)]}
    tracemalloc.start()
    score_bleu(statistics, "a", samples=100, score=sum)
    assert tracemalloc.get_traced_memory()[1] < 100 * 5000 * 8 / 4, "bytes of all samples"
    tracemalloc.stop()


def test_holm_by_hand():
    corrected = holm({"a": 0.04, "b": 0.01, "c": 0.02, "d": 0.5})
    assert corrected == pytest.approx({"a": 0.08, "b": 0.04, "c": 0.06, "d": 0.5})
    assert list(corrected) == ["a", "b", "c", "d"]
    assert holm({"a": 0.03, "b": 0.03}) == pytest.approx({"a": 0.06, "b": 0.06}), "never below a smaller p"
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0} and holm({}) == {}


def run(name, seed, lines):
    return {
        "command": f"ARCH={name} SEED={seed} fairseq-attn recipe multi30k",
        **{"system": name, "seed": seed, "parameters": 1000000, "best_updates": 500 + 100 * seed, "entropy": 1.25},
        **({} if name == "equal" else {"information": 0.5 + 0.1 * seed}),
        "bleu": {"tokenized": {"score": corpus_bleu(lines), "signature": "tok:none"}, "detokenized": None},
        "cpu_seconds_per_1000_updates": None if name == "equal" else 99.6,
        "statistics": {"sentences": [" ".join(map(str, counts)) for counts in statistics(lines)]},
    }


@pytest.fixture
def results(tmp_path):
    runs = [run(name, seed, lines) for name, seeds in OUTPUTS.items() for seed, lines in enumerate(seeds, 1)]
    runs.append({"system": "better", "seed": 9})  # unfinished
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in reversed(runs)))
    return path


def printed(capsys, *arguments):
    """Rows of the table that is printed, {system: {column: text}}."""
    main([*map(str, arguments)])
    lines = capsys.readouterr().out.splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: dict(zip(table[0], row)) for row in table[2:]}


def test_the_table(results, capsys):
    rows = printed(capsys, results)
    assert list(rows) == ["lstm_soft", "better", "equal"], "the baseline is the first"
    soft, better, equal = rows.values()
    assert [row["seeds"] for row in rows.values()] == ["2", "3", "1"]
    bleus = [corpus_bleu(lines) for lines in OUTPUTS["better"]]
    assert better["BLEU"] == f"{np.mean(bleus):.2f} ({np.std(bleus, ddof=1):.2f})"
    assert equal["BLEU"] == f"{corpus_bleu(OUTPUTS['equal'][0]):.2f}"
    assert better["updates to the best epoch"] == "700 (100)" and better["parameters"] == "1,000,000"
    assert better["p"] == "0.001" and better["p, Holm"] == "0.002" and 0 < float(better["+-"]) < 5
    assert soft["p"] == soft["p, Holm"] == equal["s for 1,000 updates"] == equal["information"] == ""
    assert better["s for 1,000 updates"] == "100" and better["information"] == "0.70 (0.10)"
    assert "AER" not in soft and "TER" not in soft, "no empty columns"
    chosen = printed(capsys, results, "--systems", "equal", "better", "--baseline", "better", "--samples", 50)
    assert list(chosen) == ["equal", "better"] and chosen["better"]["p"] == ""
    assert "p" not in printed(capsys, results, "--samples", 0)["better"]


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        (r"\n\Z", '\n{"system": "better", "see', "line 8 is not a run"),
        ('"seed": 2', '"seed": 3', "line 4 is a second run of better with seed 3"),
        ('"bleu"', '"score"', "line 2 is not a run"),
        (r'"sentences": \["', '"sentences": ["3 ', "line 2 is not a run"),
        (r'"sentences": \[', '"sentences": ["1 1 1 0 0 0", ', "are of 120 and 121 sentences"),
        ('"statistics"', '"other"', "have no statistics"),
    ],
)
def test_damaged_results_are_named(pattern, text, message, results):
    results.write_text(re.sub(pattern, text, results.read_text(), count=0 if "other" in text else 1))
    with pytest.raises(OptionError, match=f"{results}: .*{message}"):
        read_runs(results)


def test_mistakes(results, tmp_path):
    with pytest.raises(OptionError, match=f"{tmp_path}/none.jsonl: cannot be read"):
        read_runs(tmp_path / "none.jsonl")
    for option in ("--baseline", "--systems"):
        with pytest.raises(OptionError, match=f"{option} lstm: must be among equal, better, lstm_soft, the systems"):
            main([str(results), option, "lstm"])
    for samples in (-1, 1):
        with pytest.raises(OptionError, match=f"--samples {samples}: must be at least 2, or 0 for none"):
            main([str(results), "--samples", str(samples)])


def test_a_file_of_the_repository(capsys):
    rows = printed(capsys, REPO / "benchmarks/results/ro-en-epoch8.jsonl", "--samples", 0)
    assert "AER" not in rows["lstm_soft"] and rows["lstm_soft"]["BLEU"]
