"""Holds an election over a split: every target word votes by the attention of a teacher model.

The reference translations are forced. :mod:`.ballots` defines and counts the votes, and fits a Gaussian to the votes
for each offset. :func:`describe` gives the JSON content that ``--gaussian-election`` of the attentions ``gaussian`` and
``election`` reads:

    rules        by rule, smallest window first: mean_k, mean_window, share (of the sentence), satisfaction (k-borda,
                 sntv, bloc, chance), mass, gain_per_word
    offsets      by j - round(c_t): voters (whose sentence has such a word), and means over all voters: first_choices,
                 mass
    gaussian     mean, sigma, distance: fitted to the votes for all offsets
    recommended  rule; mean, sigma, distance fitted to the votes inside its windows
"""

from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_split
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.analysis.pages.document import plain_table
from fairseq_attn_plugin.analysis.voting.ballots import (
    LEAST_GAIN,
    MOST_WORDS,
    Gaussian,
    Offsets,
    RuleResult,
    Tally,
    fit_gaussian,
    qualifies,
    recommended,
)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

FORMAT = "fairseq_attn_plugin election 1"


class Outcome(NamedTuple):
    """The result of an election."""

    rules: List[RuleResult]  # smallest window first
    offsets: Offsets
    gaussian: Gaussian  # fitted to the votes for all offsets
    choice: RuleResult  # the recommended rule
    mask: Gaussian  # fitted to the votes inside its windows
    sentences: int
    left_out: int  # sentences that are longer than the teacher accepts, or without words on one side
    voters: int
    end_of_sentence: float  # share of the attention on the end of the source, which does not vote


def length_ratio(loaded: LoadedModels) -> float:
    """Target words per source word in the training split, without ends of sentences.

    Raises ``OptionError`` if either side has no words.
    """
    dataset = load_split(loaded, "train")
    source, target = (int(np.maximum(sizes - 1, 0).sum()) for sizes in (dataset.src_sizes, dataset.tgt_sizes))
    if not source or not target:
        raise OptionError(f"the training split has {source} source and {target} target words, and no ratio of the two")
    return target / source


def hold_election(loaded: LoadedModels, split: str, rules: Sequence[str], ratio: float, max_tokens: int) -> Outcome:
    """Counts the votes of a split, sentence by sentence.

    The rules are those of :mod:`fairseq_attn_plugin.attention.positional.windows`; ``ratio`` is the number of target
    words per source word.

    Raises:
        OptionError: an unknown rule, an empty split, one without a target side or without voters, a teacher without
            attention, or whose attention is not finite
    """
    tally, corpus = Tally(rules), SplitSentences(loaded, split)
    sentences, on_end, total = 0, 0.0, 0.0
    records = extract(loaded, corpus, Extraction(max_tokens=max_tokens))
    for record in tqdm(records, "-".join(loaded.languages), len(corpus), unit=" sentences", disable=None):
        votes = record.attention[:-1].astype(np.float64)
        if not np.isfinite(votes).all():
            raise OptionError(f"--path {loaded.path}: its attention is not finite; the training has diverged")
        total += float(votes.sum())
        on_end += float(votes[:, -1].sum())
        tally.add(votes[:, :-1], ratio)
        sentences += bool(record.source and record.target)
    if not tally.voters:
        raise OptionError(
            f"--gen-subset {split}: has no voters; all {len(corpus)} sentences are empty, or longer than the teacher "
            "accepts"
        )
    results, offsets = tally.results(), tally.offsets()
    choice = recommended(results)
    return Outcome(
        rules=results,
        offsets=offsets,
        gaussian=fit_gaussian(offsets.offset, offsets.mass),
        choice=choice,
        mask=fit_gaussian(offsets.offset, offsets.inside[choice.rule]),
        sentences=sentences,
        left_out=len(corpus) - sentences,
        voters=tally.voters,
        end_of_sentence=on_end / total if total else 0.0,
    )


def describe(outcome: Outcome, loaded: LoadedModels, split: str, ratio: float) -> Dict[str, Any]:
    """The content of the JSON file; the module's docstring explains it."""
    votes = outcome.offsets
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
        "offsets": {
            str(offset): {"voters": voters, "first_choices": first, "mass": mass}
            for offset, voters, first, mass in zip(*(values.tolist() for values in votes[:4]))
        },
        "gaussian": outcome.gaussian._asdict(),
        "recommended": {"rule": outcome.choice.rule, **outcome.mask._asdict()},
    }


def report(outcome: Outcome) -> str:
    """The rules and their results as a table, the recommended rule and its Gaussian, in lines."""
    choice, mask, everything = outcome.choice, outcome.mask, outcome.gaussian
    head = ("rule", "mean k", "window", "share", "k-Borda", "(chance)", "SNTV", "Bloc", "mass", "gain/word")
    rows = []
    for result in outcome.rules:
        satisfied = result.satisfaction
        gain = "" if result.gain_per_word is None else f"{result.gain_per_word:+.2f}"
        rows.append(
            (result.rule, f"{result.mean_k:.2f}", f"{result.mean_window:.2f}", f"{100 * result.share:.1f}")
            + (f"{satisfied['k-borda']:.2f}", f"({satisfied['chance']:.2f})", f"{satisfied['sntv']:.2f}")
            + (f"{satisfied['bloc']:.2f}", f"{100 * result.mass:.2f}", gain)
        )
    reason = "the smallest window; no rule qualifies"
    if qualifies(choice):
        reason = f"{choice.gain_per_word:+.2f} points of k-Borda satisfaction per word"
    lines = [
        plain_table(head, rows, "l" + "r" * (len(head) - 1)),
        "share, mass, satisfaction in %; chance: k-Borda if voters ranked at random; gain in points of k-Borda",
        f"recommended: {choice.rule} ({reason}; criteria: at least {LEAST_GAIN:g} points per word and at most "
        f"{100 * MOST_WORDS:g} % of the sentence)",
        f"recommended Gaussian: mean {mask.mean:.2f}, sigma {mask.sigma:.2f}; {100 * mask.distance:.1f} % of the votes "
        "inside its windows lie elsewhere",
        f"Gaussian of all votes: mean {everything.mean:.2f}, sigma {everything.sigma:.2f}; "
        f"{100 * everything.distance:.1f} % of them lie elsewhere",
    ]
    return "\n".join(lines)
