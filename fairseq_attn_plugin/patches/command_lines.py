"""The options of fairseq's commands: ``--help`` shows those of a model, and a slip is one line.

Stock prints the help before it has added the options that ``--arch``, ``--task`` and ``--criterion`` bring. Here the
page waits for them. The options of a model are shown by the attention mechanisms, scores, normalisers and biases that
they belong to, with the values of the architecture. A slip such as ``--arch lstm_sfot`` or ``--atention mqt`` ends with
150 lines of usage in stock; here it is one line with what may be meant.
"""

import argparse
import re
import sys
from collections import defaultdict
from functools import partial
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

from fairseq_attn_plugin import attention as attentions
from fairseq_attn_plugin.attention.registry import MECHANISMS
from fairseq_attn_plugin.errors import did_you_mean, explain_choice

from .wrapping import Patch, before

# ---- help pages


HELP = ("-h", "--help")
MODEL_GROUP = "Model-specific configuration"  # fairseq's title
KINDS = [parts for _, parts in attentions.PARTS]


@before
def _help_at_the_end(parser: Any, input_args: Optional[Sequence[str]] = None, *_args: Any, **_kwargs: Any) -> None:
    """Lets the parser's first look at the words not see ``--help``, and its page be in groups."""
    given = list(sys.argv[1:] if input_args is None else input_args)
    words = [word for word in given if word not in HELP]
    look, show = parser.parse_known_args, parser.print_help

    def parse_known_args(_words: Any = None, namespace: Any = None) -> Any:
        del parser.parse_known_args
        found, extra = look(words, namespace)
        if None in (getattr(found, "arch", ""), getattr(found, "task", "")):  # fairseq would fail
            show()
            parser.exit()
        if hasattr(found, "arch"):
            parser.print_help = partial(_show_groups, parser, found.arch, show)
        return found, extra

    if words != given:
        parser.parse_known_args = parse_known_args


def _show_groups(parser: Any, arch: str, show: Callable[..., None], file: Any = None) -> None:
    """Shows the options of a model in groups, one for the model and one for each set of mechanisms."""
    from fairseq_attn_plugin.criterions.objectives import OBJECTIVES

    values = _values(arch)
    whole = next(group for group in parser._action_groups if group.title == MODEL_GROUP)
    if parser.get_default("arch"):  # that of fairseq-generate is for tasks of speech, and chooses no model
        for action in whole._group_actions:
            action.help = argparse.SUPPRESS
        show(file)
        return
    whole.title = f"options of --arch {arch}"
    owners, by_owner = _owners(), defaultdict(list)
    choices = {kind.option: kind.names() for kind in (MECHANISMS, *KINDS)}
    choices["--objective"] = list(OBJECTIVES)
    for action in parser._actions:
        listed = not action.help or "one of" in action.help
        for option in choices.keys() & set(() if listed else action.option_strings):
            action.help += f"; one of {', '.join(choices[option])}"
    for action in whole._group_actions:
        value = getattr(values, action.dest, None)
        if action.help and value != getattr(type(values).__base__, action.dest, value):  # the help is the base's
            action.help = re.sub(r" \(default: [^()]*\)", "", action.help)
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
    show(file)


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
    for parts in KINDS:
        found.update({option: (parts.option, tuple(parts.having(option))) for option in parts.options()})
    return found


HELP_PAGES = Patch(
    name="help_pages",
    reason="fairseq-train --arch lstm_adm --help does not show the options of the architecture",
    wraps={"fairseq.options:parse_args_and_arch": _help_at_the_end},
)


# ---- typing errors


UNKNOWN = "unrecognized arguments: "


def explain_slip(message: str, options: List[str]) -> str:
    """The line for a message of ``ArgumentParser.error`` of a command with these options; other messages remain."""
    choice = explain_choice(message)
    if choice is not None:
        return choice
    if message.startswith(UNKNOWN):
        words = message[len(UNKNOWN) :].split(" ")
        slips = [word.partition("=")[0] for word in words if word.startswith("-")]
        if slips:
            hint = _belongs_to(slips[0]) or did_you_mean(
                slips[0], options, "the --help of the command lists the options", 3, 0.7
            )
            return f"{slips[0]}: there is no such option with these settings; {hint}"
        return f"{' '.join(words)}: belongs to no option; options begin with --"
    return message


def _belongs_to(option: str) -> str:
    """The criterions, optimizers and so on that have an option."""
    from fairseq.registry import REGISTRIES

    name = option.lstrip("-").replace("-", "_")
    for kind, registry in REGISTRIES.items():
        classes = registry["dataclass_registry"].items()
        having = [chosen for chosen, one in classes if name in getattr(one, "__dataclass_fields__", ())]
        if having:
            *others, last = sorted(having) if len(having) < 4 else [*sorted(having)[:3], "others"]
            return f"it belongs to --{kind.replace('_', '-')} " + " or ".join(filter(None, [", ".join(others), last]))
    return ""


@before
def _in_one_line(parser: argparse.ArgumentParser, *_args: Any, **_kwargs: Any) -> None:
    def error(message: str) -> NoReturn:
        parser.exit(2, f"{parser.prog}: error: {explain_slip(message, list(parser._option_string_actions))}\n")

    if "error" not in vars(parser):  # otherwise the caller has its own way
        parser.error = error  # type: ignore[method-assign]


TYPING_ERRORS = Patch(
    name="typing_errors",
    reason="a slip in an option ends in 150 lines of usage",
    wraps={"fairseq.options:parse_args_and_arch": _in_one_line},
)
