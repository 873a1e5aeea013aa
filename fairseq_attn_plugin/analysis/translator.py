"""The documented import path of :class:`Translator` and :class:`Translation`."""

from .inference.translator import Translation, Translator

__all__ = ["Translation", "Translator"]
