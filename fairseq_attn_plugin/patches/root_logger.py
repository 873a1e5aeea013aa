"""Quiet imports: the level of the root logger, and a message about a package that is not needed.

``fairseq/models/wav2vec/wav2vec2_classification.py`` calls ``logging.basicConfig(level=logging.DEBUG)`` when it is
imported, and ``import fairseq`` imports it. A notebook then shows the debugging messages of every library. Other
modules of fairseq ask for ``INFO``; the patch sets that level. It does so only if this package is what imports
fairseq, and if logging was not configured before: what the user or a command of fairseq has configured stays.

``fairseq.tasks.text_to_speech`` asks for tensorboardX on every import, and fairseq does not need it.
"""

import logging
import sys
from importlib import import_module

from .wrapping import Patch

__all__ = ["PATCH"]


def import_quietly() -> None:
    """Import fairseq; the root logger shows ``INFO`` and above if fairseq has set it to ``DEBUG``."""
    if "fairseq" in sys.modules or logging.root.handlers:
        return
    speech = logging.getLogger("fairseq.tasks.text_to_speech")
    level = speech.level
    speech.setLevel(logging.WARNING)
    import_module("fairseq")
    speech.setLevel(level)
    if logging.root.handlers and logging.root.level == logging.DEBUG:
        logging.root.setLevel(logging.INFO)


PATCH = Patch(
    name="root_logger",
    reason="import fairseq in a notebook turns on the debugging messages of every library",
    checked=("0.12.3.1",),
    extra=import_quietly,
)
