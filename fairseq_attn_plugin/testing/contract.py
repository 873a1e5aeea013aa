"""The contract of attention mechanisms (:mod:`fairseq_attn_plugin.attention.base`) as one function."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

from ..attention import Attention
from . import invariances, values  # noqa: F401  they enter their checks
from .rules import CHECKS
from .subject import Subject

__all__ = ["check_attention"]


def check_attention(
    name: str,
    prepare: Optional[Callable[[Attention], object]] = None,
    checks: Optional[Iterable[str]] = None,
    **options: Any,
) -> None:
    """Checks that a registered mechanism keeps the contract, on a small batch on the CPU.

    The checks are: shapes; weights that are non-negative, zero on padding and sum to one unless ``normalized`` is
    False; no influence of padding, batch or hypotheses of other sentences; the whole sequence equals single steps;
    reordered memories and states; gradients against finite differences in float64; float16 and bfloat16; extreme
    scores; the state dictionary; nothing of a batch on the module. They do not know the formula: compare the weights
    with a slow, obvious version of it in a test of your own.

    Args:
        name: the registered name
        prepare: called with every module that is built, for what options cannot set, such as the content of files
        checks: some names of ``CHECKS`` (default: all)
        options: the mechanism's options, by field name (``size=5``) or by full name (``mine_size=5``)

    Raises:
        AssertionError: the mechanism breaks a rule; the message names mechanism, options, check and rule
        OptionError: unknown mechanism, option or value
    """
    subject = Subject(name, options, prepare)
    subject.build()
    for title in CHECKS if checks is None else checks:
        try:
            CHECKS[title](subject)
        except AssertionError as error:
            raise AssertionError(f"{subject}, {title}: {error}") from None
        except Exception as error:
            raise AssertionError(f"{subject}, {title}: raises {type(error).__name__}: {error}") from error
