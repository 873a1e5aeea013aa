"""The documented import path of :class:`Translator` and :class:`Translation`."""

from fairseq_attn_plugin.analysis.inference.translation import Translation
from fairseq_attn_plugin.analysis.inference.translator import Translator

__all__ = ["Translation", "Translator"]
