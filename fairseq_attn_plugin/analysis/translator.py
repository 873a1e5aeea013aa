"""The documented import path of :class:`Translator` and :class:`Translation`."""

from .inference.translation import Translation
from .inference.translator import Translator

__all__ = ["Translation", "Translator"]
