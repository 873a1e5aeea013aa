"""The window of a Gaussian: k source positions on either side of its centre, by the length of the sentence."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import OptionError

# round(c_t) is floor(c_t + HALF): halves are rounded up, also where t / ratio comes out a little below one.
HALF = 0.5 + 1e-3

RULES = ("log4", "log3", "log2", "half")

MOST_POSITIONS = 10**6


class Rule(NamedTuple):
    """How k depends on p, the number of words of a sentence without its end of sentence.

    ``log4``, ``log3``, ``log2``: k = floor(log_s p), exactly; ``half``: k = floor(p / 2); a number: k is that number
    for every p > 0. A sentence without words has k = 0.
    """

    name: str  # one of RULES, or the digits of a number

    @classmethod
    def parse(cls, text: str, option: str = "--gaussian-rule") -> Rule:
        """The rule that an option or a file names.

        Raises:
            OptionError: an unknown rule, or a number outside 1 to 1,000,000; the message names ``option``
        """
        if text in RULES:
            return cls(text)
        try:
            fixed = int(text)
        except ValueError:
            raise OptionError(f"{option} {text}: must be one of {', '.join(RULES)}, or a number of positions") from None
        if fixed < 1:
            raise OptionError(f"{option} {text}: must be at least 1 position on either side")
        if fixed > MOST_POSITIONS:
            raise OptionError(f"{option} {text}: must be at most a million positions on either side")
        return cls(str(fixed))

    @classmethod
    def from_code(cls, code: int) -> Rule:
        """The rule that a checkpoint holds as ``code``."""
        return cls(RULES[-1 - code] if code < 0 else str(code))

    @property
    def code(self) -> int:
        """The integer that stands for the rule in a checkpoint: its number, or -1 - i for ``RULES[i]``."""
        return -1 - RULES.index(self.name) if self.name in RULES else int(self.name)

    def window(self, words: int) -> int:
        """k of a sentence of ``words`` words."""
        if words < 1:
            return 0
        if self.name == "half":
            return words // 2
        if self.name not in RULES:
            return int(self.name)
        base, k = int(self.name[3:]), 0
        while base ** (k + 1) <= words:
            k += 1
        return k
