"""The documented import path of :class:`Translator` and :class:`Translation`."""

from .inference.translator import Translation as Translation
from .inference.translator import Translator as Translator
