"""How wide a window of source positions is, by the length of the sentence: k = floor(log_2 p) and the like."""

from __future__ import annotations

from typing import List

from ..errors import OptionError

__all__ = ["HALF", "RULES", "window", "windows"]

# round(c_t) is floor(c_t + HALF): halves are rounded up, also where t / ratio comes out a little below one.
HALF = 0.5 + 1e-3

RULES = ("log4", "log3", "log2", "half")


def window(rule: str, words: int, option: str = "--gaussian-rule") -> int:
    """k, the positions on either side of the centre, in a sentence of p = ``words`` words without the end of sentence.

    ``log4``, ``log3``, ``log2``: floor(log_s p), exactly; ``half``: floor(p / 2); a number: that many, whatever p.
    A sentence without words has k = 0.

    Raises:
        OptionError: an unknown rule, or a number below 1; the message names ``option``
    """
    if rule in ("log4", "log3", "log2"):
        base, k = int(rule[3:]), 0
        while base ** (k + 1) <= words:
            k += 1
        return k
    if rule == "half":
        return max(words, 0) // 2
    try:
        fixed = int(rule)
    except ValueError:
        raise OptionError(f"{option} {rule}: must be one of {', '.join(RULES)}, or a number of positions") from None
    if fixed < 1:
        raise OptionError(f"{option} {rule}: must be at least 1 position on either side")
    if fixed > 10**6:
        raise OptionError(f"{option} {rule}: must be at most a million positions on either side")
    return fixed if words > 0 else 0


def windows(rule: str, longest: int, option: str = "--gaussian-rule") -> List[int]:
    """k of sentences of 0, 1, ..., ``longest`` words."""
    return [window(rule, words, option) for words in range(longest + 1)]
