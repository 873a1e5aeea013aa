"""How the package tells a user about a mistake: one line that names the option, the value and what would be right.

The package itself raises :class:`OptionError`. An exception of another library can be explained by such a line as
well: :func:`annotate` attaches the line to the exception, and :func:`explain_by` adds a rule that derives the line
from the exception. :mod:`fairseq_attn_plugin.patches` does so for stock fairseq. The hook that :func:`install_hook`
puts in ``sys.excepthook`` shows the line. Every other exception keeps its full trace, and so does everything if the
environment has ``FAIRSEQ_ATTN_TRACEBACK=1``.
"""

import atexit
import contextlib
import difflib
import os
import re
import sys
import threading
from types import TracebackType
from typing import Callable, Iterable, List, Optional, Type

try:
    # fairseq-hydra-train prints an exception of this family without its trace
    from hydra.errors import CompactHydraException as _Compact
except ImportError:  # plain torch without fairseq
    _Compact = Exception  # type: ignore[assignment, misc]

Rule = Callable[[BaseException], Optional[str]]

TRACEBACK_VARIABLE = "FAIRSEQ_ATTN_TRACEBACK"
_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)\Z", re.S)
_ANNOTATION = "fairseq_attn_line"
_RULES: List[Rule] = []


class OptionError(ValueError, _Compact):
    """A user's mistake. The message names the option, its value, and what would be right.

    The command-line tools show it as one line without a trace and exit with status 1. In a notebook it is an ordinary
    ``ValueError``.
    """


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "", most: int = 1, cutoff: float = 0.6) -> str:
    """A question with the ``most`` names that are spelt most like ``word``; ``otherwise`` if none is."""
    close = difflib.get_close_matches(word, sorted(set(known)), most, cutoff)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def explain_choice(message: str) -> Optional[str]:
    """The line for argparse's message that a value is none of the choices of an option; None for other messages."""
    found = _CHOICE.match(message)
    if found is None:
        return None
    option, choices = max(found[1].split("/"), key=len), re.findall(r"[^\s,']+", found[3])
    name, is_file, _ = found[2].partition(".yaml")
    otherwise = f"choose from {', '.join(choices)}"
    if is_file and option == "--arch":
        otherwise = "a YAML file is for fairseq-hydra-train --config-dir FOLDER --config-name NAME"
    hint = did_you_mean(name, choices, otherwise, 3, 0.7)
    return f"{option} {found[2]}: is unknown; {hint}"


def wants_traceback() -> bool:
    """Whether the environment asks for full traces."""
    return os.environ.get(TRACEBACK_VARIABLE, "").strip().lower() not in ("", "0", "false", "no")


def annotate(error: BaseException, line: str) -> None:
    """Attach the line that explains ``error``. The first line wins: it comes from where the most is known."""
    if getattr(error, _ANNOTATION, None) is None:
        setattr(error, _ANNOTATION, line)


def explain_by(rule: Rule) -> None:
    """Add a rule: a function from an exception to the line that explains it, or to None."""
    if rule not in _RULES:
        _RULES.append(rule)


def one_line(error: BaseException) -> Optional[str]:
    """The line to show for ``error``, or None if it is not a known mistake and its trace is needed."""
    line: Optional[str] = str(error) if isinstance(error, OptionError) else getattr(error, _ANNOTATION, None)
    for rule in _RULES:
        line = rule(error) if line is None else line
    return None if line is None else " ".join(line.split())


def install_hook() -> None:
    """Put the hook before the present ``sys.excepthook``; a second call changes nothing."""
    previous = sys.excepthook
    if getattr(previous, "shows_option_errors", False):
        return

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        line: Optional[str] = None
        if not wants_traceback():
            with contextlib.suppress(Exception):  # a fault in the explanation must never hide the error itself
                line = one_line(error)
            if issubclass(kind, KeyboardInterrupt):
                line = "interrupted; the same command continues a training from its last checkpoint"
        if line is None:
            previous(kind, error, trace)
        else:
            program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
            sys.stdout.flush()
            sys.stderr.write("%s: error: %s\n" % (program, line))
        if trace is not None and not hasattr(sys, "ps1"):  # not called by hand, not an interactive session
            _leave_loading_threads()

    hook.shows_option_errors = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _leave_loading_threads() -> None:
    """End the process with status 1 if a thread of fairseq is loading batches ahead.

    The interpreter stops such a thread wherever it is when the process ends. Inside torch that sometimes aborts the
    process with status -6 and a message that hides the line above it.
    """
    if any(type(thread).__name__ == "BackgroundConsumer" for thread in threading.enumerate()):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def first_cause(error: BaseException) -> str:
    """The first line of the error that came before all others: the end of a capture fails after what has broken it."""
    while error.__context__ is not None:
        error = error.__context__
    return (str(error) or type(error).__name__).splitlines()[0]
