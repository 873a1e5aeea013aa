"""Runs something hostile and says how it ended: a result, a refusal in one line, or a fault.

A fault is every other exception, more than ``SECONDS`` of the processor, ``WAIT`` seconds or ``MEMORY``, or an output
that is not valid.

``@fuzz(strategy, ...)`` makes a test of a function of examples. In continuous integration it tries ``EXAMPLES``
examples, always the same. With ``FAIRSEQ_ATTN_FUZZ=TIMES`` it tries others, so many times as many. With
``--hypothesis-show-statistics`` Hypothesis counts how they ended.
"""

import contextlib
import io
import os
import resource
import signal
import traceback
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

from hypothesis import HealthCheck, Phase, currently_in_test_context, event, given, settings

from fairseq_attn_plugin.errors import LONGEST_LINE, one_line

EXAMPLES = 40
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
SECONDS = 10.0  # of the processor, which other processes may hold meanwhile
WAIT = 60.0  # by the clock, for what waits without working
MEMORY = 1 << 30
TIMES = int(os.environ.get("FAIRSEQ_ATTN_FUZZ") or 0)


class Ended(NamedTuple):
    """How a run ended."""

    how: str  # result, refusal or fault
    line: str  # the line of a refusal, or what is wrong
    trace: str = ""


class Fault(AssertionError):
    """Something ended as nothing may end."""


class Hang(BaseException):
    """The time is over; no ``except Exception`` catches it."""


def fuzz(*strategies: Any, examples: int = EXAMPLES) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a test of a function. Its last arguments are drawn from ``strategies``, the first ones are fixtures."""
    bounds = settings(
        max_examples=examples * (TIMES or 1),
        derandomize=not TIMES,
        deadline=None,
        database=None,
        report_multiple_bugs=bool(TIMES),
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )
    return lambda function: bounds(given(*strategies)(function))


def attempt(kind: str, run: Callable[[], Any], check: Callable[[], None] = lambda: None) -> None:
    """Runs in this process; ``check`` raises AssertionError if the output of a result is not valid.

    Raises:
        Fault: it has not ended as it may
    """
    ended = _end_of(run, check)
    if currently_in_test_context():
        event(f"{kind}: {ended.how}")
    if ended.how == "fault":
        raise Fault(f"{kind}: {ended.line}\n{ended.trace}")


def _end_of(run: Callable[[], Any], check: Callable[[], None]) -> Ended:
    said, shown = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(shown), _bounded():
            run()
    except SystemExit as error:
        if error.code not in (None, 0):
            lines = [str(error.code)] if isinstance(error.code, str) else said.getvalue().splitlines()
            return _refused(lines[-1] if lines else "")
    except (Exception, Hang, KeyboardInterrupt) as error:
        line = None if isinstance(error, Hang) else one_line(error)
        return _fault(error) if line is None else _refused(line)
    try:
        check()
    except Exception as error:
        return _fault(error)._replace(line=f"the output is not valid: {error}"[:LONGEST_LINE])
    return Ended("result", "")


def _refused(line: str) -> Ended:
    if not line.strip() or "\n" in line.strip() or len(line) > LONGEST_LINE:
        return Ended("fault", f"refused, but not in one line: {line[:200]!r}")
    return Ended("refusal", line)


def _fault(error: BaseException) -> Ended:
    trace = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(trace[-1].filename).name}, {trace[-1].name})" if trace else ""
    return Ended(
        "fault", f"{type(error).__name__}{place}: {str(error)[:200]}", "".join(traceback.format_list(trace[-5:]))
    )


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Raises :class:`Hang` when the time is over. What needs more memory gets none, and ends by MemoryError."""

    def over(alarm: int, _: Any) -> None:
        raise Hang(f"more than {WAIT if alarm == signal.SIGALRM else SECONDS:g} seconds")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    handlers = [(alarm, signal.signal(alarm, over)) for alarm in (signal.SIGPROF, signal.SIGALRM)]
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for alarm, handler in handlers:
            signal.signal(alarm, handler)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
