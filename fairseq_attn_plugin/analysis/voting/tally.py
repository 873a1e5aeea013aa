"""Counts the votes of an election: satisfaction with each rule of window size, and votes for each offset."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.voting.ballots import Ballots, committee, rank, satisfaction
from fairseq_attn_plugin.analysis.voting.offsets import Offsets
from fairseq_attn_plugin.attention.windows import window, windows
from fairseq_attn_plugin.errors import OptionError

__all__ = ["RuleResult", "Tally", "qualifies", "recommended"]


class RuleResult(NamedTuple):
    """Means of a rule's committees over all voters."""

    rule: str
    mean_k: float
    mean_window: float  # members of the committee: 2 k + 1, fewer at the ends of a sentence
    share: float  # of the sentence's words that are members
    satisfaction: Dict[str, float]  # k-borda, sntv, bloc, and chance (k-Borda of random rankings), in per cent
    mass: float  # share of the attention on words that is inside the window
    # points of k-Borda satisfaction per word beyond the next smaller window of the table; None without one
    gain_per_word: Optional[float]


class Tally:
    """Sums over voters, batch after batch; its size depends only on the rules and the longest sentence.

    Raises ``OptionError``, which names ``option``, for an unknown rule, k < 1, or no rule.
    """

    _SUMS = ("k", "window", "share", "k-borda", "sntv", "bloc", "chance", "mass")

    def __init__(self, rules: Sequence[str], option: str = "--rules"):
        self.rules = list(dict.fromkeys(rules))
        if not self.rules:
            raise OptionError(f"{option}: name at least one rule, such as log2")
        for rule in self.rules:
            window(rule, 1, option)
        self.voters = 0
        self._sums = {rule: torch.zeros(len(self._SUMS), dtype=torch.float64) for rule in self.rules}
        self._reach = 0  # offsets from -reach to reach
        # voters, first choices, Borda points, mass, then the mass inside the windows of each rule
        self._offsets = torch.zeros(4 + len(self.rules), 1, dtype=torch.float64)

    def add(self, votes: Ballots) -> None:
        """Counts the voters of a batch."""
        if not len(votes.words):
            return
        ranks = rank(votes)
        shares = votes.weights / votes.weights.sum(1, keepdim=True).clamp_min(1e-300)
        longest = votes.weights.size(1)
        inside = []
        for rule in self.rules:
            k = torch.tensor(windows(rule, longest), device=votes.words.device)[votes.words]
            members = committee(votes, k)
            inside.append(shares * members)
            size = members.sum(1).double()
            values = satisfaction(ranks, members, votes.words)
            values.update(k=k, window=size, share=size / votes.words, mass=inside[-1].sum(1))
            self._sums[rule] += torch.stack([values[name].double().sum() for name in self._SUMS]).cpu()
        last = (votes.words - 1).unsqueeze(1)
        borda = torch.where(last > 0, (last + 1 - ranks) / last.clamp_min(1).double(), 1.0)
        self._count_offsets(votes, (torch.ones_like(shares), (ranks == 1).double(), borda, shares, *inside))
        self.voters += len(votes.words)

    def _count_offsets(self, votes: Ballots, given: Sequence[Tensor]) -> None:
        """Adds ``given``, each ``[V, P]``, to the rows of the tally, by offset."""
        longest = votes.weights.size(1)
        grow = max(longest - 1 - self._reach, 0)
        self._reach += grow
        self._offsets = torch.nn.functional.pad(self._offsets, (grow, grow))
        column = torch.arange(longest, device=votes.words.device)
        there = column < votes.words.unsqueeze(1)
        place = (column - votes.centres.unsqueeze(1) + self._reach)[there]
        for row, values in zip(self._offsets, given):
            row += torch.bincount(place, values[there], minlength=2 * self._reach + 1).cpu()

    def results(self) -> List[RuleResult]:
        """One for each rule, smallest window first; raises ``ValueError`` if nobody voted."""
        if not self.voters:
            raise ValueError("nobody has voted")
        means = {rule: dict(zip(self._SUMS, (sums / self.voters).tolist())) for rule, sums in self._sums.items()}
        table: List[RuleResult] = []
        smaller: Optional[RuleResult] = None
        for rule, mean in sorted(means.items(), key=lambda item: (item[1]["window"], item[1]["k-borda"])):
            if table and mean["window"] > table[-1].mean_window + 1e-9:
                smaller = table[-1]
            gain = None
            if smaller is not None:
                gain = (mean["k-borda"] - smaller.satisfaction["k-borda"]) / (mean["window"] - smaller.mean_window)
            satisfied = {name: mean[name] for name in ("k-borda", "sntv", "bloc", "chance")}
            sizes = mean["k"], mean["window"], mean["share"]
            table.append(RuleResult(rule, *sizes, satisfied, mean["mass"], gain))
        return table

    def offsets(self) -> Offsets:
        """All offsets that any voter could vote for, in ascending order; raises ``ValueError`` if nobody voted."""
        if not self.voters:
            raise ValueError("nobody has voted")
        occurred = self._offsets[0].nonzero().flatten()
        span = slice(int(occurred[0]), int(occurred[-1]) + 1)
        offset = torch.arange(-self._reach, self._reach + 1)[span]
        voters, *means = self._offsets[:, span]
        first, borda, mass, *inside = (row / self.voters for row in means)
        return Offsets(offset, voters.long(), first, borda, mass, dict(zip(self.rules, inside)))


def qualifies(result: RuleResult, least_gain: float = 0.5, most_words: float = 0.72) -> bool:
    """Whether a rule gains at least ``least_gain`` points of k-Borda satisfaction per word, and its windows contain at
    most the share ``most_words`` of their sentences.

    These are the two criteria of Bal and Sinha, who choose floor(log2 p) since "beyond that, the increase was not too
    pronounced or involved too many words". The gain alone does not suffice: as a window grows to the whole sentence,
    the k-Borda satisfaction of every voter grows to 100 per cent, even by chance. With evenly spread centres,
    floor(p / 2) contains more than three quarters of a sentence, floor(log2 p) only if p < 6.
    """
    return result.gain_per_word is not None and result.gain_per_word >= least_gain and result.share <= most_words


def recommended(results: Sequence[RuleResult], least_gain: float = 0.5, most_words: float = 0.72) -> RuleResult:
    """The rule with the widest window that qualifies; ``results`` are ordered, smallest window first.

    If no rule qualifies, it is the first rule that gives any sentence a window of more than one word.
    """
    for result in reversed(results):
        if qualifies(result, least_gain, most_words):
            return result
    return next((result for result in results if result.mean_k > 0), results[0])
