"""The documented place of :class:`Translator`."""

from .inference.translator import Translation, Translator

__all__ = ["Translation", "Translator"]
