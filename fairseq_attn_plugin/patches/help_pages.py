"""``fairseq-train --user-dir ... --arch lstm_adm --help`` shows the options of the model, in groups.

Stock fairseq prints the help before it has added the options that ``--arch``, ``--task`` and ``--criterion`` bring. The
patch keeps ``--help`` back until they are there. The options of a model are shown by the attention mechanisms, scores,
normalisers and biases that they belong to, with the values of the architecture.
"""

import argparse
import sys
from collections import defaultdict
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from fairseq_attn_plugin import attention as attentions
from fairseq_attn_plugin.criterions.objectives import OBJECTIVES

from .wrapping import Patch

__all__ = ["PATCH"]

HELP = ("-h", "--help")
MODEL_GROUP = "Model-specific configuration"  # fairseq's title


def _help_at_the_end(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_args_and_arch(
        parser: argparse.ArgumentParser, input_args: Optional[Sequence[str]] = None, *args: Any, **kwargs: Any
    ) -> Any:
        words = list(sys.argv[1:] if input_args is None else input_args)
        if set(HELP) & set(words):
            _keep_help_back(parser, [word for word in words if word not in HELP])
        return parse(parser, input_args, *args, **kwargs)

    return parse_args_and_arch


def _keep_help_back(parser: Any, words: List[str]) -> None:
    """Lets the parser's first look at the words not see ``--help``, and its page be in groups."""
    look, show = parser.parse_known_args, parser.print_help

    def parse_known_args(_words: Any = None, namespace: Any = None) -> Any:
        del parser.parse_known_args
        found, extra = look(words, namespace)
        if hasattr(found, "arch"):
            if found.arch is None:  # fairseq would fail
                show()
                parser.exit()
            parser.print_help = print_help_of(found.arch)
        return found, extra

    def print_help_of(arch: str) -> Callable[..., None]:
        def print_help(file: Any = None) -> None:
            _group_options(parser, arch)
            _group_objectives(parser)
            show(file)

        return print_help

    parser.parse_known_args = parse_known_args


def _group_options(parser: Any, arch: str) -> None:
    """Moves the options of a model to groups, one for the model and one for each set of mechanisms."""
    values = _values(arch)
    whole = next(group for group in parser._action_groups if group.title == MODEL_GROUP)
    whole.title = f"options of --arch {arch}"
    owners, by_owner = _owners(), defaultdict(list)
    for action in whole._group_actions:
        value = getattr(values, action.dest, None)
        if action.help is not None and action.dest in _choices():
            action.help += f"; one of {', '.join(_choices()[action.dest])}"
        if value not in (None, False, "") and action.help is not None and "default" not in action.help:
            shown = str(value).replace("%", "%%")
            action.help += f" (default: {shown})"
        by_owner[owners.get(action.dest, ("", ()))].append(action)
    whole._group_actions[:] = by_owner.pop(("", ()), [])
    position = parser._action_groups.index(whole)
    for (option, names), actions in sorted(by_owner.items(), key=lambda item: (item[0][0], -len(item[0][1]), item[0])):
        group = parser.add_argument_group(f"options of {option} {', '.join(names)}")
        group._group_actions += actions
        position += 1
        parser._action_groups.insert(position, parser._action_groups.pop())


def _group_objectives(parser: Any) -> None:
    """Moves the options that an objective has of its own to a group; they are those of the criterion."""
    listed = parser._optionals._group_actions
    for name, objective in OBJECTIVES.items():
        own = [action for action in listed if action.dest in attentions.options_of(objective.Config)]
        if own:
            parser.add_argument_group(f"options of --objective {name}")._group_actions += own
            listed[:] = [action for action in listed if action not in own]
    for action in listed:
        if action.dest == "objective" and action.help is not None:
            action.help += f"; one of {', '.join(OBJECTIVES)}"


def _values(arch: str) -> Any:
    """The options of an architecture by name."""
    from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_DATACLASS_REGISTRY

    if arch in MODEL_DATACLASS_REGISTRY:
        return MODEL_DATACLASS_REGISTRY[arch]()
    values = argparse.Namespace()
    ARCH_CONFIG_REGISTRY.get(arch, lambda _: None)(values)
    return values


def _owners() -> Dict[str, Tuple[str, Tuple[str, ...]]]:
    """The option that chooses who takes an option, and who does, by the option's name."""
    found: Dict[str, Tuple[str, Tuple[str, ...]]] = {}
    for name in attentions.names():
        for option in attentions.options_of(attentions.attention_class(name).Config):
            found[option] = ("--attention", (*found.get(option, ("", ()))[1], name))
    for parts in (attentions.SCORES, attentions.NORMALIZERS, attentions.BIASES):
        found.update({option: (parts.option, tuple(parts.having(option))) for option in parts.options()})
    return found


def _choices() -> Dict[str, List[str]]:
    """The registered names, by the option that chooses one."""
    parts = {"score": attentions.SCORES, "normalizer": attentions.NORMALIZERS, "bias": attentions.BIASES}
    return {"attention": attentions.names(), **{f"attention_{name}": kind.names() for name, kind in parts.items()}}


PATCH = Patch(
    name="help_pages",
    reason="fairseq-train --arch lstm_adm --help does not show the options of the architecture",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.options:parse_args_and_arch": _help_at_the_end},
)
