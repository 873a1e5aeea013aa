"""How fairseq's functions explain their exceptions.

A wrapper of :func:`explained` sees the exception together with the arguments of the function: the file or the
configuration that the exception itself does not name. It attaches the line that explains the mistake
(:func:`fairseq_attn_plugin.errors.annotate`) and raises the same exception again, so that callers which catch it see
no difference.
"""

import inspect
import os
import re
from typing import Any, Callable, Dict, Optional

from fairseq_attn_plugin.errors import annotate

from .wrapping import MakeWrapper

__all__ = ["Explanation", "explained", "raised_inside"]

Explanation = Callable[[Exception, Dict[str, Any]], Optional[str]]


def explained(explain: Explanation) -> MakeWrapper:
    """What wraps a function such that ``explain(error, arguments)`` explains its exceptions.

    Args:
        explain: takes the exception and the function's arguments by name; returns the line, or None for other mistakes
    """

    def make_wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                try:
                    line = explain(error, signature.bind(*args, **kwargs).arguments)
                except Exception:  # a fault in the explanation must never hide the error itself
                    line = None
                if line is not None:
                    annotate(error, line)
                raise

        return wrapper

    return make_wrapper


def raised_inside(error: BaseException, pattern: str, innermost: bool = True) -> bool:
    """Whether ``pattern`` matches the path of the file that raised ``error`` (or of any file of its trace)."""
    files, trace = [], error.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename.replace(os.sep, "/"))
        trace = trace.tb_next
    return any(re.search(pattern, file) for file in (files[-1:] if innermost else files))
