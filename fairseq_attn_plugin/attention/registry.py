"""The registry of attention mechanisms and of their options.

A mechanism registers itself with :func:`register_attention`, from this package, from a ``--user-dir`` or from an
installed package. Its options are its own, and those of the scores, normalisers and biases that it can have
(:mod:`fairseq_attn_plugin.attention.part_registry`). Whoever offers the options of all mechanisms
(:mod:`fairseq_attn_plugin.models.configuration`) follows the registry with :func:`follow`, so that it also sees what
registers later.

An installed package offers mechanisms, scores, normalisers, biases and objectives by an entry point of the group
``fairseq_attn_plugin`` whose value is the module that registers them:

    [project.entry-points.fairseq_attn_plugin]
    distance = "distance_attention"

The modules are imported when this package registers itself, thus with fairseq and no earlier: a command that only reads
records imports none of them. An installed package is trusted, as all that is installed; ``--user-dir`` is for code that
is not.
"""

import logging
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Callable, Dict, List, Tuple, Type

from ..errors import OptionError
from ..options import flag
from .base import TAKES, Attention
from .biases import BIASES, parse_biases
from .normalizers import NORMALIZERS
from .part_registry import FOLLOWERS, Option, Parts, options_of
from .scores import SCORES

logger = logging.getLogger(__name__)

MECHANISMS: Parts[Any] = Parts("attention", "attention")
names, attention_class = MECHANISMS.names, MECHANISMS.find
# The kinds of parts, by the entry of Attention.takes of mechanisms that can have them.
PARTS: Tuple[Tuple[str, Parts[Any]], ...] = (("bias", SCORES), ("normalizer", NORMALIZERS), ("bias", BIASES))


def register_attention(name: str) -> Callable[[Type[Attention]], Type[Attention]]:
    """Class decorator that makes a mechanism available as ``--attention NAME``.

    Raises:
        ValueError: the name, or the name of one of its options, is taken by another class; an option without a
            default, or a flag that is on by default; ``takes`` with an unknown entry
    """

    def register(cls: Type[Attention]) -> Type[Attention]:
        unknown = sorted(cls.takes - TAKES)
        if unknown:
            raise ValueError(f"the attention {name!r} takes {unknown[0]!r}; choose from {', '.join(sorted(TAKES))}")
        return MECHANISMS.register(name)(cls)

    return register


def follow(follower: Callable[[], None]) -> None:
    """Calls ``follower`` whenever a mechanism, score, normaliser, bias or objective has registered from now on.

    If it raises, that is not registered.
    """
    FOLLOWERS.append(follower)


def parts_of(mechanism: Type[Attention]) -> List[Parts[Any]]:
    """The kinds of parts that a mechanism can have."""
    return [parts for kind, parts in PARTS if kind in mechanism.takes]


def options_taken(mechanism: Type[Attention]) -> Dict[str, Option]:
    """The options of a mechanism and of the parts that it can have, by full name."""
    taken = options_of(mechanism.Config)
    for parts in parts_of(mechanism):
        taken.update(parts.options())
    return taken


def options() -> Dict[str, Option]:
    """The options of all mechanisms and parts by full name."""
    found = MECHANISMS.options()
    for _, parts in PARTS:
        found.update(parts.options())
    return found


def chosen_parts(mechanism: Type[Attention], values: Any) -> Dict[str, List[str]]:
    """The parts that options choose, by the option: ``{"--attention-score": ["general"]}``. ``values`` returns the
    value of an option of ``AttentionConfig`` by field name.

    Raises:
        OptionError: an unknown bias
    """
    score = values("score") or getattr(mechanism, "default_score", None)
    return {
        SCORES.option: [score] if score else [],
        NORMALIZERS.option: [values("normalizer")],
        BIASES.option: parse_biases(values("bias")),
    }


def build_attention(name: str, query_dim: int, memory_dim: int, **options: Any) -> Attention:
    """Builds a mechanism.

    Args:
        name: one of :func:`names`
        query_dim: units of the decoder state, Ds
        memory_dim: units of a source encoding, Dh
        options: the mechanism's options and those of its parts, by full name (``adm_nodes=8``,
            ``attention_bias_window=2``), by field name (``nodes=8``), or without ``attention_`` (``bias_window=2``)

    Raises:
        OptionError: unknown mechanism, option or value, or a flag of a part that is not chosen
    """
    cls = attention_class(name)
    taken, own = options_taken(cls), options_of(cls.Config)
    by_field = {option.field.name: full for full, option in own.items()}
    values = {}
    for key, value in options.items():
        full = by_field.get(key, key if key in taken else f"attention_{key}")
        if full not in taken:
            if "bias" not in cls.takes and (full in SCORES.options() or full in BIASES.options()):
                raise OptionError(
                    f"{flag(full)}: {name} attention has no scores; leave it out, or choose another --attention"
                )
            raise OptionError(f"attention {name} has no option {key!r}; it has {', '.join(sorted(taken))}")
        values[full] = value
    config = cls.Config(**{own[full].field.name: value for full, value in values.items() if full in own})
    vars(config)["of_parts"] = {full: value for full, value in values.items() if full not in own}
    chosen = chosen_parts(cls, lambda field: getattr(config, field))
    for full, parts in idle_options(cls, lambda field: getattr(config, field)).items():
        if parts.options()[full].type is bool and config.of_parts.get(full):
            raise OptionError(
                f"{flag(full)}: is for the {parts.kind} {' or '.join(parts.having(full))}, and this attention has "
                f"{parts.option} {','.join(chosen[parts.option]) or 'none'}; leave one of the two out"
            )
    return cls(query_dim, memory_dim, config)


def idle_options(mechanism: Type[Attention], values: Callable[[str], Any]) -> Dict[str, Parts[Any]]:
    """The options of parts that a mechanism can have and that are not chosen by ``values`` (:func:`chosen_parts`), by
    full name."""
    chosen = chosen_parts(mechanism, values)
    return {
        name: parts
        for parts in parts_of(mechanism)
        for name in sorted(parts.options())
        if not set(parts.having(name)) & set(chosen[parts.option])
    }


GROUP = "fairseq_attn_plugin"
EARLIER = "fairseq_attn_plugin.attention"  # the group's first name


def load_entry_points() -> None:
    """Imports the modules of all entry points of the group.

    A module that cannot be imported costs a warning of one line: a broken package must not stop a training that does
    not need it.
    """
    every = entry_points()
    found = [entry for group in (GROUP, EARLIER) for entry in every.select(group=group)]
    for entry in {(entry.name, entry.value): entry for entry in found}.values():
        try:
            # Not entry.load(): the package may be the one that is being imported and that has imported us.
            import_module(entry.value.partition(":")[0].strip())
        except (Exception, SystemExit) as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            logger.warning(f"the entry point {entry.name} = {entry.value} ({entry.group}) cannot be loaded: {text}")
