"""Attention as an election: target words are the voters, the words of their source sentence are the candidates.

After Bal and Sinha, "Modelling Bahdanau attention using election methods aided by Q-learning". Voter t ranks the p
source words by its attention weights; the end of the sentence is neither voter nor candidate. A rule gives k
(:mod:`fairseq_attn_plugin.attention.windows`), and the committee that t is offered is the window

    W_t = { j : |j - round(c_t)| <= k, 0 <= j < p },    c_t = min(t / rho, p - 1),

words counted from 0, rho the target words per source word. Halves are rounded up, in float64 and as the attention
``gaussian`` does it: floor(c_t + 0.5 + 1e-3). That attention knows the end of the sentence, p, as a last position,
where its centre stays when t / rho has gone beyond the words; here it stays at the last word.

How satisfied a voter is with a committee is the value that the committee scoring function of an election rule gives
it (Elkind, Faliszewski, Skowron and Slinko 2017, "Properties of multiwinner voting rules", Social Choice and Welfare
48), in per cent of the greatest value that a committee of that size could have. Let i(j) be the rank of candidate j,
1 the best, and beta_p(i) = p - i its Borda score:

    k-Borda   sum_{j in W} beta_p(i(j)) / sum_{i = 1..|W|} beta_p(i)
    SNTV      1 if the voter's first choice is in W, else 0
    Bloc      the share of the voter's |W| first choices that are in W

Where there is one candidate the k-Borda quotient is 0 / 0: the voter has all that it can have, and is satisfied to
100 per cent. A voter who ranks at random is satisfied by k-Borda to (p - 1) / (2 p - |W| - 1) on average, never less
than half.

A voter with equal weights for several candidates ranks the one nearer to round(c_t) first, and of two as near the one
further left. Softmax has no such ties to speak of; sparse weights have many, all at zero, and satisfaction is then the
greatest that the weights allow.

The offsets o = j - round(c_t) stand for election as well, over all voters: first choices, Borda points
beta_p(i) / (p - 1) (1 for the only candidate), and mass, the weight of the word as a share of the weights of all words
of its sentence. A voter gives nothing to an offset that is outside of its sentence.
"""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from ..attention.windows import HALF, window, windows
from ..errors import OptionError

__all__ = [
    "SIGMA_FLOOR",
    "Ballots",
    "Gaussian",
    "Offsets",
    "RuleResult",
    "Tally",
    "ballots",
    "centres",
    "committee",
    "discretized",
    "elected",
    "fit_gaussian",
    "qualifies",
    "rank",
    "recommended",
    "satisfaction",
]

SIGMA_FLOOR = 0.1  # a neighbour then has exp(-50) of the centre's weight: as good as none


class Ballots(NamedTuple):
    """V voters, each with the candidates of its own sentence, in the order of the sentence, from column 0 on."""

    weights: Tensor  # [V, P] in float64, zero where there is no candidate
    words: Tensor  # [V], candidates p
    centres: Tensor  # [V], round(c_t)


def centres(steps: Tensor, words: Tensor, ratio: float) -> Tensor:
    """round(c_t) of target words number ``steps`` in sentences of ``words`` source words, any shape, integers."""
    return ((steps.double() / ratio).minimum(words.double() - 1) + HALF).floor().long()


def ballots(weights: Tensor, source_words: Tensor, target_words: Tensor, ratio: float) -> Ballots:
    """The ballots of a batch.

    Args:
        weights: ``[B, T, N]``, not negative
        source_words: ``[B, N]``, True on words, False on padding and the end of the sentence, wherever they are
        target_words: ``[B, T]``, the same of the target
        ratio: target words per source word, rho

    Returns:
        those of all target words, sentence by sentence, but for sentences without source words
    """
    counts = source_words.sum(1)
    longest = int(counts.max()) if counts.numel() else 0
    # the sort is stable: words come first and keep their order
    columns = source_words.logical_not().byte().sort(dim=1, stable=True)[1][:, :longest]
    compact = weights.double().gather(2, columns.unsqueeze(1).expand(-1, weights.size(1), -1))
    absent = torch.arange(longest, device=weights.device) >= counts.unsqueeze(1)
    compact = compact.masked_fill(absent.unsqueeze(1), 0.0)
    votes = target_words & (counts > 0).unsqueeze(1)
    steps = target_words.cumsum(1) - 1
    words = counts.unsqueeze(1).expand_as(steps)[votes]
    return Ballots(compact[votes], words, centres(steps[votes], words, ratio))


def rank(votes: Ballots) -> Tensor:
    """i(j) ``[V, P]``, from 1 for the best; greater than p where there is no candidate."""
    column = torch.arange(votes.weights.size(1), device=votes.weights.device)
    offset = column - votes.centres.unsqueeze(1)
    nearest = (2 * offset.abs() + (offset > 0)).argsort(1)  # no two are equal
    weights = votes.weights.masked_fill(column >= votes.words.unsqueeze(1), -math.inf)
    best = weights.gather(1, nearest).sort(dim=1, descending=True, stable=True)[1]
    return torch.empty_like(best).scatter_(1, nearest.gather(1, best), (column + 1).expand_as(best))


def committee(votes: Ballots, k: Tensor) -> Tensor:
    """W_t as ``[V, P]``, True on its members; ``k`` is ``[V]``."""
    column = torch.arange(votes.weights.size(1), device=votes.weights.device)
    near = (column - votes.centres.unsqueeze(1)).abs() <= k.unsqueeze(1)
    return near & (column < votes.words.unsqueeze(1))


def satisfaction(ranks: Tensor, members: Tensor, words: Tensor) -> Dict[str, Tensor]:
    """Of every voter with its committee, in per cent: ``[V]`` each for ``k-borda``, ``sntv``, ``bloc``.

    ``chance`` is what k-Borda could be expected to be if the voter ranked at random.

    Args:
        ranks: ``[V, P]`` from :func:`rank`
        members: ``[V, P]``, True on the committee, which has at least one member
        words: ``[V]``, candidates
    """
    size, p = members.sum(1).double(), words.double()
    points = ((p.unsqueeze(1) - ranks) * members).sum(1)
    greatest = size * p - size * (size + 1) / 2
    alone = words == 1
    borda = torch.where(alone, 1.0, points / greatest.masked_fill(alone, 1.0))
    chance = torch.where(alone, 1.0, (p - 1) / (2 * p - size - 1).masked_fill(alone, 1.0))
    first = (members & (ranks == 1)).any(1).double()
    bloc = (members & (ranks <= size.unsqueeze(1))).sum(1) / size
    return {"k-borda": 100 * borda, "sntv": 100 * first, "bloc": 100 * bloc, "chance": 100 * chance}


class RuleResult(NamedTuple):
    """Means over all voters of what a rule's committees are worth."""

    rule: str
    mean_k: float
    mean_window: float  # members of the committee: 2 k + 1, less what the ends of the sentence cut off
    share: float  # of the sentence's words that are members
    satisfaction: Dict[str, float]  # k-borda, sntv, bloc, and chance (k-Borda of random rankings), in per cent
    mass: float  # share of the attention on words that is inside the window
    # points of k-Borda satisfaction per word more than the next smaller window of the table; None without one
    gain_per_word: Optional[float]


class Offsets(NamedTuple):
    """What all voters give to the candidates o = offset[0], offset[0] + 1, ... All but the first two are means over all
    voters, those without such a word included, 0 to 1."""

    offset: Tensor
    voters: Tensor  # those in whose sentence there is such a word
    first_choices: Tensor
    borda: Tensor
    mass: Tensor
    inside: Dict[str, Tensor]  # by rule: the mass that is inside its windows


class Gaussian(NamedTuple):
    mean: float
    sigma: float
    distance: float  # total variation between it and the votes, 0 to 1


class Tally:
    """Sums over voters, batch after batch; its size depends on the rules and the longest sentence alone.

    Raises OptionError, which names ``option``, for an unknown rule, k < 1, or no rule.
    """

    _SUMS = ("k", "window", "share", "k-borda", "sntv", "bloc", "chance", "mass")

    def __init__(self, rules: Sequence[str], option: str = "--rules"):
        self.rules = list(dict.fromkeys(rules))
        if not self.rules:
            raise OptionError(f"{option}: name at least one, as in log2")
        for rule in self.rules:
            window(rule, 1, option)
        self.voters = 0
        self._sums = {rule: torch.zeros(len(self._SUMS), dtype=torch.float64) for rule in self.rules}
        self._reach = 0  # offsets from -reach to reach
        # voters, first choices, Borda points, mass, then the mass inside the windows of each rule
        self._offsets = torch.zeros(4 + len(self.rules), 1, dtype=torch.float64)

    def add(self, votes: Ballots) -> None:
        """Counts the voters of a batch."""
        if not len(votes.words):
            return
        ranks = rank(votes)
        shares = votes.weights / votes.weights.sum(1, keepdim=True).clamp_min(1e-300)
        longest = votes.weights.size(1)
        inside = []
        for rule in self.rules:
            k = torch.tensor(windows(rule, longest), device=votes.words.device)[votes.words]
            members = committee(votes, k)
            inside.append(shares * members)
            size = members.sum(1).double()
            values = satisfaction(ranks, members, votes.words)
            values.update(k=k, window=size, share=size / votes.words, mass=inside[-1].sum(1))
            self._sums[rule] += torch.stack([values[name].double().sum() for name in self._SUMS]).cpu()
        last = (votes.words - 1).unsqueeze(1)
        borda = torch.where(last > 0, (last + 1 - ranks) / last.clamp_min(1).double(), 1.0)
        self._count_offsets(votes, (torch.ones_like(shares), (ranks == 1).double(), borda, shares, *inside))
        self.voters += len(votes.words)

    def _count_offsets(self, votes: Ballots, given: Sequence[Tensor]) -> None:
        """Adds ``given``, each ``[V, P]``, to the rows of the tally, by offset."""
        longest = votes.weights.size(1)
        grow = max(longest - 1 - self._reach, 0)
        self._reach += grow
        self._offsets = torch.nn.functional.pad(self._offsets, (grow, grow))
        column = torch.arange(longest, device=votes.words.device)
        there = column < votes.words.unsqueeze(1)
        place = (column - votes.centres.unsqueeze(1) + self._reach)[there]
        for row, values in zip(self._offsets, given):
            row += torch.bincount(place, values[there], minlength=2 * self._reach + 1).cpu()

    def results(self) -> List[RuleResult]:
        """One for each rule, smallest window first; raises ValueError if nobody voted."""
        if not self.voters:
            raise ValueError("nobody has voted")
        means = {rule: dict(zip(self._SUMS, (sums / self.voters).tolist())) for rule, sums in self._sums.items()}
        table: List[RuleResult] = []
        smaller: Optional[RuleResult] = None
        for rule, mean in sorted(means.items(), key=lambda item: (item[1]["window"], item[1]["k-borda"])):
            if table and mean["window"] > table[-1].mean_window + 1e-9:
                smaller = table[-1]
            gain = None
            if smaller is not None:
                gain = (mean["k-borda"] - smaller.satisfaction["k-borda"]) / (mean["window"] - smaller.mean_window)
            satisfied = {name: mean[name] for name in ("k-borda", "sntv", "bloc", "chance")}
            sizes = mean["k"], mean["window"], mean["share"]
            table.append(RuleResult(rule, *sizes, satisfied, mean["mass"], gain))
        return table

    def offsets(self) -> Offsets:
        """All offsets that could be voted for, in ascending order; raises ValueError if nobody voted."""
        if not self.voters:
            raise ValueError("nobody has voted")
        occurred = self._offsets[0].nonzero().flatten()
        span = slice(int(occurred[0]), int(occurred[-1]) + 1)
        offset = torch.arange(-self._reach, self._reach + 1)[span]
        voters, *means = self._offsets[:, span]
        first, borda, mass, *inside = (row / self.voters for row in means)
        return Offsets(offset, voters.long(), first, borda, mass, dict(zip(self.rules, inside)))


def qualifies(result: RuleResult, least_gain: float = 0.5, most_words: float = 0.72) -> bool:
    """Whether a rule gains ``least_gain`` points of k-Borda satisfaction per word or more and its windows hold at most
    the share ``most_words`` of their sentences.

    These are the two reasons of Bal and Sinha, who choose floor(log2 p) since "beyond that, the increase was not too
    pronounced or involved too many words". The gain alone does not decide: as a window grows to the whole sentence,
    the k-Borda satisfaction of any voter grows to 100 per cent, by chance as by merit. floor(p / 2) holds more than
    three quarters of a sentence over which its centres are spread evenly, floor(log2 p) as much only where p < 6.
    """
    return result.gain_per_word is not None and result.gain_per_word >= least_gain and result.share <= most_words


def recommended(results: Sequence[RuleResult], least_gain: float = 0.5, most_words: float = 0.72) -> RuleResult:
    """The last of the rules, smallest window first, that qualifies; if none does, the first that gives some sentence a
    window of more than one word."""
    for result in reversed(results):
        if qualifies(result, least_gain, most_words):
            return result
    return next((result for result in results if result.mean_k > 0), results[0])


def elected(offsets: Offsets, seats: int) -> List[int]:
    """The k-Borda committee of offsets: the ``seats`` with most Borda points, in ascending order.

    Of equals the one nearer to 0 is elected, and of two as near the left one. Fewer if there are no more candidates.
    """
    candidates = zip(offsets.offset.tolist(), offsets.borda.tolist(), offsets.voters.tolist())
    order = sorted((-points, abs(offset), offset) for offset, points, voters in candidates if voters)
    return sorted(offset for _, _, offset in order[:seats])


def discretized(offset: Tensor, mean: float, sigma: float) -> Tensor:
    """exp(-(o - mean)^2 / (2 sigma^2)) at the integers ``offset``, divided by its sum."""
    return torch.softmax(-0.5 * ((offset.double() - mean) / sigma).square(), -1)


def fit_gaussian(offset: Tensor, mass: Tensor) -> Gaussian:
    """The Gaussian whose first two moments are those of the mass of the offsets:

        mean = sum_o m_o o,    sigma^2 = sum_o m_o (o - mean)^2,    m divided by its sum,

    but sigma is at least ``SIGMA_FLOOR``: a teacher that always looks at one offset has no spread. ``distance`` is
    1/2 sum_o |m_o - g_o|, g the Gaussian at these offsets, divided by its sum. If no offset has mass, mean is 0.

    Moments are drawn far out by tails that a window cuts off: fit the mass inside of the windows for a mask of these
    windows, and the mass of all offsets to see how far attention reaches.
    """
    share = mass.double() / mass.double().sum().clamp_min(1e-300)
    mean = float((share * offset).sum())
    sigma = max(float((share * (offset - mean).square()).sum().sqrt()), SIGMA_FLOOR)
    return Gaussian(mean, sigma, 0.5 * float((share - discretized(offset, mean, sigma)).abs().sum()))
