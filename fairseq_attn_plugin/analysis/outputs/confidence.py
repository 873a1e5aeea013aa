"""Correlation of confidence with the quality of translations.

The correlations are Spearman's rho and Kendall's tau-b with sentence chrF. Their interval is the bootstrap's: the 2.5
and 97.5 per cent quantiles over samples of the sentences with replacement.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.errors import OptionError

Interval = Optional[Tuple[float, float]]


class Correlation(NamedTuple):
    """Of one measure. A coefficient is None if the measure is the same for all sentences."""

    mean: float  # of the measure
    spearman: Optional[float]
    spearman_interval: Interval
    kendall: Optional[float]
    kendall_interval: Interval
    best_half: float  # mean chrF of the better half of the sentences by this measure
    given_score: Optional[float] = None  # Spearman's partial correlation, the measure ``score`` held fixed


def scipy() -> Any:
    """scipy with ``stats`` and ``spatial``; raises ``OptionError`` without it."""
    try:
        import scipy.spatial.distance
        import scipy.stats
    except ImportError:
        raise OptionError("correlations need scipy: pip install 'fairseq_attn_plugin[analysis]'") from None
    return scipy


def sentence_chrf(translations: Sequence[str], references: Sequence[str]) -> List[float]:
    """sacrebleu's chrF2 of each sentence, 0 to 100."""
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return [metric.sentence_score(one, [other]).score for one, other in zip(translations, references)]


def correlate(
    measures: Dict[str, Sequence[float]], quality: Sequence[float], samples: int = 1000, seed: int = 12345
) -> Dict[str, Correlation]:
    """The correlation of each measure {name: values} with the quality of the same sentences.

    All measures are sampled alike. Raises ``OptionError`` without scipy, or with fewer than three sentences.
    """
    stats = scipy().stats
    if len(quality) < 3:
        raise OptionError(f"{len(quality)} sentences: a correlation needs at least 3 that have a reference")
    right = np.asarray(quality, dtype=float)
    draws = np.random.default_rng(seed).integers(len(right), size=(samples, len(right)))
    found = {}
    score = stats.rankdata(measures["score"]) if "score" in measures else None
    for name, values in measures.items():
        left = np.asarray(values, dtype=float)
        # ranks of a sample equal those of its values' ranks over all sentences, which are finite
        ranks = stats.rankdata(left)
        order = np.argsort(-ranks, kind="stable")[: (len(left) + 1) // 2]
        coefficients = []
        for function in (stats.spearmanr, stats.kendalltau):
            whole = _coefficient(function, ranks, right)
            drawn = [_coefficient(function, ranks[draw], right[draw]) for draw in draws] if whole is not None else []
            known = [one for one in drawn if one is not None]
            ends = np.quantile(known, (0.025, 0.975)).tolist() if known else None
            coefficients.append((whole, None if ends is None else (ends[0], ends[1])))
        (spearman, first), (kendall, second) = coefficients
        partial = None if score is None or name == "score" else _partial(ranks, stats.rankdata(right), score)
        better = float(right[order].mean())
        found[name] = Correlation(float(left.mean()), spearman, first, kendall, second, better, partial)
    return found


def _partial(left: np.ndarray, right: np.ndarray, given: np.ndarray) -> Optional[float]:
    """(r_lr - r_lg r_rg) / sqrt((1 - r_lg^2) (1 - r_rg^2)), of ranks."""
    if any((one == one[0]).all() for one in (left, right, given)):
        return None
    (_, lr, lg), (_, _, rg), _ = np.corrcoef([left, right, given])
    rest = (1 - lg**2) * (1 - rg**2)
    return float((lr - lg * rg) / np.sqrt(rest)) if rest > 1e-12 else None


def _coefficient(function: object, left: np.ndarray, right: np.ndarray) -> Optional[float]:
    if (left == left[0]).all() or (right == right[0]).all():
        return None
    return float(function(left, right).statistic)  # type: ignore[operator]
