"""BLEU, chrF and TER of systems by sacrebleu, and a test of their differences: paired bootstrap of the sentences.

The score of a system is the mean of the scores of its seeds. A sample draws sentences with replacement, the same for
all seeds of all systems (Koehn 2004). With the observed difference D to the baseline and the differences D_b of B
samples,

    p = (1 + #{b: |D_b - D| >= |D|}) / (1 + B)

is the probability of so large a difference if the two were equally good: the samples, moved to the mean zero, are the
distribution under that hypothesis. A system whose seeds are known is compared on those that the baseline has as well,
if there are any: seeds differ by more than most systems do. The test is about the models that were trained. What
another seed would change is seen from the deviation of the seeds. There is no p where nothing is tested: outputs that
are the same, or a system without a match with the reference (BLEU 0.00).

The scores are sacrebleu's. Its own tests take one output per system: its approximate randomisation gives nearly the
same p, its bootstrap about half of it, since that looks at one side of the distribution.
"""

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

SEED = 12345  # of the samples


class Score(NamedTuple):
    """A system's score by one metric. Without resampling only ``value`` and ``seeds`` are set."""

    value: float  # of the whole test set, in percent: the mean of the seeds
    seeds: Sequence[float] = ()  # the score of each
    interval: Optional[float] = None  # half of the 95 per cent interval of the samples
    p_value: Optional[float] = None  # of the difference to the baseline; None: of the baseline, or not to be tested


def score_seeds(
    systems: Mapping[str, Sequence[np.ndarray]],
    baseline: str,
    samples: int = 1000,
    least: float = 0.005,
    seeds_of: Optional[Mapping[str, Sequence[int]]] = None,
    *,
    score: Callable[[Any], float],
) -> Dict[str, Score]:
    """The score of every system with its interval, and the p-value of its difference to the baseline.

    Args:
        systems: {system: for each seed, statistics [sentences, S]}
        baseline: one of the systems
        samples: number of samples, at least 2
        score: of the sum of the statistics
        least: a score below it is shown as 0.00 and not tested; nor is a test set of one sentence
        seeds_of: {system: the seeds, in the order of their statistics} (default: not known)
    """
    (size,) = {len(lines) for seeds in systems.values() for lines in seeds}
    random = np.random.default_rng(SEED)
    observed = {name: np.array([float(score(lines.sum(0))) for lines in seeds]) for name, seeds in systems.items()}
    sampled = {name: np.empty((len(seeds), samples)) for name, seeds in systems.items()}
    for sample in range(samples):  # one in memory at a time
        drawn = np.bincount(random.integers(size, size=size), minlength=size)  # how often it has each sentence
        for name, seeds in systems.items():
            sampled[name][:, sample] = [score(drawn @ lines) for lines in seeds]
    scores = {}
    for name in systems:
        all_sampled = sampled[name].mean(0)
        low, high = np.percentile(all_sampled, [2.5, 97.5])
        ours, theirs = _compared(name, baseline, seeds_of or {})
        mean, base = observed[name][ours].mean(), observed[baseline][theirs].mean()
        mean_sampled, base_sampled = sampled[name][ours].mean(0), sampled[baseline][theirs].mean(0)
        apart = np.abs(mean_sampled - base_sampled - (mean - base)) >= abs(mean - base)
        p_value = float(1 + apart.sum()) / (1 + samples)
        # sums of the same numbers in another order of the seeds differ in the last digit
        same = name == baseline or np.allclose(mean_sampled, base_sampled, rtol=1e-12, atol=0)
        untested = same or size < 2 or min(mean, base) < least
        scores[name] = Score(
            float(observed[name].mean()),
            observed[name].tolist(),
            float(high - low) / 2,
            None if untested else p_value,
        )
    return scores


def _compared(name: str, baseline: str, seeds_of: Mapping[str, Sequence[int]]) -> Tuple[Any, Any]:
    """Which outputs of a system and of the baseline are compared: those of the seeds that both have, or all."""
    ours, theirs = (seeds_of.get(one, ()) for one in (name, baseline))
    both = set(ours) & set(theirs)
    if not both:
        return slice(None), slice(None)
    return [seed in both for seed in ours], [seed in both for seed in theirs]


LOWER_IS_BETTER = ("TER",)


def metrics(tokenize: str = "none", of_sentences: bool = False) -> Dict[str, Any]:
    """sacrebleu's metrics by name. TER always ignores case, as sacrebleu does by default.

    Args:
        tokenize: sacrebleu's tokenizer for BLEU; ``none`` for text whose words are separated by blanks
        of_sentences: BLEU ignores n-gram orders for which a sentence is too short
    """
    from sacrebleu.metrics import BLEU, CHRF, TER

    return {
        # force: no warning that the text looks tokenized
        "BLEU": BLEU(tokenize=tokenize, effective_order=of_sentences, force=True),
        "chrF2": CHRF(),
        "TER": TER(),
    }


def score_systems(
    systems: Mapping[str, Sequence[Sequence[str]]],
    reference: Sequence[str],
    baseline: Optional[str] = None,
    samples: int = 1000,
    tokenize: str = "none",
    seeds_of: Optional[Mapping[str, Sequence[int]]] = None,
) -> Tuple[Dict[str, Dict[str, Score]], Dict[str, str]]:
    """Corpus BLEU, chrF2 and TER of every system.

    Args:
        systems: {label: for each seed, lines}
        reference: as many lines
        baseline: label of the system that all others are compared with by paired bootstrap; None: scores only
        samples, seeds_of: see :func:`score_seeds`
        tokenize: see :func:`metrics`

    Returns:
        {metric: {label: score}}, and {metric: sacrebleu's signature}
    """
    scores: Dict[str, Dict[str, Score]] = {}
    signatures = {}
    for name, metric in metrics(tokenize).items():

        def score(statistics: Any, metric: Any = metric) -> float:
            return float(metric._compute_score_from_stats([int(count) for count in statistics]).score)

        counted = {
            label: [
                np.asarray(metric._extract_corpus_statistics(lines, [reference]), dtype=np.int64) for lines in seeds
            ]
            for label, seeds in systems.items()
        }
        if baseline is None:
            values = {label: [score(lines.sum(0)) for lines in seeds] for label, seeds in counted.items()}
            scores[name] = {label: Score(float(np.mean(seeds)), seeds) for label, seeds in values.items()}
        else:
            # TER 0.00 is a perfect translation
            least = 0.0 if name in LOWER_IS_BETTER else 0.005
            scores[name] = score_seeds(counted, baseline, samples, least, seeds_of, score=score)
        signatures[name] = str(metric.get_signature())
    return scores, signatures
