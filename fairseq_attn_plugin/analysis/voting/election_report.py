"""The printed report of an election."""

from __future__ import annotations

from typing import Any

from fairseq_attn_plugin.analysis.outputs.tables import plain_table
from fairseq_attn_plugin.analysis.voting.election import Criteria, Outcome
from fairseq_attn_plugin.analysis.voting.tally import qualifies

__all__ = ["report", "rules_table"]


def rules_table(outcome: Outcome) -> str:
    """The rules and their results as a table, one rule in each line."""
    head = ("rule", "mean k", "window", "share", "k-Borda", "(chance)", "SNTV", "Bloc", "mass", "gain/word")
    rows = [head]
    for result in outcome.rules:
        satisfied = result.satisfaction
        gain = "" if result.gain_per_word is None else f"{result.gain_per_word:+.2f}"
        rows.append(
            (result.rule, f"{result.mean_k:.2f}", f"{result.mean_window:.2f}", f"{100 * result.share:.1f}")
            + (f"{satisfied['k-borda']:.2f}", f"({satisfied['chance']:.2f})", f"{satisfied['sntv']:.2f}")
            + (f"{satisfied['bloc']:.2f}", f"{100 * result.mass:.2f}", gain)
        )
    return plain_table(rows[0], rows[1:], "l" + "r" * (len(head) - 1))


def report(outcome: Outcome, criteria: Criteria) -> str:
    """The table, the recommended rule and its Gaussian, and the elected offsets, in lines."""
    choice, mask, everything = outcome.choice, outcome.mask, outcome.gaussian
    k = round(choice.mean_k)
    window, seated = set(range(-k, k + 1)), set(outcome.elected)
    if qualifies(choice, criteria.least_gain, criteria.most_words):
        reason = f"{choice.gain_per_word:+.2f} points of k-Borda satisfaction per word"
    else:
        reason = "the smallest window; no rule qualifies"
    lines = [
        rules_table(outcome),
        "share, mass, satisfaction in %; chance: k-Borda if voters ranked at random; gain in points of k-Borda",
        f"recommended: {choice.rule} ({reason}; criteria: at least {criteria.least_gain:g} points per word and at most "
        f"{100 * criteria.most_words:g} % of the sentence)",
        f"recommended Gaussian: mean {mask.mean:.2f}, sigma {mask.sigma:.2f}; {100 * mask.distance:.1f} % of the votes "
        "inside its windows lie elsewhere",
        f"Gaussian of all votes: mean {everything.mean:.2f}, sigma {everything.sigma:.2f}; "
        f"{100 * everything.distance:.1f} % of them lie elsewhere",
        f"elected offsets for k = {k}: {_signed(seated)}; "
        + (
            "the window"
            if seated == window
            else f"in place of {_signed(window - seated)} of the window {_signed(seated - window) or 'none'}"
        ),
    ]
    return "\n".join(lines)


def _signed(offsets: Any) -> str:
    return " ".join(f"{offset:+d}" if offset else "0" for offset in sorted(offsets))
