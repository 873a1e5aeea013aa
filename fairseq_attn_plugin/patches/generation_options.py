"""How an option of this package becomes a field of fairseq's ``GenerationConfig``.

It is then a flag of fairseq-generate and fairseq-interactive, an entry of ``generation`` in YAML and of
``--eval-bleu-args`` of fairseq-train, and a keyword of ``generate`` and ``translate`` of fairseq's hub interface.
"""

from dataclasses import Field, field, make_dataclass
from typing import Any, Dict

__all__ = ["add_option"]


def add_option(name: str, kind: type, declared: "Field[Any]") -> None:
    """Add a field to ``GenerationConfig``, in the class itself: other modules have imported it by name.

    Args:
        name: of the field
        kind: its type
        declared: its default and metadata (:func:`fairseq_attn_plugin.options.option`)
    """
    from fairseq.dataclass.configs import GenerationConfig
    from fairseq.dataclass.initialize import hydra_init

    known: Dict[str, Any] = GenerationConfig.__dataclass_fields__
    if name in known:
        return
    own = field(default=declared.default, metadata=declared.metadata)
    extended: Any = make_dataclass("GenerationConfig", [(name, kind, own)], bases=(GenerationConfig,))
    known[name] = extended.__dataclass_fields__[name]
    GenerationConfig.__annotations__[name] = kind
    setattr(GenerationConfig, name, declared.default)
    hydra_init()  # hydra keeps a copy of the configuration, which would refuse the option
