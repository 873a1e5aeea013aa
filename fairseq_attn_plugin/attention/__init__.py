"""Attention mechanisms and their registry.

Every file of this package is imported, and a mechanism registers itself with :func:`register_attention`, a score, a
normaliser or a bias with the function of its kind. What is outside the package does the same, from a ``--user-dir`` or
from an installed package (:mod:`fairseq_attn_plugin.attention.registry`).
"""

from .base import Attention, AttentionConfig, AttentionOutput, Penalty, index_rows, map_tensors, word_positions
from .biases import BIASES, Bias, BiasConfig, BiasMemory, parse_biases, register_bias
from .normalizers import NORMALIZERS, Normalizer, over_words, register_normalizer
from .part_registry import Option, PartConfig, import_all, options_of
from .registry import (
    PARTS,
    attention_class,
    build_attention,
    follow,
    idle_options,
    names,
    options,
    options_taken,
    register_attention,
)
from .scored import ScoredAttention
from .scores import SCORES, Score, ScoreConfig, register_score
from .statistics import attention_statistics

import_all(__name__, __path__)
