"""How the package tells a user about a mistake: one line that names the option, the value and what is right.

:class:`OptionError` is raised by the package itself. What stock fairseq raises for common mistakes is turned
into such a line by :mod:`fairseq_attn_plugin._explain`. Both are shown by the hook that :func:`install_hook`
puts in ``sys.excepthook``; every other exception keeps its full trace, and so does everything when the
environment has ``FAIRSEQ_ATTN_TRACEBACK=1``.
"""

import atexit
import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Optional, Type


class _Plain:
    """In the place of hydra's base class where hydra is not installed (plain torch without fairseq)."""


if TYPE_CHECKING:
    _Compact = _Plain
else:
    try:
        # fairseq-hydra-train prints an exception of this family without its trace
        from hydra.errors import CompactHydraException as _Compact
    except ImportError:
        _Compact = _Plain

TRACEBACK_VARIABLE = "FAIRSEQ_ATTN_TRACEBACK"


class OptionError(_Compact, ValueError):
    """A user's mistake. The message names the option, its value, and what would be right.

    Shown as one line with exit status 1 and no trace by the command-line tools. In a notebook it is an
    ordinary ``ValueError``.
    """


def wants_traceback() -> bool:
    """Whether the environment asks for full traces."""
    return os.environ.get(TRACEBACK_VARIABLE, "").strip().lower() not in ("", "0", "false", "no")


def one_line(error: BaseException) -> Optional[str]:
    """The line to show for ``error``, or None where it is no known mistake and its trace is needed."""
    from fairseq_attn_plugin._explain import explain

    message = str(error) if isinstance(error, OptionError) else explain(error)
    return None if message is None else " ".join(message.split())


def install_hook() -> None:
    """Put the hook before the present ``sys.excepthook``; a second call changes nothing."""
    previous = sys.excepthook
    if getattr(previous, "shows_option_errors", False):
        return

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        line = None
        if not wants_traceback():
            try:
                line = one_line(error)
            except Exception:  # a fault in the explanation must never hide the error itself
                line = None
        if line is None:
            previous(kind, error, trace)
        else:
            program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
            sys.stdout.flush()
            sys.stderr.write("%s: error: %s\n" % (program, line))
        if trace is not None and not hasattr(sys, "ps1"):  # not called by hand, no interactive session
            _leave_loading_threads()

    hook.shows_option_errors = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _leave_loading_threads() -> None:
    """Ends the process with status 1 if a thread of fairseq's is loading batches ahead.

    The interpreter, when it ends, ends such a thread wherever it is. Inside torch that aborts the process now and then,
    with status -6 and a message that hides the line above it.
    """
    if any(type(thread).__name__ == "BackgroundConsumer" for thread in threading.enumerate()):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
