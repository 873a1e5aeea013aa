"""The systems of the election recipe: their architectures and learning rates, and the BLEU of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional

__all__ = ["SYSTEMS", "SystemKind"]


@dataclass(frozen=True)
class SystemKind:
    """A system of the recipe.

    Attributes:
        title: in the table
        arch: architecture
        rate: learning rate; None: no training, the checkpoint has the parameters of the teacher
        bleu: BLEU of the paper, for PAIRS=all
    """

    title: str
    arch: str
    rate: Optional[str] = None
    bleu: Optional[float] = None

    @property
    def reads_words(self) -> bool:
        """Whether it reads the table of the agent."""
        return self.arch == "lstm_election"


# Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning", tables 2 and 3. The paper
# replaces the teacher's attention by the mask and does not say whether training continues.
SYSTEMS: Dict[str, SystemKind] = {
    "teacher": SystemKind("teacher: additive attention", "lstm_soft", "3e-3", 24.22),
    "mask": SystemKind("mask of the election, not trained further", "lstm_gaussian", bleu=23.02),
    "mask-words": SystemKind("mask and the agent's words, not trained further", "lstm_election", bleu=23.65),
    "gaussian": SystemKind("`lstm_gaussian`, trained further", "lstm_gaussian", "2e-3"),
    "election-model": SystemKind("`lstm_election`, trained further", "lstm_election", "2e-3"),
}
