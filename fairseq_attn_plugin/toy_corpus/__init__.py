"""A synthetic parallel corpus in two invented languages, with gold word alignments."""

from .generation import generate, write

__all__ = ["generate", "write"]
