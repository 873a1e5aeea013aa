"""The options of decoding, of every tool that translates.

Each field of :class:`DecodingOptions` becomes a field of fairseq's ``GenerationConfig``
(:mod:`fairseq_attn_plugin.patches.decoding`). It is then a flag of fairseq-generate and fairseq-interactive, an entry
of ``generation`` in YAML and of ``--eval-bleu-args``, a keyword of fairseq's hub interface, and a flag of the commands
of fairseq-attn that translate. To add an option, add a field here; ``DecodingOptions.of(args)`` reads and checks what
a generator was asked for, and :func:`fairseq_attn_plugin.decoding.stepper.steppers` makes steppers by it.
"""

import argparse
import math
from dataclasses import dataclass, fields
from typing import Any, Dict, Optional, Tuple

from ..errors import OptionError
from ..options import flag, need, option
from ..ranges import STEEPEST

ENGINES = ("plugin", "stock")
PRECISIONS = ("float32", "bfloat16", "int8")
KINDS: Dict[Any, Tuple[Any, str]] = {int: (int, "a whole number"), float: ((int, float), "a number")}


@dataclass
class DecodingOptions:
    """Options of decoding; the field ``x_y`` is ``--x-y`` on a command line.

    Raises:
        OptionError: a value that an option cannot have
    """

    decoding_engine: str = option(
        "plugin",
        "how the models of this package translate: plugin (its own beam search) or stock (fairseq's; default: plugin)",
    )

    decoding_precision: str = option(
        "float32", "numbers of the products: float32, bfloat16 or int8, the fastest and least exact (default: float32)"
    )
    wu_penalty: float = option(
        0.0,
        "rank translations Y by log p / ((5 + |Y|) / 6)^X (Wu et al. 2016) instead of --lenpen; |Y| counts the words, "
        "the start and the end (default: 0, --lenpen)",
    )
    eos_norm: float = option(
        0.0,
        "subtract X |source| / |Y| from log p of the end of the sentence: short translations of long sources become "
        "less probable; |source| counts its words (default: 0)",
    )
    shortlist: Optional[str] = option(
        None,
        "lexicon of fairseq-attn lexicon: translations consist of the likeliest words of the source words, and of "
        "frequent words (default: all words)",
    )
    shortlist_size: int = option(100, "with --shortlist: words for each source word (default: 100)")
    shortlist_frequent: int = option(100, "with --shortlist: the most frequent words, always possible (default: 100)")

    def __post_init__(self) -> None:
        for own in fields(self):  # null, or a text: JSON and keywords have both
            kinds, what = KINDS.get(own.type, ((str, type(None)), "a text"))
            value = getattr(self, own.name)
            if not isinstance(value, kinds):
                raise OptionError(f"{flag(own.name)} {value!r}: must be {what}")
        for name, known in (("decoding_precision", PRECISIONS), ("decoding_engine", ENGINES)):
            need(getattr(self, name) in known, self, name, " or ".join(known))
        need(0 <= self.eos_norm < math.inf, self, "eos_norm", "0 or more")
        need(0 <= self.wu_penalty <= STEEPEST, self, "wu_penalty", f"0 or more and at most {STEEPEST}")
        for name, least in (("shortlist_size", 1), ("shortlist_frequent", 0)):
            need(getattr(self, name) >= least, self, name, f"at least {least}")
            if self.shortlist is None and name in self.changed():
                raise OptionError(
                    f"{flag(name)} {getattr(self, name)}: needs --shortlist LEXICON, whose words it counts"
                )

    def check_unused(self, why: str) -> None:
        """Raises OptionError if an option is given that fairseq's own search does not have; ``why`` it is used."""
        for name, value in self.changed().items():
            if name != "decoding_engine":
                raise OptionError(f"{flag(name)} {value}: {why}; leave it out")

    @classmethod
    def of(cls, args: Any) -> "DecodingOptions":
        """The options in a configuration or namespace of generation; those that it lacks have their defaults."""
        given: Dict[str, Any] = {own.name: getattr(args, own.name, own.default) for own in fields(cls)}
        return cls(**given)

    def changed(self) -> Dict[str, Any]:
        """The options that do not have their defaults."""
        return {own.name: getattr(self, own.name) for own in fields(self) if getattr(self, own.name) != own.default}


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to a command of fairseq-attn; ``DecodingOptions.of(args)`` reads them."""
    group = parser.add_argument_group("decoding, as in fairseq-generate")
    for own in fields(DecodingOptions):
        kind = own.type if isinstance(own.type, type) else str  # Optional[str] is a string
        group.add_argument(flag(own.name), type=kind, default=own.default, help=own.metadata["help"])
