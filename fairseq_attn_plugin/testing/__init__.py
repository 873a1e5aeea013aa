"""Checks for authors of attention mechanisms: :func:`check_attention` runs the whole contract on one mechanism."""

from .contract import check_attention
from .rules import CHECKS
from .subject import Subject

__all__ = ["CHECKS", "Subject", "check_attention"]
