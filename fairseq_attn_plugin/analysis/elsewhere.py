"""Subcommands that are commands of their own: they take all words after their name."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Callable, Dict, List

__all__ = ["ELSEWHERE", "run_elsewhere"]


def recipe(words: List[str]) -> None:
    """Runs a recipe."""
    # by its name, since a recipe calls subcommands of this program
    sys.exit(import_module("fairseq_attn_plugin.recipes.cli").main(words))


# subcommand -> what takes its words
ELSEWHERE: Dict[str, Callable[[List[str]], None]] = {"recipe": recipe}


def run_elsewhere(words: List[str]) -> None:
    ELSEWHERE[words[0]](words[1:])
