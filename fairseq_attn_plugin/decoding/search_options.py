"""The values of fairseq's options of search, which it takes as they come, and fails of or misunderstands later."""

import math
from typing import Any, Callable, Dict, Tuple

from fairseq_attn_plugin.decoding.options import STEEPEST
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import flag

__all__ = ["check_search"]

Check = Tuple[Callable[[Any], bool], str]

_POSITIVE: Check = (lambda x: isinstance(x, int) and x >= 1, "at least 1, a whole number")
_NATURAL: Check = (lambda x: 0 <= x < math.inf, "0 or more")
_COUNT: Check = (lambda x: isinstance(x, int) and x >= -1, "at least 1, a whole number (-1 or 0: do without)")
_FINITE: Check = (math.isfinite, "a finite number")

_CHECKS: Dict[str, Check] = {
    "beam": _POSITIVE,
    "nbest": _POSITIVE,
    "lenpen": (lambda x: abs(x) <= STEEPEST, f"a number of at most {STEEPEST}"),
    "unkpen": _FINITE,
    "temperature": (lambda x: 0 < x < math.inf, "above 0"),
    "max_len_a": (lambda x: 0 <= x < math.inf, "0 or more"),
    "max_len_b": _NATURAL,
    "min_len": _NATURAL,
    "prefix_size": _NATURAL,
    "no_repeat_ngram_size": _NATURAL,
    "sampling_topk": _COUNT,
    "sampling_topp": (lambda x: x == -1 or 0 <= x <= 1, "above 0 and at most 1 (-1 or 0: all words)"),
    "diverse_beam_groups": (
        lambda x: isinstance(x, int) and x >= -1,
        "at least 1, a whole number (-1 or 0: no groups)",
    ),
    "diverse_beam_strength": _FINITE,
    "diversity_rate": _FINITE,
    "lm_weight": _FINITE,
}

# The options that choose a search, and whether they do.
_SEARCHES: Dict[str, Callable[[Any], bool]] = {
    "sampling": bool,
    "match_source_len": bool,
    "diverse_beam_groups": lambda x: x is not None and x > 0,
    "diversity_rate": lambda x: x is not None and x > 0,
}


def check_search(args: Any) -> None:
    """Checks the options of a generator, of a command line, of ``--eval-bleu-args`` or of a keyword alike.

    Args:
        args: fairseq's ``GenerationConfig`` or a namespace; what it lacks is not checked

    Raises:
        OptionError: a value that search cannot have, or values that contradict each other
    """
    for name, (right, what) in _CHECKS.items():
        if hasattr(args, name) and not _holds(right, getattr(args, name)):
            raise OptionError(f"{flag(name)} {getattr(args, name)!r}: must be {what}")
    chosen = [name for name, given in _SEARCHES.items() if given(getattr(args, name, None))]
    if len(chosen) > 1:
        raise OptionError(f"{' and '.join(map(flag, chosen))}: are different searches; choose one")
    if getattr(args, "retain_iter_history", False):
        raise OptionError("--retain-iter-history: is for models that refine a translation in iterations; leave it out")
    # without --beam search has a width of 5, in fairseq-train as well
    beam, nbest, groups = (getattr(args, *given) for given in (("beam", 5), ("nbest", 1), ("diverse_beam_groups", -1)))
    if nbest > beam:
        raise OptionError(f"--nbest {nbest}: must be at most --beam {beam}, the hypotheses that search keeps")
    if groups > 1 and beam % groups:
        raise OptionError(f"--diverse-beam-groups {groups}: must divide --beam {beam} into groups of equal size")


def _holds(right: Callable[[Any], bool], value: Any) -> bool:
    try:
        return right(value)
    except TypeError:  # null, or a text: JSON and keywords have both
        return False
