"""The election in a worked example, and against a slow count of random ballots with padding on either side."""

import itertools
import math

import pytest
import torch

from fairseq_attn_plugin.analysis.voting.ballots import Ballots, ballots, centres, rank, satisfaction
from fairseq_attn_plugin.analysis.voting.offsets import SIGMA_FLOOR, discretized, elected, fit_gaussian
from fairseq_attn_plugin.analysis.voting.tally import RuleResult, Tally, qualifies, recommended
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.attention.windows import window
from fairseq_attn_plugin.errors import OptionError

# Four voters t = 0, 1, 2, 3 with c_t = t and four candidates, k = 1. Borda scores are 3, 2, 1, 0.
#
#   t   weights               ranks     W        |W|  k-Borda         first three or two   Bloc  SNTV  mass
#   0   .40 .30 .20 .10    1 2 3 4    0 1         2   (3+2)/(3+2)     0 1                  2/2   yes   .70
#   1   .10 .20 .30 .40    4 3 2 1    0 1 2       3   (0+1+2)/(3+2+1) 3 2 1                2/3   no    .60
#   2   .60 .05 .15 .20    1 4 3 2    1 2 3       3   (0+1+2)/(3+2+1) 0 3 2                2/3   no    .40
#   3   .25 .25 .25 .25    4 3 2 1    2 3         2   (2+3)/(3+2)     3 2                  2/2   yes   .50
#
# The last voter's ties go to the nearer word. At random, k-Borda would be 3 / (8 - |W| - 1): 3/5, 3/4, 3/4, 3/5.
WEIGHTS = torch.tensor(
    [[0.40, 0.30, 0.20, 0.10], [0.10, 0.20, 0.30, 0.40], [0.60, 0.05, 0.15, 0.20], [0.25, 0.25, 0.25, 0.25]]
)
RANKS = [[1, 2, 3, 4], [4, 3, 2, 1], [1, 4, 3, 2], [4, 3, 2, 1]]


def example():
    tally = Tally(["1"])
    words = torch.ones(1, 4, dtype=torch.bool)
    tally.add(ballots(WEIGHTS.unsqueeze(0), words, words, 1.0))
    return tally


def test_satisfaction_worked_by_hand():
    words = torch.ones(1, 4, dtype=torch.bool)
    votes = ballots(WEIGHTS.unsqueeze(0), words, words, 1.0)
    assert votes.centres.tolist() == [0, 1, 2, 3] and votes.words.tolist() == [4] * 4
    assert rank(votes).tolist() == RANKS
    members = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]).bool()
    satisfied = satisfaction(torch.tensor(RANKS), members, votes.words)
    assert satisfied["k-borda"].tolist() == [100, 50, 50, 100]
    assert satisfied["sntv"].tolist() == [100, 0, 0, 100]
    assert satisfied["bloc"].tolist() == pytest.approx([100, 200 / 3, 200 / 3, 100])
    assert satisfied["chance"].tolist() == pytest.approx([60, 75, 75, 60])

    (result,) = example().results()
    assert (result.rule, result.mean_k, result.mean_window, result.share) == ("1", 1, 2.5, 0.625)
    expected = {"k-borda": 75, "sntv": 50, "bloc": 250 / 3, "chance": 67.5}
    assert result.satisfaction == pytest.approx(expected)
    assert result.mass == pytest.approx((0.7 + 0.6 + 0.4 + 0.5) / 4)
    assert result.gain_per_word is None


def test_offsets_worked_by_hand():
    """Borda points, divided by 3, that the voters 0, 1, 2, 3 of the example give to an offset:

    -3: - - - 0    -2: - - 1 1/3    -1: - 0 0 2/3    0: 1 1/3 1/3 1    +1: 2/3 2/3 2/3 -    +2: 1/3 1 - -    +3: 0 - - -
    """
    offsets = example().offsets()
    assert offsets.offset.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert offsets.voters.tolist() == [1, 2, 3, 4, 3, 2, 1]
    assert offsets.first_choices.tolist() == [0, 0.25, 0, 0.5, 0, 0.25, 0]
    borda = [0, 4 / 3, 2 / 3, 8 / 3, 2, 4 / 3, 0]
    assert offsets.borda.tolist() == pytest.approx([points / 4 for points in borda])
    mass = [0.25, 0.85, 0.4, 1.0, 0.8, 0.6, 0.1]
    assert offsets.mass.tolist() == pytest.approx([value / 4 for value in mass])
    assert offsets.inside["1"].tolist() == pytest.approx([0, 0, 0.1, 0.25, 0.2, 0, 0])
    # -2 and +2 have as many points and are as near: the left one is elected
    assert elected(offsets, 3) == [-2, 0, 1]
    assert elected(offsets, 100) == [-3, -2, -1, 0, 1, 2, 3]

    # mean (-.75 - 1.7 - .4 + .8 + 1.2 + .3) / 4, mean square (2.25 + 3.4 + .4 + .8 + 2.4 + .9) / 4
    everything = fit_gaussian(offsets.offset, offsets.mass)
    assert everything.mean == pytest.approx(-0.55 / 4)
    assert everything.sigma == pytest.approx(math.sqrt(10.15 / 4 - (0.55 / 4) ** 2))
    # inside of the windows: mean (.2 - .1) / .55, mean square (.1 + .2) / .55
    inside = fit_gaussian(offsets.offset, offsets.inside["1"])
    assert inside.mean == pytest.approx(0.1 / 0.55)
    assert inside.sigma == pytest.approx(math.sqrt(0.3 / 0.55 - (0.1 / 0.55) ** 2))


def slow_election(sentences, ratio, rules):
    """What :class:`Tally` finds, word by word. Sentences are rows of weights, a row per target word, no padding."""
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
                item = offsets.setdefault(j - c, {"voters": 0, "first": 0, "borda": 0.0, "mass": 0.0})
                item["voters"] += 1
                item["first"] += place[j] == 1
                item["borda"] += (p - place[j]) / (p - 1) if p > 1 else 1.0
                item["mass"] += row[j] / total if total else 0.0
            for rule in rules:
                k = window(rule, p)
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
        for name in ("first", "borda", "mass"):
            item[name] /= voters
    return voters, means, offsets


def assert_same(tally, voters, means, offsets, tolerance=1e-9):
    assert tally.voters == voters
    results = tally.results()
    assert {result.rule for result in results} == set(means)
    for result in results:
        found = {"k": result.mean_k, "window": result.mean_window, "share": result.share, "mass": result.mass}
        found.update((name, result.satisfaction[name]) for name in ("k-borda", "sntv", "bloc"))
        assert found == pytest.approx(means[result.rule], abs=tolerance), result.rule
    counted = tally.offsets()
    columns = (values.tolist() for values in (counted.voters, counted.first_choices, counted.borda, counted.mass))
    for offset, *values in zip(counted.offset.tolist(), *columns):
        expected = offsets.get(offset, {"voters": 0, "first": 0, "borda": 0, "mass": 0})
        assert values == pytest.approx(list(expected.values()), abs=tolerance), offset
    assert set(offsets) <= set(counted.offset.tolist())


def random_batch(generator, sizes, source_side, target_side, pad_width):
    """Weights ``[B, T, N]``, in tenths so that many tie, the words of both sides, and the same without padding.

    On padding and the end of the source (the last position that is not padding) weights are random, too.
    """
    length = max(p for p, _ in sizes) + 1 + pad_width
    steps = max(q for _, q in sizes) + 1 + pad_width
    weights = torch.rand(len(sizes), steps, length, generator=generator, dtype=torch.float64).mul(10).round().div(10)
    sources = torch.zeros(len(sizes), length, dtype=torch.bool)
    targets = torch.zeros(len(sizes), steps, dtype=torch.bool)
    sentences = []
    for b, (p, q) in enumerate(sizes):
        left = length - p - 1 if source_side == "left" else 0
        top = steps - q - 1 if target_side == "left" else 0
        sources[b, left : left + p] = True
        targets[b, top : top + q] = True
        sentences.append(weights[b, top : top + q, left : left + p].tolist())
    return weights, sources, targets, sentences


@pytest.mark.parametrize("ratio", [1.0, 0.7, 2.0, 1.1])
@pytest.mark.parametrize("sides", [("left", "right"), ("right", "left")])
def test_against_a_slow_count(sides, ratio, device="cpu"):
    generator = torch.Generator().manual_seed(3)
    rules = ["half", "log2", "log3", "log4", "2", "7"]
    tally, sentences = Tally(rules), []
    # one word, none on a side, longer and shorter than expected; sentences of later batches are longer, then shorter
    batches = [[(4, 3), (1, 5), (0, 3), (5, 0)], [(12, 9), (3, 20), (9, 9)], [(2, 2), (1, 1)], [(0, 2)], [(16, 17)]]
    for sizes in batches:
        weights, sources, targets, found = random_batch(generator, sizes, *sides, pad_width=2)
        tally.add(ballots(weights.to(device), sources.to(device), targets.to(device), ratio))
        sentences += found
    assert_same(tally, *slow_election(sentences, ratio, rules))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_against_a_slow_count_on_a_gpu():
    test_against_a_slow_count(("left", "right"), 1.1, "cuda")


def test_batches_do_not_matter():
    generator = torch.Generator().manual_seed(5)
    sizes = [(7, 6), (3, 4), (5, 9), (2, 2)]
    weights, sources, targets, sentences = random_batch(generator, sizes, "left", "right", 1)
    single = Tally(["log2", "1"])
    for b in reversed(range(len(sizes))):
        single.add(ballots(weights[b : b + 1], sources[b : b + 1], targets[b : b + 1], 1.3))
    assert_same(single, *slow_election(sentences, 1.3, ["log2", "1"]))


def test_weights_need_not_sum_to_one():
    """Weights divided by their maximum, or those of a sigmoid, vote as the same weights divided by their sum."""
    words = torch.ones(1, 4, dtype=torch.bool)
    tally = Tally(["1"])
    tally.add(ballots(WEIGHTS.unsqueeze(0) * torch.tensor([3.0, 0.5, 7.0, 1.0]).view(1, 4, 1), words, words, 1.0))
    assert tally.results()[0].mass == pytest.approx(0.55)
    # a voter that gives words nothing at all has no mass anywhere, and ranks them by distance
    nothing = Tally(["1"])
    nothing.add(ballots(torch.zeros(1, 4, 4), words, words, 1.0))
    (result,) = nothing.results()
    assert result.mass == 0 and result.satisfaction["sntv"] == 100
    fitted = fit_gaussian(nothing.offsets().offset, nothing.offsets().mass)
    assert fitted.mean == 0 and fitted.sigma == SIGMA_FLOOR


def test_chance_is_the_mean_over_all_rankings():
    for p in range(1, 6):
        ranks = torch.tensor(list(itertools.permutations(range(1, p + 1))))
        words = torch.full((len(ranks),), p)
        for size in range(1, p + 1):
            members = (torch.arange(p) < size).expand(len(ranks), p)
            satisfied = satisfaction(ranks, members, words)
            assert float(satisfied["k-borda"].mean()) == pytest.approx(float(satisfied["chance"][0])), (p, size)


@pytest.mark.parametrize("ratio", [1.0, 0.3, 0.4, 0.5, 0.95, 1.1, 1.4, 2.0, 3.0])
def test_centres_are_those_of_the_gaussian_attention(ratio):
    """Where the centre has not come to the last word: beyond it the attention goes on to the end of the sentence."""
    p = 24
    attention = build_attention("gaussian", 4, 6, rule="1", ratio=ratio, sigma=3.0).eval()
    steps = torch.arange(int((p - 1) * ratio))
    output = attention.step(
        torch.zeros(1, len(steps), 4), attention.precompute(torch.zeros(1, p + 1, 6)), positions=steps.unsqueeze(0)
    )
    own = centres(steps, torch.full_like(steps, p), ratio).tolist()
    assert len(own) > 5
    for row, centre in zip(output.weights[0], own):
        assert row.nonzero().flatten().tolist() == [j for j in range(centre - 1, centre + 2) if j >= 0]


def test_centres_round_halves_up_and_stay_at_the_last_word():
    steps = torch.arange(7)
    assert centres(steps, torch.full_like(steps, 3), 2.0).tolist() == [0, 1, 1, 2, 2, 2, 2]
    # 7 / 1.4 and 21 / 1.4 are whole, 0.35 / 0.7 and similar quotients a half, whatever binary fractions make of them
    assert centres(torch.tensor([7, 21]), torch.tensor([40, 40]), 1.4).tolist() == [5, 15]


def test_rules():
    assert Tally(["log2", "3", "log2"]).rules == ["log2", "3"]
    for rules, message in (
        (["log5"], "^--rules log5: must be one of log4, log3, log2, half, or a number of positions$"),
        (["log2", "0"], "^--rules 0: must be at least 1 position on either side$"),
        ([], "^--rules: name at least one rule, such as log2$"),
    ):
        with pytest.raises(OptionError, match=message):
            Tally(rules)


def test_nobody_has_voted():
    tally = Tally(["log2"])
    tally.add(ballots(torch.rand(2, 3, 4), torch.zeros(2, 4).bool(), torch.ones(2, 3).bool(), 1.0))
    tally.add(Ballots(torch.zeros(0, 0), torch.zeros(0).long(), torch.zeros(0).long()))
    assert tally.voters == 0
    for question in (tally.results, tally.offsets):
        with pytest.raises(ValueError, match="nobody has voted"):
            question()


def test_gain_is_measured_against_the_next_smaller_window():
    """Two rules of the same windows gain the same over the rule before them."""
    generator = torch.Generator().manual_seed(7)
    words = torch.ones(3, 5, dtype=torch.bool)
    tally = Tally(["half", "1", "2", "log2"])  # p = 5: k = 2, 1, 2, 2
    tally.add(ballots(torch.rand(3, 5, 5, generator=generator), words, words, 1.0))
    results = tally.results()
    assert [result.rule for result in results] == ["1", "half", "2", "log2"]
    one, *others = results
    gain = (others[0].satisfaction["k-borda"] - one.satisfaction["k-borda"]) / (others[0].mean_window - one.mean_window)
    assert [result.gain_per_word for result in results] == [None, *[pytest.approx(gain)] * 3]


def result(rule, mean_window, share, borda, gain, mean_k=1.0):
    satisfied = {"k-borda": borda, "sntv": 0.0, "bloc": 0.0, "chance": 0.0}
    return RuleResult(rule, mean_k, mean_window, share, satisfied, 0.5, gain)


def test_recommended():
    # satisfaction as Bal and Sinha report it; windows as sentences like theirs have them
    table = [
        result("log4", 2.6, 0.43, 55.01, None),
        result("log3", 3.0, 0.48, 90.17, 35.16 / 0.4),
        result("log2", 4.3, 0.69, 93.22, 3.05 / 1.3),
        result("half", 5.3, 0.80, 96.24, 3.02 / 1.0),
    ]
    assert recommended(table).rule == "log2"
    assert recommended(table, most_words=1.0).rule == "half"
    assert recommended(table, least_gain=2.5).rule == "log3"
    assert recommended(table, least_gain=100).rule == "log4"
    assert [qualifies(row) for row in table] == [False, True, True, False]
    # one word in every sentence is not a window
    assert recommended([table[0]._replace(mean_k=0.0), table[1]], least_gain=100).rule == "log3"
    assert recommended([table[0]._replace(mean_k=0.0)]).rule == "log4"


def test_fit_finds_a_gaussian():
    offset = torch.arange(-40, 41)
    for mean, sigma in ((0.0, 1.0), (0.3, 1.2), (-2.6, 4.0)):
        fitted = fit_gaussian(offset, 17 * discretized(offset, mean, sigma))
        assert fitted == pytest.approx((mean, sigma, 0.0), abs=1e-6)
    sharp = fit_gaussian(offset, (offset == 2).double())
    assert sharp == pytest.approx((2.0, SIGMA_FLOOR, 0.0), abs=1e-12)
    # half of it at -1, half at +1: sigma 1, and what the Gaussian has at neither is the distance
    two = fit_gaussian(offset, (offset.abs() == 1).double())
    elsewhere = 1 - 2 * math.exp(-0.5) / sum(math.exp(-0.5 * o * o) for o in range(-40, 41))
    assert two == pytest.approx((0.0, 1.0, elsewhere))
