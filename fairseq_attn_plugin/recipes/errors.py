"""Errors of the recipes: one line for the user, no trace."""

from ..errors import OptionError

__all__ = ["CorpusError", "OptionError"]


class CorpusError(OptionError):
    """The corpus is missing, damaged or not parallel. The message is the whole report."""
