"""How often rare and frequent words of the training text occur in translations, and how often they are right.

**Percentiles.** Charalampous and Chatzis ("Quantum Statistics-Inspired Neural Attention", section 5.1, after Ott et al.
2018, "Analyzing Uncertainty in Neural Machine Translation") split words "into bins based on their appearance in their
respective training datasets" and call those of 0 to 30 % rare. They do not define the percentages. Here n(w) is the
number of times that w occurs in the training text, N is the sum of all n, and rarer words come first:

    tokens   p(w) = 100 (sum of n(v) over v with n(v) < n(w)  +  half of it over v with n(v) = n(w)) / N
    types    the same sums with 1 in place of n, and N the number of different words

Equally frequent words are therefore in the same bin. By tokens, a tenth of the percentiles covers about a tenth of the
training text and of every similar text. The paper's reference frequencies of 3.6 to 8.9 % per bin agree with that; by
types they would be far below one percent. Words that the training text does not contain form the bin ``unseen``. The
paper does not say whether it counts them.

**Deviation** (Table 4 of the paper). f(b) is the share of a text's words that lie in bin b; for a group of bins f is
the mean over the bins. Deviation = 100 (f of the output - f of the reference) / f of the reference. A negative value
means that the words are under-represented. The deviation is the same if f is divided by the number of words in the bin.

**Accuracy.** The words of an output are right up to the number of times that the reference of the sentence contains
them (clipped matches of bags of words). For a bin with m matches, o words in the output and r words in the reference:
precision m / o, recall m / r, F = 2 m / (o + r), as in Neubig et al. 2019, "compare-mt". These bins are ranges of n(w).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

MEASURES = ("tokens", "types")
UNSEEN = "unseen"


@dataclass(frozen=True)
class Bins:
    """Names of bins, and the bin of every word: ``of(word)`` is an index into ``names``, or None for no bin."""

    names: Tuple[str, ...]
    of: Callable[[str], Optional[int]]

    def count(self, lines: Iterable[str]) -> List[int]:
        """How many words of a text, given as lines of words, lie in each bin."""
        result = [0] * len(self.names)
        for word, times in count_words(lines).items():
            place = self.of(word)
            if place is not None:
                result[place] += times
        return result


@dataclass(frozen=True)
class Accuracy:
    """Clipped matches of the words of one bin; the module's docstring defines them."""

    matches: int
    output: int
    reference: int

    @property
    def precision(self) -> Optional[float]:
        """None if the output has no such word."""
        return self.matches / self.output if self.output else None

    @property
    def recall(self) -> Optional[float]:
        """None if the reference has no such word."""
        return self.matches / self.reference if self.reference else None

    @property
    def f1(self) -> Optional[float]:
        """None if neither has such a word."""
        total = self.output + self.reference
        return 2 * self.matches / total if total else None


def count_words(lines: Iterable[str]) -> Dict[str, int]:
    """How often each word of a text occurs."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    return counts


def percentiles(counts: Mapping[str, int], measure: str = "tokens") -> Dict[str, float]:
    """p(w) of the module's docstring for the words of a training text, above 0 and below 100.

    ``counts`` are those of :func:`count_words`, ``measure`` is one of ``MEASURES``.
    """
    types = Counter(counts.values())
    sizes = {times: number * (times if measure == "tokens" else 1) for times, number in types.items()}
    total, below, middle = sum(sizes.values()), 0, {}
    for times in sorted(sizes):
        middle[times] = 100 * (below + sizes[times] / 2) / total
        below += sizes[times]
    return {word: middle[times] for word, times in counts.items()}


def percent_bins(counts: Mapping[str, int], edges: Sequence[Tuple[float, float]], measure: str = "tokens") -> Bins:
    """Bins ``(low, high)`` of percentiles, ``low <= p(w) < high``, and a last bin of unseen words.

    Raises ``ValueError`` unless they are in order, without overlap, and between 0 and 100.
    """
    ends = [end for pair in edges for end in pair]
    # the comparisons also reject NaN
    if not edges or ends != sorted(ends) or not all(0 <= low < high <= 100 for low, high in edges):
        raise ValueError("bins of percentiles must be in order, not overlap, and lie between 0 and 100")
    place, lows = percentiles(counts, measure), [low for low, _ in edges]

    def of(word: str) -> Optional[int]:
        if word not in place:
            return len(edges)
        index = bisect_right(lows, place[word]) - 1
        return index if index >= 0 and place[word] < edges[index][1] else None

    return Bins((*(f"{low:g}-{high:g} %" for low, high in edges), UNSEEN), of)


def count_bins(counts: Mapping[str, int], lows: Sequence[int] = (1, 2, 5, 10, 100, 1000)) -> Bins:
    """Bins of n(w): one of unseen words, and one for each of ``lows``, which ends below the next.

    Raises ``ValueError`` unless these are positive and ascending.
    """
    if not lows or list(lows) != sorted(set(lows)) or lows[0] < 1:
        raise ValueError("bins of counts must be positive and ascending")
    names = [UNSEEN] if lows[0] == 1 else [f"0-{lows[0] - 1}"]
    for low, after in zip(lows, lows[1:]):
        names.append(str(low) if after == low + 1 else f"{low}-{after - 1}")
    return Bins((*names, f"{lows[-1]}+"), lambda word: bisect_right(lows, counts.get(word, 0)))


def shares(lines: Sequence[str], bins: Bins) -> List[float]:
    """f(b) of the module's docstring, in percent: the share of a text's words that lies in each bin.

    The total includes unseen words and words of no bin. All shares are zero for a text without words.
    """
    counts, total = bins.count(lines), sum(len(line.split()) for line in lines)
    return [100 * count / total if total else 0.0 for count in counts]


def deviation(output: float, reference: float) -> Optional[float]:
    """Percent by which ``output`` differs from ``reference``; None where the latter is zero."""
    return 100 * (output - reference) / reference if reference else None


def accuracy(output: Sequence[str], reference: Sequence[str], bins: Bins) -> List[Accuracy]:
    """Clipped matches of each bin; both texts have the same number of lines."""
    sums = [[0, 0, 0] for _ in bins.names]
    for line, right in zip(output, reference):
        here, there = Counter(line.split()), Counter(right.split())
        for word in here.keys() | there.keys():
            place = bins.of(word)
            if place is not None:
                one = sums[place]
                one[0] += min(here[word], there[word])
                one[1] += here[word]
                one[2] += there[word]
    return [Accuracy(*one) for one in sums]
