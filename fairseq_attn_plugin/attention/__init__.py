"""Attention mechanisms and their registry.

Every file of this package is imported, and a mechanism registers itself with :func:`register_attention`: adding a
mechanism means adding one file.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import Field, dataclass, fields
from typing import Any, Callable, Dict, List, Type, get_type_hints

from ..errors import OptionError
from .base import Attention, AttentionConfig, AttentionOutput, Penalty, index_rows, map_tensors

__all__ = [
    "Attention",
    "AttentionConfig",
    "AttentionOutput",
    "Option",
    "Penalty",
    "attention_class",
    "build_attention",
    "index_rows",
    "map_tensors",
    "names",
    "options",
    "options_of",
    "register_attention",
]

_MECHANISMS: Dict[str, Type[Attention]] = {}


@dataclass(frozen=True)
class Option:
    """One option of a mechanism: its full name (``adm_nodes``), its type, and the dataclass field behind it."""

    name: str
    type: Any
    field: Field


def register_attention(name: str) -> Callable[[Type[Attention]], Type[Attention]]:
    """Class decorator that makes a mechanism available as ``--attention NAME``.

    Raises:
        ValueError: the name, or one of the mechanism's option names, is taken by a different class
    """

    def register(cls: Type[Attention]) -> Type[Attention]:
        if name in _MECHANISMS:
            raise ValueError(f"the attention {name!r} is registered already, by {_MECHANISMS[name].__name__}")
        taken = options()
        for option in options_of(cls.Config):
            if cls.Config.__dataclass_fields__[option.field.name] is not option.field:
                raise ValueError(
                    f"the attention {name!r} changes the inherited option {option.name!r}: options are shared by all "
                    "mechanisms; let the default be None and the mechanism choose, as default_score does"
                )
            if option.name in taken and taken[option.name].field is not option.field:
                raise ValueError(f"the attention {name!r} redefines the option {option.name!r} of another mechanism")
        cls.name = name
        _MECHANISMS[name] = cls
        return cls

    return register


def options_of(config: Type[AttentionConfig]) -> List[Option]:
    """The options of a mechanism whose configuration is ``config``."""
    types = get_type_hints(config)
    result = []
    for item in fields(config):
        # The prefix is that of the class that declares the field, so that derived configurations share inherited
        # options.
        owner: Any = next(c for c in reversed(config.__mro__) if item.name in getattr(c, "__dataclass_fields__", {}))
        result.append(Option(f"{owner.prefix}_{item.name}", types[item.name], owner.__dataclass_fields__[item.name]))
    return result


def options() -> Dict[str, Option]:
    """The options of all mechanisms by full name."""
    return {option.name: option for cls in _MECHANISMS.values() for option in options_of(cls.Config)}


def names() -> List[str]:
    """The registered mechanisms, sorted."""
    return sorted(_MECHANISMS)


def attention_class(name: str) -> Type[Attention]:
    """The class registered as ``name``.

    Raises:
        OptionError: there is none
    """
    if name not in _MECHANISMS:
        raise OptionError(f"--attention {name}: unknown attention; choose from {', '.join(names())}")
    return _MECHANISMS[name]


def build_attention(name: str, query_dim: int, memory_dim: int, **options: Any) -> Attention:
    """Builds a mechanism.

    Args:
        name: one of :func:`names`
        query_dim: units of the decoder state, Ds
        memory_dim: units of a source encoding, Dh
        options: the mechanism's options, by field name (``nodes=8``) or by full name (``adm_nodes=8``)

    Raises:
        OptionError: unknown mechanism, option or value
    """
    cls = attention_class(name)
    known = {option.name: option.field.name for option in options_of(cls.Config)}
    values = {}
    for key, value in options.items():
        field_name = known.get(key, key)
        if field_name not in known.values():
            raise OptionError(f"attention {name} has no option {key!r}; it has {', '.join(sorted(known))}")
        values[field_name] = value
    return cls(query_dim, memory_dim, cls.Config(**values))


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
