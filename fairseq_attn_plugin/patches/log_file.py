"""``--log-file`` has each line once.

Stock fairseq opens the file again for every epoch, and never closes it: in epoch e a line is written e times. The patch
keeps the handler that was added last.
"""

import functools
import logging
from typing import Any, Callable, List

from .wrapping import Patch

__all__ = ["PATCH"]

_added: List[logging.Handler] = []


def _with_one_handler(progress_bar: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(progress_bar)
    def with_one_handler(*arguments: Any, **options: Any) -> Any:
        from fairseq.logging.progress_bar import logger

        before = set(logger.handlers)
        result = progress_bar(*arguments, **options)
        new = [handler for handler in logger.handlers if handler not in before]
        if new:
            for handler in _added:
                logger.removeHandler(handler)
                handler.close()
            _added[:] = new
        return result

    return with_one_handler


PATCH = Patch(
    name="log_file",
    reason="--log-file has each line as often as epochs have begun",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.logging.progress_bar:progress_bar": _with_one_handler},
)
