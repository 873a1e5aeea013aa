"""Errors of the recipes: one line for the user, no trace."""

from ..corpora.errors import CorpusError, OptionError

__all__ = ["CorpusError", "OptionError"]
