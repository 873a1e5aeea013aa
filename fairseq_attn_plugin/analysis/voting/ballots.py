"""An election: target words are voters, the words of their source sentence are candidates.

After Bal and Sinha, "Modelling Bahdanau attention using election methods aided by Q-learning". Voter t ranks the p
source words by its attention weights. The end of the sentence neither votes nor is a candidate. A rule gives k
(:mod:`fairseq_attn_plugin.attention.positional.windows`), and voter t gets the committee

    W_t = { j : |j - round(c_t)| <= k, 0 <= j < p },    c_t = min(t / rho, p - 1),

where words are counted from 0 and rho is the number of target words per source word. Halves are rounded up, in float64
and as in the attention ``gaussian``: floor(c_t + 0.5 + 1e-3). That attention also attends to the end of the sentence,
position p, and its centre stays there once t / rho exceeds the last word; here the centre stays at the last word.

The satisfaction of a voter with a committee is the value of the committee scoring function of an election rule
(Elkind, Faliszewski, Skowron and Slinko 2017, "Properties of multiwinner voting rules", Social Choice and Welfare 48),
in per cent of the greatest value of a committee of the same size. Let i(j) be the rank of candidate j, 1 the best, and
beta_p(i) = p - i its Borda score:

    k-Borda   sum_{j in W} beta_p(i(j)) / sum_{i = 1..|W|} beta_p(i)
    SNTV      1 if the voter's first choice is in W, else 0
    Bloc      the share of the voter's |W| first choices that are in W

With a single candidate the k-Borda quotient is 0 / 0, and the satisfaction is 100 per cent. Random rankings give a mean
k-Borda satisfaction of (p - 1) / (2 p - |W| - 1), which is at least one half.

A voter with equal weights for several candidates prefers the one nearer to round(c_t), and the left one of two at the
same distance. Softmax weights rarely tie. Sparse weights often tie at zero, and this order then gives the greatest
satisfaction that the weights allow.

The votes are also counted by offset o = j - round(c_t): first choices, and mass, the weight of the word as a share of
the weights of all words of its sentence. A voter gives nothing to an offset outside its sentence.
"""

from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from fairseq_attn_plugin.attention.positional.windows import HALF, Rule
from fairseq_attn_plugin.errors import OptionError

SIGMA_FLOOR = 0.1  # the weight of a neighbour is then exp(-50) times that of the centre: practically zero
LEAST_GAIN = 0.5  # points of k-Borda satisfaction per word of a recommended window
MOST_WORDS = 0.72  # greatest mean share of a sentence in a recommended window


def centres(steps: np.ndarray, words: int, ratio: float) -> np.ndarray:
    """round(c_t) of the target words number ``steps`` of a sentence of ``words`` source words."""
    return np.floor(np.minimum(steps / ratio, words - 1) + HALF).astype(int)


def rank(weights: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """i(j) of weights ``[T, p]``, 1 for the best candidate; ``centre`` is ``[T]``."""
    distance = np.abs(np.arange(weights.shape[1]) - centre[:, None])
    order = np.lexsort((distance, -weights))  # the sort is stable: the left one of two comes first
    return order.argsort(axis=1) + 1  # the inverse permutation


def satisfaction(ranks: np.ndarray, members: np.ndarray) -> Dict[str, np.ndarray]:
    """Satisfaction of every voter with its committee, in per cent: ``[T]`` each for ``k-borda``, ``sntv``, ``bloc``.

    ``chance`` is the expected k-Borda satisfaction of a random ranking.

    Args:
        ranks: ``[T, p]`` from :func:`rank`
        members: ``[T, p]``, True on the committee, which has at least one member
    """
    p, size = ranks.shape[1], members.sum(1)
    borda = chance = np.ones(len(ranks))
    if p > 1:
        borda = ((p - ranks) * members).sum(1) / (size * p - size * (size + 1) / 2)
        chance = (p - 1) / (2 * p - size - 1)
    first = (members & (ranks == 1)).any(1)
    bloc = (members & (ranks <= size[:, None])).sum(1) / size
    return {"k-borda": 100 * borda, "sntv": 100.0 * first, "bloc": 100 * bloc, "chance": 100 * chance}


class RuleResult(NamedTuple):
    """Means of a rule's committees over all voters."""

    rule: str
    mean_k: float
    mean_window: float  # members of the committee: 2 k + 1, fewer at the ends of a sentence
    share: float  # of the sentence's words that are members
    satisfaction: Dict[str, float]  # k-borda, sntv, bloc, and chance (k-Borda of random rankings), in per cent
    mass: float  # share of the attention on words that is inside the window
    # points of k-Borda satisfaction per word beyond the next smaller window of the table; None without one
    gain_per_word: Optional[float]


class Offsets(NamedTuple):
    """The votes for the offsets, ascending integers; means are over all voters, with those without such a word."""

    offset: np.ndarray
    voters: np.ndarray  # voters whose sentence has such a word
    first_choices: np.ndarray  # mean
    mass: np.ndarray  # mean
    inside: Dict[str, np.ndarray]  # by rule: the mean mass that is inside its windows


class Tally:
    """Sums over voters, sentence after sentence; its size depends only on the rules and the longest sentence.

    Raises ``OptionError``, which names ``--rules``, for an unknown rule, k < 1, or no rule.
    """

    _SUMS = ("k", "window", "share", "k-borda", "sntv", "bloc", "chance", "mass")

    def __init__(self, rules: Sequence[str]):
        self.rules = list(dict.fromkeys(rules))
        if not self.rules:
            raise OptionError("--rules: name at least one rule, such as log2")
        self._windows = {rule: Rule.parse(rule, "--rules").window for rule in self.rules}
        self.voters = 0
        self._sums = {rule: np.zeros(len(self._SUMS)) for rule in self.rules}
        # by offset, from -reach to reach: voters, first choices, mass, then the mass inside the windows of each rule
        self._offsets, self._reach = np.zeros((3 + len(self.rules), 1)), 0

    def add(self, weights: np.ndarray, ratio: float) -> None:
        """Counts the voters of a sentence.

        Args:
            weights: ``[T, p]``, not negative; words alone, without the ends of the sentences
            ratio: target words per source word, rho
        """
        count, p = weights.shape
        if not count or not p:
            return
        weights = weights.astype(np.float64)
        centre = centres(np.arange(count), p, ratio)
        ranks, offset = rank(weights, centre), np.arange(p) - centre[:, None]
        shares = weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)
        votes = [np.ones_like(shares), ranks == 1, shares]
        for rule, window in self._windows.items():
            k = window(p)
            members = np.abs(offset) <= k
            votes.append(shares * members)
            size = members.sum(1)
            values = satisfaction(ranks, members)
            values.update(k=np.full(count, k), window=size, share=size / p, mass=votes[-1].sum(1))
            self._sums[rule] += [values[name].sum() for name in self._SUMS]
        grow = max(p - 1 - self._reach, 0)
        self._reach += grow
        self._offsets = np.pad(self._offsets, ((0, 0), (grow, grow)))
        for row, of_offsets in zip(self._offsets, votes):
            row += np.bincount((offset + self._reach).ravel(), of_offsets.ravel(), minlength=len(row))
        self.voters += count

    def results(self) -> List[RuleResult]:
        """One for each rule, smallest window first; somebody must have voted."""
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
        """All offsets that any voter could vote for; somebody must have voted."""
        occurred = self._offsets[0].nonzero()[0]
        span = slice(occurred[0], occurred[-1] + 1)
        voters, *means = self._offsets[:, span]
        first, mass, *inside = (row / self.voters for row in means)
        offset = np.arange(-self._reach, self._reach + 1)[span]
        return Offsets(offset, voters.astype(int), first, mass, dict(zip(self.rules, inside)))


def qualifies(result: RuleResult) -> bool:
    """Whether a rule gains enough k-Borda satisfaction per word, and its windows contain not too many words.

    These are the two criteria of Bal and Sinha, who choose floor(log2 p) since "beyond that, the increase was not too
    pronounced or involved too many words". The gain alone does not suffice: as a window grows to the whole sentence,
    the k-Borda satisfaction of every voter grows to 100 per cent, even by chance. With evenly spread centres,
    floor(p / 2) contains more than three quarters of a sentence, floor(log2 p) only if p < 6.
    """
    return result.gain_per_word is not None and result.gain_per_word >= LEAST_GAIN and result.share <= MOST_WORDS


def recommended(results: Sequence[RuleResult]) -> RuleResult:
    """The rule with the widest window that qualifies; ``results`` are ordered, smallest window first.

    If no rule qualifies, it is the first rule that gives any sentence a window of more than one word.
    """
    for result in reversed(results):
        if qualifies(result):
            return result
    return next((result for result in results if result.mean_k > 0), results[0])


class Gaussian(NamedTuple):
    mean: float
    sigma: float
    distance: float  # total variation between it and the votes, 0 to 1


def discretized(offset: np.ndarray, mean: float, sigma: float) -> np.ndarray:
    """exp(-(o - mean)^2 / (2 sigma^2)) at the integers ``offset``, divided by its sum."""
    logs = -0.5 * np.square((offset - mean) / sigma)
    values = np.exp(logs - logs.max())
    return values / values.sum()


def fit_gaussian(offset: np.ndarray, mass: np.ndarray) -> Gaussian:
    """The Gaussian whose first two moments are those of the mass of the offsets:

        mean = sum_o m_o o,    sigma^2 = sum_o m_o (o - mean)^2,    m divided by its sum,

    but sigma is at least ``SIGMA_FLOOR``: a teacher that always looks at one offset has no spread. ``distance`` is
    1/2 sum_o |m_o - g_o|, where g is the Gaussian at these offsets, divided by its sum. Without any mass the mean is 0.

    Tails outside a window change the moments much: fit the mass inside the windows to get a mask for these windows,
    and the mass of all offsets to see how far attention reaches.
    """
    share = mass / max(float(mass.sum()), 1e-300)
    mean = float((share * offset).sum())
    sigma = max(float((share * np.square(offset - mean)).sum()) ** 0.5, SIGMA_FLOOR)
    return Gaussian(mean, sigma, 0.5 * float(np.abs(share - discretized(offset, mean, sigma)).sum()))
