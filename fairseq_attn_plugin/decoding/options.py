"""The options of decoding, of every tool that translates.

Each field of :class:`DecodingOptions` becomes a field of fairseq's ``GenerationConfig``
(:mod:`fairseq_attn_plugin.patches.decoding`). It is then a flag of fairseq-generate and fairseq-interactive, an entry
of ``generation`` in YAML and of ``--eval-bleu-args``, a keyword of fairseq's hub interface, and a flag of the commands
of attn-analysis that translate. To add an option, add a field here; ``DecodingOptions.of(args)`` reads and checks what
a generator was asked for, and :func:`fairseq_attn_plugin.decoding.generator.steppers` makes steppers by it.
"""

import argparse
from dataclasses import dataclass, fields
from typing import Any, Dict

from ..errors import OptionError
from ..options import flag, option

__all__ = ["ENGINES", "DecodingOptions", "add_decoding_options"]

ENGINES = ("plugin", "stock")


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

    def __post_init__(self) -> None:
        if self.decoding_engine not in ENGINES:
            raise OptionError(f"--decoding-engine {self.decoding_engine}: must be {' or '.join(ENGINES)}")

    @classmethod
    def of(cls, args: Any) -> "DecodingOptions":
        """The options in a configuration or namespace of generation; those that it lacks have their defaults."""
        given: Dict[str, Any] = {own.name: getattr(args, own.name, own.default) for own in fields(cls)}
        return cls(**given)

    def changed(self) -> Dict[str, Any]:
        """The options that do not have their defaults."""
        return {own.name: getattr(self, own.name) for own in fields(self) if getattr(self, own.name) != own.default}


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to a command of attn-analysis; ``DecodingOptions.of(args)`` reads them."""
    group = parser.add_argument_group("decoding, as in fairseq-generate")
    for own in fields(DecodingOptions):
        kind = own.type if isinstance(own.type, type) else str  # Optional[str] is a string
        group.add_argument(flag(own.name), type=kind, default=own.default, help=own.metadata["help"])
