"""How an option of this package becomes a field of fairseq's ``GenerationConfig``.

It is then a flag of fairseq-generate and fairseq-interactive, an entry of ``generation`` in YAML and of
``--eval-bleu-args`` of fairseq-train, and a keyword of ``generate`` and ``translate`` of fairseq's hub interface.
"""

from dataclasses import Field, field, make_dataclass
from typing import Any, Dict, Mapping, Tuple

__all__ = ["add_options"]


def add_options(options: "Mapping[str, Tuple[Any, Field[Any]]]") -> None:
    """Add fields to ``GenerationConfig``, in the class itself: other modules have imported it by name.

    Args:
        options: type, and default with metadata (:func:`fairseq_attn_plugin.options.option`), by the field's name
    """
    from fairseq.dataclass.configs import GenerationConfig
    from fairseq.dataclass.initialize import hydra_init

    known: Dict[str, Any] = GenerationConfig.__dataclass_fields__
    new = {name: added for name, added in options.items() if name not in known}
    if not new:
        return
    own = [(name, kind, field(default=of.default, metadata=of.metadata)) for name, (kind, of) in new.items()]
    extended: Any = make_dataclass("GenerationConfig", own, bases=(GenerationConfig,))
    for name, (kind, declared) in new.items():
        known[name] = extended.__dataclass_fields__[name]
        GenerationConfig.__annotations__[name] = kind
        setattr(GenerationConfig, name, declared.default)
    hydra_init()  # hydra keeps a copy of the configuration, which would refuse the options
