"""BLEU, chrF and TER of several systems by sacrebleu, and tests of their differences.

The tests are those of :mod:`.seed_significance`, paired bootstrap resampling (Koehn 2004, "Statistical Significance
Tests for Machine Translation Evaluation").
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.outputs.seed_significance import Score, score_seeds
from fairseq_attn_plugin.errors import OptionError

__all__ = ["LOWER_IS_BETTER", "Score", "check_tokenizer", "metrics", "score_seeds", "score_systems"]

LOWER_IS_BETTER = ("TER",)


def metrics(tokenize: str = "none", lowercase: bool = False, of_sentences: bool = False) -> Dict[str, Any]:
    """sacrebleu's metrics by name. TER always ignores case, as sacrebleu does by default.

    Args:
        tokenize: sacrebleu's tokenizer for BLEU; ``none`` for text whose words are separated by blanks
        lowercase: ignore case
        of_sentences: BLEU ignores n-gram orders for which a sentence is too short
    """
    from sacrebleu.metrics import BLEU, CHRF, TER

    return {
        # force: no warning that the text looks tokenized
        "BLEU": BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=of_sentences, force=True),
        "chrF2": CHRF(lowercase=lowercase),
        "TER": TER(),
    }


def score_systems(
    systems: Mapping[str, Sequence[Sequence[str]]],
    reference: Sequence[str],
    baseline: Optional[str] = None,
    samples: int = 1000,
    seed: int = 12345,
    tokenize: str = "none",
    seeds_of: Optional[Mapping[str, Sequence[int]]] = None,
) -> Tuple[Dict[str, Dict[str, Score]], Dict[str, str]]:
    """Corpus BLEU, chrF2 and TER of every system.

    Args:
        systems: {label: for each seed, lines}
        reference: as many lines
        baseline: label of the system that all others are compared with by paired bootstrap; None: scores only
        samples: number of samples drawn
        seed: of the random numbers
        tokenize: sacrebleu's tokenizer for BLEU; ``none`` for text whose words are separated by blanks
        seeds_of: {label: the seeds, in the order of their lines}, for :func:`score_seeds` (default: not known)

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
            scores[name] = score_seeds(counted, baseline, samples, seed, score, least, seeds_of)
        signatures[name] = str(metric.get_signature())
    return scores, signatures


def check_tokenizer(name: str) -> None:
    """Raises ``OptionError`` for a tokenizer that sacrebleu does not have, or whose package is not installed."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise OptionError(f"--tokenize {name}: unknown; choose from {', '.join(BLEU.TOKENIZERS)}")
    try:
        BLEU(tokenize=name, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        raise OptionError(f"--tokenize {name}: {' '.join(str(error).split())}") from None
