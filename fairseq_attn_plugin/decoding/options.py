"""The options of decoding, of every tool that translates.

Each field of :class:`DecodingOptions` becomes a field of fairseq's ``GenerationConfig``
(:mod:`fairseq_attn_plugin.patches.decoding`). It is then a flag of fairseq-generate and fairseq-interactive, an entry
of ``generation`` in YAML and of ``--eval-bleu-args``, a keyword of fairseq's hub interface, and a flag of the commands
of attn-analysis that translate. To add an option, add a field here; ``DecodingOptions.of(args)`` reads and checks what
a generator was asked for, and :func:`fairseq_attn_plugin.decoding.generator.steppers` makes steppers by it.
"""

from dataclasses import dataclass, fields
from typing import Any, Dict

from ..errors import OptionError
from ..options import option

__all__ = ["ENGINES", "DecodingOptions"]

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
