"""Holds an election over a split: every target word votes by the attention of a teacher model.

The reference translations are forced. :mod:`.ballots` defines the votes, :mod:`.tally` counts them, and
:mod:`.offsets` fits a Gaussian to the votes for each offset. :func:`describe` gives the JSON content that
``--gaussian-election`` of the attentions ``gaussian`` and ``election`` reads:

    rules        by rule, smallest window first: mean_k, mean_window, share (of the sentence), satisfaction (k-borda,
                 sntv, bloc, chance), mass, gain_per_word
    offsets      by j - round(c_t): voters (whose sentence has such a word), and means over all voters: first_choices,
                 borda, mass
    gaussian     mean, sigma, distance: fitted to the votes for all offsets
    recommended  rule; mean, sigma, distance fitted to the votes inside its windows; elected: the offsets that a k-Borda
                 election gives 2 k + 1 seats, the mean window of the rule
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_split
from fairseq_attn_plugin.analysis.inference.teacher_alignments import teacher_attention
from fairseq_attn_plugin.analysis.voting.ballots import ballots
from fairseq_attn_plugin.analysis.voting.offsets import Gaussian, Offsets, elected, fit_gaussian
from fairseq_attn_plugin.analysis.voting.tally import RuleResult, Tally, recommended
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

__all__ = ["FORMAT", "Criteria", "Outcome", "describe", "hold_election", "length_ratio"]


FORMAT = "fairseq_attn_plugin election 1"


@dataclass(frozen=True)
class Criteria:
    """What a recommended rule must satisfy; see :func:`~fairseq_attn_plugin.analysis.voting.tally.qualifies`."""

    least_gain: float = 0.5
    most_words: float = 0.72


class Outcome(NamedTuple):
    """The result of an election."""

    rules: List[RuleResult]  # smallest window first
    offsets: Offsets
    gaussian: Gaussian  # fitted to the votes for all offsets
    choice: RuleResult  # the recommended rule
    mask: Gaussian  # fitted to the votes inside its windows
    elected: List[int]  # the k-Borda committee of offsets, 2 k + 1 of them
    sentences: int
    left_out: int  # sentences that are longer than the teacher accepts, or without words on one side
    voters: int
    end_of_sentence: float  # share of the attention on the end of the source, which does not vote


def length_ratio(loaded: LoadedModels, split: str) -> Tuple[float, str]:
    """Target words per source word, and the name of the measured split: ``train`` if it exists, or ``split``.

    Ends of sentences do not count. Raises ``OptionError`` if either side has no words.
    """
    for measured in dict.fromkeys(("train", split)):
        try:
            dataset = load_split(loaded, measured)
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
    loaded: LoadedModels, split: str, rules: Sequence[str], ratio: float, max_tokens: int, criteria: Criteria
) -> Outcome:
    """Counts the votes of a split, batch by batch.

    Args:
        loaded: from :func:`~fairseq_attn_plugin.analysis.inference.loading.load_models`
        split: the sentences that vote
        rules: of :mod:`fairseq_attn_plugin.attention.windows`
        ratio: target words per source word
        max_tokens: words in a batch
        criteria: of the recommended rule

    Raises:
        OptionError: an unknown rule, an empty split, one without a target side or without voters, a teacher without
            attention, or whose attention is not finite
    """
    tally = Tally(rules)
    source, target = loaded.task.source_dictionary, loaded.task.target_dictionary
    sentences, eos_weight, all_weight = 0, 0.0, 0.0
    for batch in teacher_attention(loaded, split, max_tokens):
        candidates, voters = _is_word(batch.source, source), _is_word(batch.target, target)
        votes = batch.weights.double() * voters.unsqueeze(2)
        total = float(votes.sum())
        if not math.isfinite(total):
            raise OptionError(f"--path {loaded.path}: its attention is not finite; the training has diverged")
        all_weight += total
        eos_weight += float((votes * batch.source.eq(source.eos()).unsqueeze(1)).sum())
        sentences += int((candidates.any(1) & voters.any(1)).sum())
        tally.add(ballots(batch.weights, candidates, voters, ratio))
    size = len(loaded.task.dataset(split))
    if not tally.voters:
        raise OptionError(
            f"--gen-subset {split}: has no voters; all {size} sentences are empty, or longer than the teacher accepts"
        )
    results, offsets = tally.results(), tally.offsets()
    choice = recommended(results, criteria.least_gain, criteria.most_words)
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


def _is_word(tokens: Tensor, dictionary: Any) -> Tensor:
    """True on words, False on padding and the end of the sentence."""
    return tokens.ne(dictionary.pad()) & tokens.ne(dictionary.eos())


def describe(outcome: Outcome, loaded: LoadedModels, split: str, ratio: float) -> Dict[str, Any]:
    """The content of the JSON file; the module's docstring explains it."""
    return {
        "format": FORMAT,
        "source_vocabulary": describe_vocabulary(loaded.task.source_dictionary),
        "target_vocabulary": describe_vocabulary(loaded.task.target_dictionary),
        "languages": list(loaded.languages),
        "split": split,
        "sentences": outcome.sentences,
        "sentences_left_out": outcome.left_out,
        "voters": outcome.voters,
        "length_ratio": ratio,
        "end_of_sentence": outcome.end_of_sentence,
        "rules": [result._asdict() for result in outcome.rules],
        "offsets": _offsets(outcome.offsets),
        "gaussian": outcome.gaussian._asdict(),
        "recommended": {"rule": outcome.choice.rule, **outcome.mask._asdict(), "elected": outcome.elected},
    }


def _offsets(offsets: Offsets) -> Dict[str, Dict[str, float]]:
    return {
        str(int(offset)): {
            "voters": int(offsets.voters[place]),
            "first_choices": float(offsets.first_choices[place]),
            "borda": float(offsets.borda[place]),
            "mass": float(offsets.mass[place]),
        }
        for place, offset in enumerate(offsets.offset)
    }
