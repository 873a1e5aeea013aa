"""Reads what a trace knows: the frames of an exception, their files, and their local variables."""

import os
import re
from types import FrameType
from typing import Any, Iterator


def frames(error: BaseException) -> Iterator[FrameType]:
    """The frames of the trace, outermost first."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def local(error: BaseException, function: str, name: str) -> Any:
    """The local variable ``name`` of the innermost frame of ``function`` in the trace, or None."""
    found = None
    for frame in frames(error):
        if frame.f_code.co_name == function and name in frame.f_locals:
            found = frame.f_locals[name]
    return found


def is_inside(error: BaseException, pattern: str, innermost: bool = True) -> bool:
    """Whether ``pattern`` matches the path of the file that raised it (or of any file of the trace)."""
    files = [frame.f_code.co_filename.replace(os.sep, "/") for frame in frames(error)]
    return any(re.search(pattern, file) for file in (files[-1:] if innermost else files))


def get(thing: Any, *names: str) -> Any:
    """``thing.name1.name2`` through attributes and keys; None where one is missing."""
    for name in names:
        thing = thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)
    return thing
