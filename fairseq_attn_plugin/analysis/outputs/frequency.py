"""How often rare and frequent words of the training text occur in translations, and how often they are right.

**Percentiles.** Charalampous and Chatzis ("Quantum Statistics-Inspired Neural Attention", section 5.1, after Ott et al.
2018, "Analyzing Uncertainty in Neural Machine Translation") split words "into bins based on their appearance in their
respective training datasets" and call those of 0 to 30 % rare. They do not define the percentages. Here n(w) is the
number of times that w occurs in the training text, N is the sum of all n, and rarer words come first:

    p(w) = 100 (sum of n(v) over v with n(v) < n(w)  +  half of it over v with n(v) = n(w)) / N

Equally frequent words are therefore in the same bin, and a bin covers about a tenth of the training text and of every
similar text. The paper's reference frequencies of 3.6 to 8.9 % per bin agree with that; tenths of the different words
would be far below one percent. Words that the training text does not contain form the bin ``unseen``. The paper does
not say whether it counts them.

**Deviation** (Table 4 of the paper). f(b) is the share of a text's words that lie in bin b; for the rare words f is the
mean over the bins. Deviation = 100 (f of the output - f of the reference) / f of the reference. A negative value means
that the words are under-represented. The deviation of a bin is the same if f is divided by the number of its
words; that of the rare words, a mean over bins, is not.

**Accuracy.** The words of an output are right up to the number of times that the reference of the sentence contains
them (clipped matches of bags of words). For a bin with m matches, o words in the output and r words in the reference:
precision m / o, recall m / r, F = 2 m / (o + r), as in Neubig et al. 2019, "compare-mt". These bins are ranges of n(w).
"""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import iter_lines
from fairseq_attn_plugin.writing import PathLike

UNSEEN = "unseen"
RARE = 3  # bins of percentiles that are called rare
COUNTS = (1, 2, 5, 10, 100, 1000)  # least counts of the bins of the accuracy
TRAINING, REFERENCE = "training", "reference"
CLOSEST, LEAST = "\u2022", "\u25b4"  # marks of deviations


@dataclass(frozen=True)
class Bins:
    """Names of bins, and the bin of every word: ``of(word)`` is an index into ``names``."""

    names: Tuple[str, ...]
    of: Callable[[str], int]

    def count(self, words: Mapping[str, int]) -> List[int]:
        """How many of the words {word: count} lie in each bin."""
        result = [0] * len(self.names)
        for word, times in words.items():
            result[self.of(word)] += times
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
    return Counter(word for line in lines for word in line.split())


def percentiles(counts: Mapping[str, int]) -> Dict[str, float]:
    """p(w) of the module's docstring for the words of a training text, above 0 and below 100."""
    types = Counter(counts.values())
    total, below, middle = sum(counts.values()), 0, {}
    for times in sorted(types):
        middle[times] = 100 * (below + times * types[times] / 2) / total
        below += times * types[times]
    return {word: middle[times] for word, times in counts.items()}


def percent_bins(counts: Mapping[str, int]) -> Bins:
    """A bin for each tenth of the percentiles, such as ``10 <= p(w) < 20``, and a last bin of unseen words."""
    place = {word: int(percent // 10) for word, percent in percentiles(counts).items()}
    names = (*(f"{low}-{low + 10} %" for low in range(0, 100, 10)), UNSEEN)
    return Bins(names, lambda word: place.get(word, 10))


def count_bins(counts: Mapping[str, int]) -> Bins:
    """Bins of n(w): one of unseen words, and one for each of ``COUNTS``, which ends below the next."""
    ranges = [str(low) if after == low + 1 else f"{low}-{after - 1}" for low, after in zip(COUNTS, COUNTS[1:])]
    return Bins((UNSEEN, *ranges, f"{COUNTS[-1]}+"), lambda word: bisect_right(COUNTS, counts.get(word, 0)))


def shares(words: Mapping[str, int], bins: Bins) -> List[float]:
    """f(b) of the module's docstring, in percent; all are zero for a text without words."""
    total = sum(words.values())
    return [100 * count / total if total else 0.0 for count in bins.count(words)]


def deviation(output: float, reference: float) -> Optional[float]:
    """Percent by which ``output`` differs from ``reference``; None where the latter is zero."""
    return 100 * (output - reference) / reference if reference else None


def accuracy(output: Sequence[str], reference: Sequence[str], bins: Bins) -> List[Accuracy]:
    """Clipped matches of each bin; both texts have the same number of lines."""
    sums = [[0, 0, 0] for _ in bins.names]
    for line, right in zip(output, reference):
        here, there = Counter(line.split()), Counter(right.split())
        for word in here.keys() | there.keys():
            one = sums[bins.of(word)]
            one[0] += min(here[word], there[word])
            one[1] += here[word]
            one[2] += there[word]
    return [Accuracy(*one) for one in sums]


@dataclass(frozen=True)
class Analysis:
    """The results for some systems."""

    percents: Bins
    counts: Bins
    words: Dict[str, Tuple[int, int]]  # {text: (words, different words)}, of training, reference and systems
    types: List[int]  # different words of the training text in each bin of ``percents``
    shares: Dict[str, List[float]]  # {text: f of each bin, in percent}
    accuracies: Dict[str, List[Accuracy]]  # {system: of each bin of ``counts``}

    def rare_share(self, name: str) -> float:
        """Mean of f over the rare bins, in percent; ``name`` is one of ``shares``."""
        return sum(self.shares[name][:RARE]) / RARE


def count_training(path: PathLike) -> Dict[str, int]:
    """How often each word occurs in a training text. The text is read line by line.

    Raises ``OptionError`` if it cannot be read or has no words.
    """
    lines = tqdm(iter_lines(path), desc=str(path), unit=" lines", disable=None, leave=False)
    counts = count_words(lines)
    if not counts:
        raise OptionError(f"--train {path}: has no words; it must be the target side of the training text")
    return counts


def analyse(training: Mapping[str, int], reference: Sequence[str], systems: Mapping[str, Sequence[str]]) -> Analysis:
    """Frequencies and accuracies of the systems, {label: lines of words}; ``training`` are counts of words."""
    percents, counts = percent_bins(training), count_bins(training)
    texts = {TRAINING: training, REFERENCE: count_words(reference)}
    texts.update((label, count_words(lines)) for label, lines in systems.items())
    return Analysis(
        percents,
        counts,
        {name: (sum(words.values()), len(words)) for name, words in texts.items()},
        percents.count(dict.fromkeys(training, 1)),
        {name: shares(words, percents) for name, words in texts.items()},
        {label: accuracy(lines, reference, counts) for label, lines in systems.items()},
    )


def to_json(analysis: Analysis) -> Dict[str, Any]:
    """All numbers, for ``json.dump``."""
    of_texts = {}
    for name, per_bin in analysis.shares.items():
        words, types = analysis.words[name]
        entry: Dict[str, Any] = {"words": words, "different_words": types, "shares": per_bin}
        entry["rare_share"] = analysis.rare_share(name)
        if name in analysis.accuracies:
            right = analysis.shares[REFERENCE]
            entry["deviations"] = [deviation(share, other) for share, other in zip(per_bin, right)]
            entry["rare_deviation"] = deviation(entry["rare_share"], analysis.rare_share(REFERENCE))
            entry["accuracy"] = {
                bin_name: {**vars(one), "precision": one.precision, "recall": one.recall, "f1": one.f1}
                for bin_name, one in zip(analysis.counts.names, analysis.accuracies[name])
            }
        of_texts[name] = entry
    return {
        "bins": list(analysis.percents.names),
        "rare_bins": list(analysis.percents.names[:RARE]),
        "different_words_in_bins": analysis.types,
        "training": of_texts.pop(TRAINING),
        "reference": of_texts.pop(REFERENCE),
        "systems": of_texts,
    }


Table = Tuple[List[str], List[List[str]]]  # headers and rows


def frequency_table(analysis: Analysis) -> Table:
    """Shares by training frequency with their deviations from the reference, and the number of different words.

    ``CLOSEST`` marks the deviation of a row that is closest to zero, ``LEAST`` the least over-representation, the
    smallest deviation of a row that is not negative: the second criterion of Charalampous and Chatzis's Table 4, who
    favour it to any under-representation.
    """
    systems = list(analysis.accuracies)

    def row(name: str, types: str, of: Mapping[str, float]) -> List[str]:
        deviations = [deviation(of[label], of[REFERENCE]) for label in systems]
        known = [value for value in deviations if value is not None]
        closest = min(map(abs, known), default=None)
        lowest = min((value for value in known if value >= 0), default=None)
        cells = [name, types, f"{of[TRAINING]:.2f}", f"{of[REFERENCE]:.2f}"]
        for label, value in zip(systems, deviations):
            marks = ""
            if value is not None and len(systems) > 1:
                marks = f" {CLOSEST * (abs(value) == closest)}{LEAST * (value == lowest)}".rstrip()
            cells.append(f"{of[label]:.2f}" + ("" if value is None else f" ({value:+.1f}{marks})"))
        return cells

    rows = [
        row(name, f"{analysis.types[place]:,}", {text: of[place] for text, of in analysis.shares.items()})
        for place, name in enumerate(analysis.percents.names)
    ]
    rows.append(row(f"rare: mean of {RARE}", "", {text: analysis.rare_share(text) for text in analysis.shares}))
    texts = [TRAINING, REFERENCE, *systems]
    rows.append(["different words", "", *(f"{analysis.words[text][1]:,}" for text in texts)])
    return ["bin", "different words", *texts], rows


def accuracy_table(analysis: Analysis) -> Table:
    """F, precision and recall by training count."""
    systems = list(analysis.accuracies)

    def cell(one: Accuracy) -> str:
        if one.f1 is None:
            return "-"
        return f"{100 * one.f1:.1f} ({_percent(one.precision)} / {_percent(one.recall)})"

    rows = []
    for place, name in enumerate(analysis.counts.names):
        of = [analysis.accuracies[label][place] for label in systems]
        rows.append([name, f"{of[0].reference:,}", *map(cell, of)])
    return ["training count", "in the reference", *systems], rows


def _percent(share: Optional[float]) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def add_frequencies(document: Document, analysis: Analysis) -> None:
    """Rare and frequent words in the outputs, and their accuracy."""
    document.heading("Rare and frequent words")
    document.paragraph(
        "Share of all words in each tenth of the training text, from its rarest to its most frequent words, in per "
        "cent; in brackets the deviation from the reference, in per cent of the reference. "
        f"{CLOSEST}: closest to the reference. {LEAST}: least over-representation."
    )
    document.table(*frequency_table(analysis))
    document.subheading("Accuracy of target words")
    document.paragraph(
        "F (precision / recall) in per cent, by the number of times that a word occurs in the training text."
    )
    document.table(*accuracy_table(analysis))
