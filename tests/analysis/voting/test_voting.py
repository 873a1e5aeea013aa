"""The election in a worked example, and against a slow count of random ballots."""

import itertools
import math

import numpy as np
import pytest
import torch

from fairseq_attn_plugin.analysis.voting import ballots
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.attention.positional.windows import Rule

# four voters with c_t = t, k = 1: the windows are 0-1, 0-2, 1-3, 2-3
WEIGHTS = np.array(
    [[0.40, 0.30, 0.20, 0.10], [0.10, 0.20, 0.30, 0.40], [0.60, 0.05, 0.15, 0.20], [0.25, 0.25, 0.25, 0.25]]
)


def tally_of(weights, rules=("1",), ratio=1.0):
    tally = ballots.Tally(rules)
    tally.add(weights, ratio)
    return tally


def test_chance_is_the_mean_over_all_rankings():
    for p, size in ((1, 1), (4, 2), (5, 3)):
        ranks = np.array(list(itertools.permutations(range(1, p + 1))))
        satisfied = ballots.satisfaction(ranks, np.broadcast_to(np.arange(p) < size, ranks.shape))
        assert satisfied["k-borda"].mean() == pytest.approx(satisfied["chance"][0])


def test_a_voter_that_gives_words_nothing_has_no_mass_and_ranks_them_by_distance():
    nothing = tally_of(np.zeros((4, 4)))
    (result,) = nothing.results()
    assert result.mass == 0 and result.satisfaction["sntv"] == 100
    fitted = ballots.fit_gaussian(nothing.offsets().offset, nothing.offsets().mass)
    assert fitted.mean == 0 and fitted.sigma == ballots.SIGMA_FLOOR


def test_offsets_worked_by_hand():
    offsets = tally_of(WEIGHTS).offsets()
    assert offsets.inside["1"].tolist() == pytest.approx([0, 0, 0.1, 0.25, 0.2, 0, 0])
    # mean (-.75 - 1.7 - .4 + .8 + 1.2 + .3) / 4, mean square (2.25 + 3.4 + .4 + .8 + 2.4 + .9) / 4
    everything = ballots.fit_gaussian(offsets.offset, offsets.mass)
    assert everything.mean == pytest.approx(-0.55 / 4)
    assert everything.sigma == pytest.approx(math.sqrt(10.15 / 4 - (0.55 / 4) ** 2))


def slow_election(sentences, ratio, rules):
    """What :class:`Tally` finds, word by word. Sentences are rows of weights, a row per target word."""
    sums = {rule: dict.fromkeys(("k", "window", "share", "k-borda", "sntv", "bloc", "mass"), 0.0) for rule in rules}
    offsets, voters = {}, 0
    for rows in sentences:
        for t, row in enumerate(rows):
            p = len(row)
            if p == 0:
                continue
            voters += 1
            c = math.floor(min(t / ratio, p - 1) + 0.5 + 1e-4)
            ranking = sorted(range(p), key=lambda j: (-row[j], abs(j - c), j))
            place = {j: i + 1 for i, j in enumerate(ranking)}
            total = sum(row)
            for j in range(p):
                item = offsets.setdefault(j - c, {"voters": 0, "first": 0, "mass": 0.0})
                item["voters"] += 1
                item["first"] += place[j] == 1
                item["mass"] += row[j] / total if total else 0.0
            for rule in rules:
                k = Rule.parse(rule).window(p)
                committee = [j for j in range(p) if abs(j - c) <= k]
                size = len(committee)
                best = sum(p - i for i in range(1, size + 1))
                points = sum(p - place[j] for j in committee)
                found = {
                    "k": k,
                    "window": size,
                    "share": size / p,
                    "k-borda": 100 * points / best if best else 100,
                    "sntv": 100 * (ranking[0] in committee),
                    "bloc": 100 * len(set(ranking[:size]) & set(committee)) / size,
                    "mass": sum(row[j] for j in committee) / total if total else 0.0,
                }
                for name, value in found.items():
                    sums[rule][name] += value
    means = {rule: {name: value / voters for name, value in items.items()} for rule, items in sums.items()}
    for item in offsets.values():
        for name in ("first", "mass"):
            item[name] /= voters
    return voters, means, offsets


@pytest.mark.parametrize("ratio", [0.7, 2.0])
def test_against_a_slow_count(ratio):
    """Of one word, none on a side, longer and shorter than expected; weights in tenths, so that many tie."""
    numbers, rules = np.random.default_rng(3), ["half", "log2", "log3", "log4", "2", "7"]
    sizes = [(4, 3), (1, 5), (0, 3), (5, 0), (12, 9), (3, 20), (9, 9), (2, 2), (1, 1), (0, 2), (16, 17)]
    tally, sentences = ballots.Tally(rules), [numbers.random((steps, words)).round(1) for words, steps in sizes]
    for weights in sentences:
        tally.add(weights, ratio)
    voters, means, offsets = slow_election([weights.tolist() for weights in sentences], ratio, rules)
    assert tally.voters == voters
    results = tally.results()
    assert {result.rule for result in results} == set(means)
    for result in results:
        found = {"k": result.mean_k, "window": result.mean_window, "share": result.share, "mass": result.mass}
        found.update((name, result.satisfaction[name]) for name in ("k-borda", "sntv", "bloc"))
        assert found == pytest.approx(means[result.rule], abs=1e-9), result.rule
    counted = tally.offsets()
    for offset, *values in zip(*(column.tolist() for column in counted[:4])):
        expected = offsets.get(offset, {"voters": 0, "first": 0, "mass": 0})
        assert values == pytest.approx(list(expected.values()), abs=1e-9), offset
    assert set(offsets) <= set(counted.offset.tolist())


@pytest.mark.parametrize("ratio", [1.0, 0.3, 0.95, 1.4, 3.0])
def test_centres_are_those_of_the_gaussian_attention(ratio):
    """Where the centre has not come to the last word: beyond it the attention goes on to the end of the sentence."""
    p = 24
    attention = build_attention("gaussian", 4, 6, rule="1", ratio=ratio, sigma=3.0).eval()
    steps = torch.arange(int((p - 1) * ratio))
    output = attention.step(
        torch.zeros(1, len(steps), 4), attention.precompute(torch.zeros(1, p + 1, 6)), positions=steps.unsqueeze(0)
    )
    own = ballots.centres(steps.numpy(), p, ratio).tolist()
    assert len(own) > 5
    for row, centre in zip(output.weights[0], own):
        assert row.nonzero().flatten().tolist() == [j for j in range(centre - 1, centre + 2) if j >= 0]


def test_centres_round_halves_up_and_stay_at_the_last_word():
    assert ballots.centres(np.arange(7), 3, 2.0).tolist() == [0, 1, 1, 2, 2, 2, 2]
    # 7 / 1.4 and 21 / 1.4 are whole, 0.35 / 0.7 and similar quotients a half, whatever binary fractions make of them
    assert ballots.centres(np.array([7, 21]), 40, 1.4).tolist() == [5, 15]


def test_gain_is_measured_against_the_next_smaller_window():
    """Two rules of the same windows gain the same over the rule before them."""
    weights = np.random.default_rng(7).random((5, 5))
    # p = 5: k = 2, 1, 2, 2; a rule that is named twice counts once
    results = tally_of(weights, ["half", "1", "2", "log2", "2"]).results()
    assert [result.rule for result in results] == ["1", "half", "2", "log2"]
    one, *others = results
    gain = (others[0].satisfaction["k-borda"] - one.satisfaction["k-borda"]) / (others[0].mean_window - one.mean_window)
    assert [result.gain_per_word for result in results] == [None, *[pytest.approx(gain)] * 3]


def result(rule, mean_window, share, borda, gain, mean_k=1.0):
    satisfied = {"k-borda": borda, "sntv": 0.0, "bloc": 0.0, "chance": 0.0}
    return ballots.RuleResult(rule, mean_k, mean_window, share, satisfied, 0.5, gain)


def test_recommended():
    # satisfaction as Bal and Sinha report it; windows as sentences like theirs have them
    table = [
        result("log4", 2.6, 0.43, 55.01, None),
        result("log3", 3.0, 0.48, 90.17, 35.16 / 0.4),
        result("log2", 4.3, 0.69, 93.22, 3.05 / 1.3),
        result("half", 5.3, 0.80, 96.24, 3.02 / 1.0),
    ]
    assert ballots.recommended(table).rule == "log2"
    assert [ballots.qualifies(row) for row in table] == [False, True, True, False]
    # one word in every sentence is not a window
    assert ballots.recommended([table[0]._replace(mean_k=0.0), table[1]._replace(gain_per_word=0.1)]).rule == "log3"


def test_fit_finds_a_gaussian():
    offset = np.arange(-40, 41)
    for mean, sigma in ((0.0, 1.0), (0.3, 1.2), (-2.6, 4.0)):
        fitted = ballots.fit_gaussian(offset, 17 * ballots.discretized(offset, mean, sigma))
        assert fitted == pytest.approx((mean, sigma, 0.0), abs=1e-6)
    assert ballots.fit_gaussian(offset, (offset == 2).astype(float)) == pytest.approx(
        (2.0, ballots.SIGMA_FLOOR, 0.0), abs=1e-12
    )
    # half of it at -1, half at +1: sigma 1, and what the Gaussian has at neither is the distance
    two = ballots.fit_gaussian(offset, (np.abs(offset) == 1).astype(float))
    elsewhere = 1 - 2 * math.exp(-0.5) / sum(math.exp(-0.5 * o * o) for o in range(-40, 41))
    assert two == pytest.approx((0.0, 1.0, elsewhere))
