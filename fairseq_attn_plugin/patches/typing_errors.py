"""A slip in the options of fairseq's commands is one line with what may be meant, without 150 lines of usage.

``fairseq-train --arch lstm_sfot`` and ``--atention mqt`` end with the usage of all options in stock fairseq, whose last
line has 200 architectures, or the words that are not known.
"""

import argparse
from typing import Any, Callable, List, NoReturn

from fairseq_attn_plugin.errors import did_you_mean, explain_choice

from .wrapping import Patch

__all__ = ["PATCH", "explain_slip"]

UNKNOWN = "unrecognized arguments: "


def explain_slip(message: str, options: List[str]) -> str:
    """The line for a message of argparse; other messages remain.

    Args:
        message: of ``ArgumentParser.error``
        options: the options that the command has
    """
    choice = explain_choice(message)
    if choice is not None:
        return choice
    if message.startswith(UNKNOWN):
        words = message[len(UNKNOWN) :].split(" ")
        slips = [word.partition("=")[0] for word in words if word.startswith("-")]
        bare = [f"--{word}" for word in words if f"--{word}" in options]
        if slips:
            hint = did_you_mean(slips[0], options, "the --help of the command lists the options", 3, 0.7)
            return f"{slips[0]}: there is no such option with these settings; {hint}"
        if bare:
            return f"{bare[0][2:]}: is no file or folder to read; did you mean {bare[0]}?"
        return f"{' '.join(words)}: belongs to no option; options begin with --"
    return message


def _in_one_line(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_args_and_arch(parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        def error(message: str) -> NoReturn:
            parser.exit(2, f"{parser.prog}: error: {explain_slip(message, list(parser._option_string_actions))}\n")

        if "error" not in vars(parser):  # otherwise the caller has its own way
            parser.error = error  # type: ignore[method-assign]
        return parse(parser, *args, **kwargs)

    return parse_args_and_arch


PATCH = Patch(
    name="typing_errors",
    reason="a slip in an option ends in 150 lines of usage",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.options:parse_args_and_arch": _in_one_line},
)
