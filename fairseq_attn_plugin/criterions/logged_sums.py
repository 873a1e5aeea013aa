"""What criterions have in common: sums of batches become fairseq's metrics, for one worker or many, and a criterion
knows the number of updates, which fairseq passes only to the task.

fairseq's metrics (``loss``, ``nll_loss``) are in bits, and ``ppl`` is 2 to the power of ``nll_loss``. The metrics of
the papers (``bound``, ``reconstruction``, ``kl``, the entropies) are in nats per word.
"""

import functools
import math
from typing import Any, Dict, List

import torch
from fairseq import utils
from fairseq.logging import metrics

DIGITS = 4
BITS = 1 / math.log(2)  # in a nat


def least_weight(kind: torch.dtype) -> float:
    """A lower bound of attention in a logarithm or a denominator. Its inverse is the steepest slope, which times
    fairseq's initial loss scale for half precision (128) must not overflow in float16."""
    return 2.0**-8 if kind == torch.float16 else 1e-6


def total(logs: List[Dict[str, Any]], name: str) -> float:
    """The sum of an entry over the logs of all workers."""
    return float(utils.item(sum(log.get(name, 0) for log in logs)))


def log_mean(
    logs: List[Dict[str, Any]], name: str, count: float, scale: float = 1.0, digits: int = DIGITS, entry: str = ""
) -> None:
    """Logs ``scale`` times the mean of an entry (default: ``name``) over ``count``, if there is the entry."""
    entry = entry or name
    if count and any(entry in log for log in logs):
        metrics.log_scalar(name, scale * total(logs, entry) / count, count, round=digits)


def log_sums(logs: List[Dict[str, Any]]) -> None:
    """Logs the mean over words of every sum in the logs of the workers."""
    words, sample_size = total(logs, "ntokens"), total(logs, "sample_size")
    if not words or not sample_size:
        return
    log_mean(logs, "loss", sample_size, BITS, 3)
    for name in ("bound", "kl", "prior_entropy", "posterior_entropy"):
        log_mean(logs, name, words)
    for name in ("nll_loss", "marginal", "soft", "topk", "reconstruction"):  # negative log-likelihoods
        if any(name in log for log in logs):
            scale, base, derived = (BITS, 2.0, "ppl") if name == "nll_loss" else (1.0, math.e, f"{name}_ppl")
            log_mean(logs, name, words, scale)
            metrics.log_derived(derived, perplexity(name, base))
    for name in ("prior", "posterior"):
        log_mean(logs, f"{name}_accuracy", words, 100.0, 2, f"{name}_correct")


def perplexity(name: str, base: float = 2.0) -> Any:
    """A function for ``metrics.log_derived``: ``base`` to the power of the logged mean of ``name``."""
    return lambda meters: utils.get_perplexity(meters[name].avg, base=base)


class Updates:
    """The trainer's number of updates, from ``task.train_step(..., update_num)``.

    A resumed training continues it, and all batches of one update (``--update-freq``) see the same number.

    Attributes:
        number: number of updates so far; 0 before training
    """

    def __init__(self, task: Any):
        self.number = 0
        train_step = getattr(task, "train_step", None)
        if train_step is None:
            return

        @functools.wraps(train_step)
        def listening(
            sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, *rest: Any, **named: Any
        ) -> Any:
            self.number = update_num
            return train_step(sample, model, criterion, optimizer, update_num, *rest, **named)

        task.train_step = listening
