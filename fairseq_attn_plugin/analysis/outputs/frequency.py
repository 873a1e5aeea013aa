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
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.outputs import reading
from fairseq_attn_plugin.analysis.outputs.significance import Score, score_systems
from fairseq_attn_plugin.analysis.outputs.tables import markdown_table
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

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


DECILES: Tuple[Tuple[float, float], ...] = tuple((low, low + 10) for low in range(0, 100, 10))
COUNTS = (1, 2, 5, 10, 100, 1000)


@dataclass(frozen=True)
class Analysis:
    """The results for some systems."""

    percents: Bins
    counts: Bins
    rare: Tuple[int, ...]  # indices of the bins of ``percents`` whose mean is Table 4
    words: Dict[str, Tuple[int, int]]  # {text: (words, different words)}, of training, reference and systems
    types: List[int]  # different words of the training text in each bin of ``percents``
    shares: Dict[str, List[float]]  # {text: f of each bin, in percent}
    accuracies: Dict[str, List[Accuracy]]  # {system: of each bin of ``counts``}
    scores: Dict[str, Dict[str, Score]]  # {metric: {system: score}}
    signatures: Dict[str, str]  # {metric: sacrebleu's signature}
    baseline: Optional[str] = None  # that the other systems are tested against

    def rare_share(self, name: str) -> float:
        """Mean of f over the rare bins, in percent; ``name`` is one of ``shares``."""
        return sum(self.shares[name][place] for place in self.rare) / len(self.rare)


TRAINING, REFERENCE = "training", "reference"


def count_training(path: PathLike, remove_bpe: bool = False) -> Dict[str, int]:
    """How often each word occurs in a training text. The text is read line by line.

    Raises ``OptionError`` if it cannot be read or has no words.
    """
    kind = reading.subwords_of(reading.iter_lines(path))[0] if remove_bpe else "none"
    lines = tqdm(reading.iter_lines(path), desc=str(path), unit=" lines", disable=None, leave=False)
    counts = count_words(lines if kind == "none" else reading.join_subwords(lines, kind))
    if not counts:
        raise OptionError(f"--train {path}: has no words; it must be the target side of the training text")
    return counts


def analyse(
    training: Mapping[str, int],
    reference: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    edges: Sequence[Tuple[float, float]] = DECILES,
    measure: str = "tokens",
    rare: float = 30,
    lows: Sequence[int] = COUNTS,
    scored: bool = True,
    **scoring: Any,
) -> Analysis:
    """Frequencies, accuracies and scores of the systems.

    Args:
        training: counts of the training text's words
        reference: lines of words
        systems: {label: lines of words}, as many as the reference
        edges: bins of percentiles
        measure: unit of the percentiles, ``tokens`` or ``types``
        rare: bins up to this percentile are rare words
        lows: lowest counts of the bins of the accuracy
        scored: compute the scores
        scoring: ``baseline``, ``samples``, ``seed``, ``tokenize`` of ``significance.score_systems``

    Raises:
        ValueError: invalid bins
    """
    percents, counts = percent_bins(training, edges, measure), count_bins(training, lows)
    outputs = {label: [lines] for label, lines in systems.items()}
    scores, signatures = score_systems(outputs, reference, **scoring) if scored else ({}, {})
    texts = {REFERENCE: reference, **systems}
    types, total, in_training = [0] * len(percents.names), sum(training.values()), [0] * len(percents.names)
    for word, times in training.items():
        place = percents.of(word)
        if place is not None:
            types[place] += 1
            in_training[place] += times
    words = {TRAINING: (total, len(training))}
    for name, lines in texts.items():
        counted = count_words(lines)
        words[name] = (sum(counted.values()), len(counted))
    return Analysis(
        percents,
        counts,
        tuple(place for place, (_, high) in enumerate(edges) if high <= rare),
        words,
        types,
        {
            TRAINING: [100 * count / total for count in in_training],
            **{name: shares(lines, percents) for name, lines in texts.items()},
        },
        {label: accuracy(lines, reference, counts) for label, lines in systems.items()},
        scores,
        signatures,
        scoring.get("baseline"),
    )


def to_json(analysis: Analysis) -> Dict[str, Any]:
    """All numbers, for ``json.dump``."""
    of_texts = {}
    for name, per_bin in analysis.shares.items():
        words, types = analysis.words[name]
        entry: Dict[str, Any] = {"words": words, "different_words": types, "shares": per_bin}
        if analysis.rare:
            entry["rare_share"] = analysis.rare_share(name)
        if name in analysis.accuracies:
            right = analysis.shares[REFERENCE]
            entry["deviations"] = [deviation(share, other) for share, other in zip(per_bin, right)]
            if analysis.rare:
                entry["rare_deviation"] = deviation(entry["rare_share"], analysis.rare_share(REFERENCE))
            entry["accuracy"] = {
                bin_name: {**vars(one), "precision": one.precision, "recall": one.recall, "f1": one.f1}
                for bin_name, one in zip(analysis.counts.names, analysis.accuracies[name])
            }
            entry["scores"] = {
                metric: {key: value for key, value in scores[name]._asdict().items() if key != "seeds"}
                for metric, scores in analysis.scores.items()
            }
        of_texts[name] = entry
    return {
        "bins": list(analysis.percents.names),
        "rare_bins": [analysis.percents.names[place] for place in analysis.rare],
        "different_words_in_bins": analysis.types,
        "training": of_texts.pop(TRAINING),
        "reference": of_texts.pop(REFERENCE),
        "systems": of_texts,
        "signatures": analysis.signatures,
    }


Table = Tuple[List[str], List[List[str]]]  # headers and rows


def tables(analysis: Analysis) -> str:
    """All tables, as Markdown."""
    parts = [
        "## Scores",
        _markdown(score_table(analysis)),
        "\n".join(f"{metric}: `{signature}`" for metric, signature in analysis.signatures.items()),
        "## Share of the words by training frequency, in percent, and deviation from the reference",
        "Bold: closest to the reference. Italic: least over-representation.",
        _markdown(frequency_table(analysis, best="**{}**", least="*{}*")),
        "## Accuracy of target words by training count",
        "F (precision / recall), in percent",
        _markdown(accuracy_table(analysis)),
    ]
    return "\n\n".join(parts) + "\n"


def score_table(analysis: Analysis) -> Table:
    """Scores of the systems, with intervals and p-values if the analysis has a baseline."""
    systems = list(analysis.accuracies)
    tested = analysis.baseline is not None
    header = ["system"]
    for metric in analysis.scores:
        header += [metric, "95 % interval", "p"] if tested else [metric]
    rows = []
    for label in systems:
        row = [label]
        for scores in analysis.scores.values():
            score = scores[label]
            row.append(f"{score.value:.2f}")
            if tested and score.mean is not None and score.interval is not None:
                row.append(f"{score.mean:.2f} +- {score.interval:.2f}")
                untested = "baseline" if label == analysis.baseline else "-"
                row.append(untested if score.p_value is None else f"{score.p_value:.4f}")
        rows.append([*row, *(f"{number:,}" for number in analysis.words[label])])
    rows.append([REFERENCE, *[""] * (len(header) - 1), *(f"{number:,}" for number in analysis.words[REFERENCE])])
    return [*header, "words", "different words"], rows


def frequency_table(analysis: Analysis, best: str = "{}", least: str = "{}") -> Table:
    """Shares by training frequency with their deviations from the reference.

    Args:
        analysis: the numbers
        best: marks the deviation of a row that is closest to zero
        least: marks the least over-representation, the smallest deviation of a row that is not negative: the second
            criterion of Charalampous and Chatzis's Table 4, who favour it to any under-representation
    """
    systems = list(analysis.accuracies)

    def row(name: str, types: str, of: Mapping[str, float]) -> List[str]:
        deviations = [deviation(of[label], of[REFERENCE]) for label in systems]
        known = [value for value in deviations if value is not None]
        closest = min(map(abs, known), default=None)
        lowest = min((value for value in known if value >= 0), default=None)
        cells = [name, types, f"{of[TRAINING]:.2f}", f"{of[REFERENCE]:.2f}"]
        for label, value in zip(systems, deviations):
            shown = "" if value is None else f" ({value:+.1f})"
            cell = f"{of[label]:.2f}{shown}"
            if value is not None and len(systems) > 1:
                cell = least.format(cell) if value == lowest else cell
                cell = best.format(cell) if abs(value) == closest else cell
            cells.append(cell)
        return cells

    rows = [
        row(name, f"{analysis.types[place]:,}", {text: of[place] for text, of in analysis.shares.items()})
        for place, name in enumerate(analysis.percents.names)
    ]
    if analysis.rare:
        name = f"rare: mean of {len(analysis.rare)}" if len(analysis.rare) > 1 else "rare"
        rows.append(row(name, "", {text: analysis.rare_share(text) for text in analysis.shares}))
    return ["bin", "different words", TRAINING, REFERENCE, *systems], rows


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


def _markdown(table: Table) -> str:
    headers, *rows = [[cell.replace("|", r"\|") for cell in row] for row in [table[0], *table[1]]]
    return markdown_table(headers, rows, "l" + "r" * (len(headers) - 1))
