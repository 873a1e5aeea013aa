"""Analyses rare and frequent words in the outputs of systems: shares, accuracy and scores.

:mod:`.word_frequency` defines the counts; :mod:`.significance` computes the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.outputs import reading
from fairseq_attn_plugin.analysis.outputs.significance import Score, score_systems
from fairseq_attn_plugin.analysis.outputs.word_frequency import (
    Accuracy,
    Bins,
    accuracy,
    count_bins,
    count_words,
    deviation,
    percent_bins,
    shares,
)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["Analysis", "analyse", "count_training", "to_json"]


DECILES: Tuple[Tuple[float, float], ...] = tuple((low, low + 10) for low in range(0, 100, 10))
COUNTS = (1, 2, 5, 10, 100, 1000)


@dataclass(frozen=True)
class Analysis:
    """The results for some systems; the bins are those of ``word_frequency``."""

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
