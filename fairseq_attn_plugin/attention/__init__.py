"""Attention mechanisms and their registry.

Every file of this package is imported, and a mechanism registers itself with :func:`register_attention`. A mechanism
outside the package does the same, from a ``--user-dir`` or from an installed package
(:mod:`fairseq_attn_plugin.attention.entry_points`).
"""

from __future__ import annotations

import importlib
import pkgutil

from .base import Attention, AttentionConfig, AttentionOutput, Penalty
from .biases import BIASES, BiasMemory, parse_biases, word_positions
from .registry import (
    Option,
    attention_class,
    build_attention,
    follow,
    names,
    options,
    options_of,
    register_attention,
)
from .scored import ScoredAttention
from .tensors import index_rows, map_tensors

__all__ = [
    "BIASES",
    "Attention",
    "AttentionConfig",
    "AttentionOutput",
    "BiasMemory",
    "Option",
    "Penalty",
    "ScoredAttention",
    "attention_class",
    "build_attention",
    "follow",
    "index_rows",
    "map_tensors",
    "names",
    "options",
    "options_of",
    "parse_biases",
    "register_attention",
    "word_positions",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
