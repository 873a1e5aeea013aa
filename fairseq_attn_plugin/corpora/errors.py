"""Errors of the preparation: one line for the user, no trace."""

from fairseq_attn_plugin.errors import OptionError

__all__ = ["CorpusError", "OptionError"]


class CorpusError(OptionError):
    """The corpus is missing, damaged or not parallel. The message is the whole report."""
