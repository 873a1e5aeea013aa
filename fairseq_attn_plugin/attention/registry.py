"""The registry of attention mechanisms and of their options.

A mechanism registers itself with :func:`register_attention`, from this package, from a ``--user-dir`` or from an
installed package. Whoever offers the options of all mechanisms (:mod:`fairseq_attn_plugin.models.configuration`)
follows the registry with :func:`follow`, so that it also sees mechanisms that register later.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Callable, Dict, List, Type, get_type_hints

from ..errors import OptionError
from .base import TAKES, Attention, AttentionConfig

__all__ = [
    "Option",
    "attention_class",
    "build_attention",
    "explain_unknown",
    "follow",
    "names",
    "options",
    "options_of",
    "register_attention",
]

Follower = Callable[[Type[Attention]], None]

_MECHANISMS: Dict[str, Type[Attention]] = {}
_FOLLOWERS: List[Follower] = []
# Reasons why a mechanism may be missing, for the message about an unknown name.
_REASONS: List[str] = []


@dataclass(frozen=True)
class Option:
    """One option of a mechanism: its full name (``adm_nodes``), its type, and the dataclass field behind it."""

    name: str
    type: Any
    field: Field


def register_attention(name: str) -> Callable[[Type[Attention]], Type[Attention]]:
    """Class decorator that makes a mechanism available as ``--attention NAME``.

    Raises:
        ValueError: the name, or the name of one of its options, is taken by another class; an option without a
            default, or a flag that is on by default; ``takes`` with an unknown entry
    """

    def register(cls: Type[Attention]) -> Type[Attention]:
        if name in _MECHANISMS:
            raise ValueError(f"the attention {name!r} is registered already, by {_MECHANISMS[name].__name__}")
        _check(name, cls)
        cls.name = name
        _MECHANISMS[name] = cls
        try:
            for follower in _FOLLOWERS:
                follower(cls)
        except Exception:
            del _MECHANISMS[name]
            raise
        return cls

    return register


def _check(name: str, cls: Type[Attention]) -> None:
    unknown = sorted(cls.takes - TAKES)
    if unknown:
        raise ValueError(f"the attention {name!r} takes {unknown[0]!r}; choose from {', '.join(sorted(TAKES))}")
    taken = options()
    for option in options_of(cls.Config):
        if cls.Config.__dataclass_fields__[option.field.name] is not option.field:
            raise ValueError(
                f"the attention {name!r} changes the inherited option {option.name!r}: options are shared by all "
                "mechanisms; let the default be None and the mechanism choose, as default_score does"
            )
        if option.name in taken and taken[option.name].field is not option.field:
            raise ValueError(f"the attention {name!r} redefines the option {option.name!r} of another mechanism")
        if option.field.default is MISSING:
            raise ValueError(f"the option {option.name!r} of the attention {name!r} needs a default")
        if option.field.default is True:
            raise ValueError(
                f"the option {option.name!r} of the attention {name!r} is on by default, so that fairseq's flag "
                "switches it off; name the opposite and let it be off"
            )


def follow(follower: Follower) -> None:
    """Calls ``follower`` with the class of every mechanism that registers from now on.

    If it raises, the mechanism is not registered.
    """
    _FOLLOWERS.append(follower)


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


def explain_unknown(reason: str) -> None:
    """Adds a reason why a mechanism may be missing to the message about an unknown name."""
    _REASONS.append(reason)


def attention_class(name: str) -> Type[Attention]:
    """The class registered as ``name``.

    Raises:
        OptionError: an unknown name
    """
    if name not in _MECHANISMS:
        remedy = "or give the --user-dir of the folder that registers it"
        raise OptionError(
            f"--attention {name}: unknown attention; "
            + "; ".join([f"choose from {', '.join(names())}, {remedy}", *_REASONS])
        )
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
