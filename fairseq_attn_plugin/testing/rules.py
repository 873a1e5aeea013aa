"""The registry of checks, and the assertions that they make."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

from .subject import Subject

__all__ = ["CHECKS", "Check", "check", "equal", "require"]

Check = Callable[[Subject], None]
# By title, in the order in which they run.
CHECKS: Dict[str, Check] = {}


def check(function: Check) -> Check:
    """Enters a check under the name of its function."""
    CHECKS[function.__name__] = function
    return function


def equal(actual: Any, expected: Any, rule: str, **tolerances: float) -> None:
    """``torch.testing.assert_close`` whose message begins with the rule."""
    torch.testing.assert_close(actual, expected, msg=lambda text: f"{rule}. {text}", **tolerances)


def require(right: Any, rule: str) -> None:
    """Raises AssertionError with the rule unless ``right``."""
    if not bool(right):
        raise AssertionError(rule)
