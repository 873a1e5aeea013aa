"""Checks for authors: one function runs the whole contract on a mechanism, a score, a normaliser, a bias or an
objective."""

from .mechanisms import CHECKS, check_attention, check_bias, check_normalizer, check_score
from .objectives import check_objective
from .subject import Subject

__all__ = [
    "CHECKS",
    "Subject",
    "check_attention",
    "check_bias",
    "check_normalizer",
    "check_objective",
    "check_score",
]
