"""The settings of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

from fairseq_attn_plugin.analysis.web.explore import FIRST

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """What a report compares, and how much it shows."""

    names: Optional[Sequence[str]] = None  # of the systems (default: all)
    split: str = "test"
    beam: int = 10
    gold: Optional[str] = None  # file of gold alignments of the split's words
    gold_format: str = "auto"  # one of GOLD_FORMATS
    one_based: bool = False  # words in a Pharaoh file of gold alignments are counted from 1
    # text to score against (default: the target side of the split, its unknown words as <unk>)
    reference: Optional[str] = None
    train_text: Optional[str] = None  # target side of the training text (default: the data's training split, if any)
    baseline: Optional[str] = None  # system that all others are compared with (default: the first)
    samples: int = 1000  # of the paired bootstrap; 0: none
    tokenize: Optional[str] = None  # sacrebleu's tokenizer for BLEU (default: that of the model folders, or none)
    scores: Sequence[str] = ()  # METRIC=FILE: scores of the sentences by another program
    pictures: int = 4  # sentences with heatmaps
    examples: int = 6  # sentences in the comparison
    explored: int = FIRST  # sentences on the page to explore; 0: all
    max_tokens: int = 4000  # subwords in a batch
    cpu: bool = False
    title: Optional[str] = None
    command: str = ""  # shown at the end
