"""BLEU and chrF of several systems by sacrebleu, and its paired bootstrap test.

Paired bootstrap resampling (Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation"): a
baseline and a system are scored on the same samples of the test set, drawn with replacement; p is the probability of a
difference as large as the observed one if the two were equally good.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from fairseq_attn_plugin.errors import OptionError

__all__ = ["Score", "check_tokenizer", "score_systems"]


class Score(NamedTuple):
    """A system's score by one metric. Without resampling only ``value`` is set."""

    value: float  # of the whole test set, in percent
    mean: Optional[float] = None  # over the samples
    interval: Optional[float] = None  # half of the 95 per cent interval around the mean
    p_value: Optional[float] = None  # of a difference to the baseline; None of the baseline itself


def score_systems(
    systems: Mapping[str, Sequence[str]],
    reference: Sequence[str],
    baseline: Optional[str] = None,
    samples: int = 1000,
    seed: int = 12345,
    tokenize: str = "none",
) -> Tuple[Dict[str, Dict[str, Score]], Dict[str, str]]:
    """Corpus BLEU and chrF2 of every system.

    Args:
        systems: {label: lines}
        reference: as many lines
        baseline: label of the system that all others are compared with by paired bootstrap; None: scores only
        samples: number of samples drawn
        seed: of the random numbers
        tokenize: sacrebleu's tokenizer for BLEU; ``none`` for text whose words are separated by blanks

    Returns:
        {metric: {label: score}}, and {metric: sacrebleu's signature}
    """
    from sacrebleu.metrics import BLEU, CHRF

    def metrics() -> Dict[str, Any]:
        # force: no warning that the text looks tokenized
        return {"BLEU": BLEU(tokenize=tokenize, force=True), "chrF2": CHRF()}

    order = list(systems)
    scores: Dict[str, Dict[str, Score]] = {}
    if baseline is None:
        signatures = {}
        for name, metric in metrics().items():
            scores[name] = {label: Score(metric.corpus_score(systems[label], [reference]).score) for label in order}
            signatures[name] = str(metric.get_signature())
        return scores, signatures

    from sacrebleu.significance import PairedTest

    named: List[Tuple[str, Sequence[str]]] = [(baseline, systems[baseline])]
    named += [(label, systems[label]) for label in order if label != baseline]
    with _seeded(seed):
        test = PairedTest(named, metrics(), [reference], test_type="bs", n_samples=samples)
        signed, results = test()
    labels: List[Any] = list(results.pop("System"))
    for name, given in results.items():
        values: List[Any] = list(given)
        of = {
            label: Score(
                float(value.score),
                float(value.mean),
                float(value.ci),
                None if value.p_value is None else float(value.p_value),
            )
            for label, value in zip(labels, values)
        }
        for label in labels[1:]:
            if list(systems[label]) == list(systems[baseline]):
                # for equal outputs sacrebleu gives the least possible p
                of[label] = of[label]._replace(p_value=1.0)
        scores[name] = {label: of[label] for label in order}
    return scores, {name: str(signature) for name, signature in signed.items()}


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Sets sacrebleu's seed, an environment variable, and silences its log."""
    before, logger = os.environ.get("SACREBLEU_SEED"), logging.getLogger("sacrebleu")
    level = logger.level
    os.environ["SACREBLEU_SEED"] = str(seed)
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def check_tokenizer(name: str) -> None:
    """Raises ``OptionError`` for a tokenizer that sacrebleu does not have, or whose package is not installed."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise OptionError(f"--tokenize {name}: unknown; choose from {', '.join(BLEU.TOKENIZERS)}")
    try:
        BLEU(tokenize=name, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        raise OptionError(f"--tokenize {name}: {' '.join(str(error).split())}") from None
