"""Tests of BLEU for systems with several seeds: paired bootstrap of the sentences, and Holm's correction.

The score of a system is the mean of the BLEU of its seeds. A sample draws sentences with replacement, the same for all
seeds of all systems (Koehn 2004). With the observed difference D to the baseline and the differences D_b of B samples,

    p = (1 + #{b: |D_b - D| >= |D|}) / (1 + B)

is the probability of so large a difference if the two were equally good: the samples, moved to the mean zero, are the
distribution under that hypothesis. The test is about the models that were trained. What another seed would change is
seen from the deviation of the seeds.

The scores are sacrebleu's. Its own tests take one output per system: its approximate randomisation gives nearly the
same p, its bootstrap about half of it, since that looks at one side of the distribution.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence

import numpy as np

__all__ = ["SeedScore", "bleu", "holm", "score_seeds"]

ORDERS = 4  # n-grams of BLEU


class SeedScore(NamedTuple):
    """BLEU of one system over its seeds."""

    mean: float
    interval: float  # half of the 95 per cent interval of the samples
    p_value: float  # of the difference to the baseline; 1 for the baseline itself


def bleu(statistics: np.ndarray) -> float:
    """BLEU of summed statistics: words of the translation, of the reference, and matches and totals of n = 1 to 4.

    Shapes:
        statistics: [2 + 2 * 4]
    """
    from sacrebleu.metrics import BLEU

    counts: List[int] = [int(count) for count in statistics]
    score = BLEU.compute_bleu(counts[2 : 2 + ORDERS], counts[2 + ORDERS :], counts[0], counts[1], smooth_method="exp")
    return float(score.score)


def _with_totals(lines: Sequence[Sequence[int]]) -> np.ndarray:
    """[sentences, 2 + 2 * 4]: a translation of w words has max(0, w - n + 1) n-grams."""
    given = np.asarray(lines, dtype=np.int64).reshape(len(lines), 2 + ORDERS)
    totals = np.maximum(given[:, :1] - np.arange(ORDERS), 0)
    return np.concatenate([given, totals], axis=1)


def score_seeds(
    systems: Mapping[str, Sequence[Sequence[Sequence[int]]]], baseline: str, samples: int = 1000, seed: int = 12345
) -> Dict[str, SeedScore]:
    """BLEU of every system with its interval, and the p-value of its difference to the baseline.

    Args:
        systems: {system: for each seed, for each sentence, words of translation and reference and four matches}
        baseline: one of the systems
        samples: number of samples, at least 2
        seed: of the random numbers

    Raises:
        ValueError: the outputs have different numbers of sentences
    """
    counted = {name: [_with_totals(lines) for lines in seeds] for name, seeds in systems.items()}
    sizes = {len(lines) for seeds in counted.values() for lines in seeds}
    if len(sizes) != 1:
        raise ValueError(f"outputs of {sorted(sizes)} sentences cannot be compared")
    (size,) = sizes
    random = np.random.default_rng(seed)
    # how often each sample has each sentence
    drawn = np.stack([np.bincount(random.integers(size, size=size), minlength=size) for _ in range(samples)])
    observed = {name: np.mean([bleu(lines.sum(0)) for lines in seeds]) for name, seeds in counted.items()}
    sampled = {
        name: np.mean([[bleu(row) for row in drawn @ lines] for lines in seeds], axis=0)
        for name, seeds in counted.items()
    }
    scores = {}
    for name in counted:
        low, high = np.percentile(sampled[name], [2.5, 97.5])
        difference = observed[name] - observed[baseline]
        apart = np.abs(sampled[name] - sampled[baseline] - difference) >= abs(difference)
        scores[name] = SeedScore(float(observed[name]), float(high - low) / 2, float(1 + apart.sum()) / (1 + samples))
    return scores


def holm(p_values: Mapping[str, float]) -> Dict[str, float]:
    """The p-values corrected for their number (Holm 1979): the i-th smallest of m becomes
    max over j <= i of min(1, (m - j + 1) p_j)."""
    corrected: Dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}
