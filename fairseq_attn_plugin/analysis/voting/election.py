"""Holds an election: how far from its own place in the sentence a word of a translation attends, as a teacher shows.

    attn-analysis election DATA --path CHECKPOINT --out election.json --plot offsets.png

The reference translations of a split are forced, and every target word votes for the words of its source sentence by
the teacher's attention. For each rule of window size, k = floor(log_2 p) and the like, the command prints how satisfied
voters are with the words within k of their centre by the k-Borda, SNTV and Bloc rules, which rule it recommends, and
the Gaussian that fits the votes; definitions are in ``analysis.voting.ballots``. ``--out`` is what
``--gaussian-election`` of the attentions ``gaussian`` and ``election`` reads:

    rules        by rule, smallest window first: mean_k, mean_window, share (of the sentence), satisfaction (k-borda,
                 sntv, bloc, chance), mass, gain_per_word
    offsets      by j - round(c_t): voters (in whose sentence there is such a word), and means over all voters:
                 first_choices, borda, mass
    gaussian     mean, sigma, distance: fitted to the votes for all offsets
    recommended  rule, and mean, sigma, distance fitted to the votes that are inside of its windows; elected, the
                 offsets that a k-Borda election gives as many seats as the mean window of the rule, 2 k + 1, has

The centre of target word t is t / rho, where rho, the target words per source word, is measured on the training data.
Words are what the data are made of: subwords where these were applied.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_split
from fairseq_attn_plugin.analysis.inference.teacher_alignments import teacher_attention
from fairseq_attn_plugin.analysis.voting.ballots import (
    Gaussian,
    Offsets,
    RuleResult,
    Tally,
    ballots,
    elected,
    fit_gaussian,
    qualifies,
    recommended,
)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

__all__ = ["FORMAT", "Outcome", "hold_election", "length_ratio", "table"]


FORMAT = "fairseq_attn_plugin election 1"


class Outcome(NamedTuple):
    """What an election found."""

    rules: List[RuleResult]  # smallest window first
    offsets: Offsets
    gaussian: Gaussian  # fitted to the votes for all offsets
    choice: RuleResult  # the recommended rule
    mask: Gaussian  # fitted to the votes inside of its windows
    elected: List[int]  # the k-Borda committee of offsets, 2 k + 1 of them
    sentences: int
    left_out: int  # sentences longer than the teacher takes, or without words on a side
    voters: int
    end_of_sentence: float  # share of the attention that goes to the end of the source, and does not vote


def length_ratio(teacher: LoadedModels, split: str) -> Tuple[float, str]:
    """Target words per source word, end of sentence not counted, of the split ``train``, or of ``split`` if the data
    folder has no ``train``; and the name of the split that was measured.

    Raises ``OptionError`` if either side has no words.
    """
    for measured in dict.fromkeys(("train", split)):
        try:
            dataset = load_split(teacher, measured)
        except (FileNotFoundError, OptionError):
            if measured == split:
                raise
            continue
        source, target = (int(np.maximum(sizes - 1, 0).sum()) for sizes in (dataset.src_sizes, dataset.tgt_sizes))
        if source and target:
            return target / source, measured
    raise OptionError(
        f"--length-ratio auto: {measured} has {source} source and {target} target words; give the ratio as a number"
    )


def hold_election(
    teacher: LoadedModels,
    split: str,
    rules: Sequence[str],
    ratio: float,
    max_tokens: int = 4000,
    least_gain: float = 0.5,
    most_words: float = 0.72,
) -> Outcome:
    """Counts the votes of a split, batch by batch.

    Args:
        teacher: from :func:`~fairseq_attn_plugin.analysis.inference.loading.load_models`
        split: which sentences vote
        rules: of :mod:`fairseq_attn_plugin.attention.windows`
        ratio: target words per source word
        max_tokens: words in a batch
        least_gain, most_words: of :func:`~fairseq_attn_plugin.analysis.voting.ballots.recommended`

    Raises:
        OptionError: an unknown rule, an empty split, one without a target side or without anybody who could vote, a
            teacher without attention, or whose attention is not finite
    """
    tally = Tally(rules)
    sentences, eos_weight, all_weight = 0, 0.0, 0.0
    source_words, target_words = (
        lambda tokens, side=side: tokens.ne(side.pad()) & tokens.ne(side.eos())
        for side in (teacher.task.source_dictionary, teacher.task.target_dictionary)
    )
    for batch in teacher_attention(teacher, split, max_tokens):
        candidates, voters = source_words(batch.source), target_words(batch.target)
        votes = batch.weights.double() * voters.unsqueeze(2)
        total = float(votes.sum())
        if not math.isfinite(total):
            raise OptionError(f"--path {teacher.path}: its attention is not finite; the training has diverged")
        all_weight += total
        eos_weight += float((votes * batch.source.eq(teacher.task.source_dictionary.eos()).unsqueeze(1)).sum())
        sentences += int((candidates.any(1) & voters.any(1)).sum())
        tally.add(ballots(batch.weights, candidates, voters, ratio))
    size = len(teacher.task.dataset(split))
    if not tally.voters:
        raise OptionError(
            f"--gen-subset {split}: nobody votes; all {size} sentences are empty, or longer than the teacher takes"
        )
    results, offsets = tally.results(), tally.offsets()
    choice = recommended(results, least_gain, most_words)
    return Outcome(
        rules=results,
        offsets=offsets,
        gaussian=fit_gaussian(offsets.offset, offsets.mass),
        choice=choice,
        mask=fit_gaussian(offsets.offset, offsets.inside[choice.rule]),
        elected=elected(offsets, 2 * round(choice.mean_k) + 1),
        sentences=sentences,
        left_out=size - sentences,
        voters=tally.voters,
        end_of_sentence=eos_weight / all_weight if all_weight else 0.0,
    )


def table(outcome: Outcome) -> str:
    """The rules and what voters think of them, in lines."""
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
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    )


def _report(outcome: Outcome, args: argparse.Namespace) -> str:
    choice, mask, everything = outcome.choice, outcome.mask, outcome.gaussian
    k = round(choice.mean_k)
    window, seated = set(range(-k, k + 1)), set(outcome.elected)
    if qualifies(choice, args.least_gain, args.most_words):
        reason = f"{choice.gain_per_word:+.2f} points of k-Borda satisfaction per word"
    else:
        reason = "the smallest window; no other"
    lines = [
        table(outcome),
        "share, mass, satisfaction in %; chance: k-Borda if voters ranked at random; gain in points of k-Borda",
        f"recommended: {choice.rule} ({reason}; asked: at least {args.least_gain:g} points per word and at most "
        f"{100 * args.most_words:g} % of the sentence)",
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


def describe(outcome: Outcome, teacher: LoadedModels, split: str, ratio: float) -> Dict[str, Any]:
    """The election as it is written to JSON; see the module's text."""
    offsets = outcome.offsets
    columns = zip(*(values.tolist() for values in (offsets.voters, offsets.first_choices, offsets.borda, offsets.mass)))
    return {
        "format": FORMAT,
        "source_vocabulary": describe_vocabulary(teacher.task.source_dictionary),
        "target_vocabulary": describe_vocabulary(teacher.task.target_dictionary),
        "languages": list(teacher.languages),
        "split": split,
        "sentences": outcome.sentences,
        "sentences_left_out": outcome.left_out,
        "voters": outcome.voters,
        "length_ratio": ratio,
        "end_of_sentence": outcome.end_of_sentence,
        "rules": [result._asdict() for result in outcome.rules],
        "offsets": {
            str(offset): dict(zip(("voters", "first_choices", "borda", "mass"), row))
            for offset, row in zip(offsets.offset.tolist(), columns)
        },
        "gaussian": outcome.gaussian._asdict(),
        "recommended": {"rule": outcome.choice.rule, **outcome.mask._asdict(), "elected": outcome.elected},
    }
