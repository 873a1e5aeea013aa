"""The contract of scores, normalisers and biases: that of attention (:mod:`.contract`), with the part in use."""

from __future__ import annotations

from typing import Any

import torch

from ..attention import BIASES, NORMALIZERS, SCORES
from ..attention.normalizers import build_normalizer
from .contract import check_attention
from .rules import equal, require

__all__ = ["check_bias", "check_normalizer", "check_score"]


def check_score(name: str, attention: str = "soft", **options: Any) -> None:
    """Checks that a registered score keeps the contract.

    Args:
        name: the registered name
        attention: a mechanism with scores to which it belongs
        options: further options, by full name

    Raises:
        AssertionError: the message names options, check and rule
        OptionError: an unknown name, or a wrong value
    """
    SCORES.find(name)
    check_attention(attention, score=name, **options)


def check_normalizer(name: str, attention: str = "soft", **options: Any) -> None:
    """Checks that a registered normaliser keeps the contract: that of attention, and weights of given scores.

    The arguments and errors are those of :func:`check_score`.
    """
    NORMALIZERS.find(name)
    check_attention(attention, normalizer=name, **options)
    own = {key: value for key, value in options.items() if key in NORMALIZERS.options()}
    normalize = build_normalizer(name, **own)
    one = torch.tensor([[[0.7]]])
    equal(normalize(one, None), torch.ones_like(one), f"normalizer {name}: the weight of a single word must be 1")
    scores = torch.tensor([[2.0, 1.0, 1.0, -1.0]])
    weights = normalize(scores, None)
    falls = (weights[..., :-1] >= weights[..., 1:]).all() and weights[0, 1] == weights[0, 2]
    require(falls, f"normalizer {name}: a greater score must not have a smaller weight, and equal scores equal weights")
    zeros = bool(normalize(10 * scores, None).eq(0).any())
    require(normalize.sparse or not zeros, f"normalizer {name}: has weights of zero; set sparse = True")


def check_bias(name: str, attention: str = "soft", **options: Any) -> None:
    """Checks that a registered bias keeps the contract, alone and beside another.

    The arguments and errors are those of :func:`check_score`.
    """
    BIASES.find(name)
    check_attention(attention, bias=name, **options)
    beside = "markov" if name != "markov" else "position"
    check_attention(attention, bias=f"{beside},{name}", **options)
