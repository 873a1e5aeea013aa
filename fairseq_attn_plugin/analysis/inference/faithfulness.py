"""Whether the attention tells what a translation model's predictions depend on.

For every target word, all of them forced: how the attention ranks the source words, beside what other methods say
(:mod:`.attributions`); what happens to p(y_t) when the words most attended to are taken out of the source, or all
others are; and what other weights would have led to the same prediction (:mod:`.reweighing`).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Any, DefaultDict, Dict, FrozenSet, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch

from fairseq_attn_plugin.analysis.inference.attributions import (
    DEFAULTS,
    METHODS,
    Attributed,
    Attributing,
    attribute,
    check_methods,
)
from fairseq_attn_plugin.analysis.inference.erasure import erased, source_units
from fairseq_attn_plugin.analysis.inference.extraction import FORCED, Extraction, batches_of, collated, extract
from fairseq_attn_plugin.analysis.inference.forcing import BLOCK, forced_blocks, forced_scores, frozen
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.reweighing import (
    adversarial,
    ask,
    can_reweigh,
    permuted,
    uniform,
    variation,
)
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.analysis.outputs.distributions import jensen_shannon, kendall_tau
from fairseq_attn_plugin.errors import OptionError

__all__ = ["Means", "Measuring", "faithfulness"]


class Measuring(NamedTuple):
    """Options of the measures.

    methods: attributions that the attention is compared with
    attributing: their options
    top: numbers k of source words that are erased, or left, together
    draws: random sets of k words of each sentence
    permutations: of the weights of each step
    steps: of each search for adversarial weights; 0: none
    bound: of the total variation that they may cause
    seed: of everything random
    """

    methods: Tuple[str, ...] = tuple(METHODS)[:3]
    attributing: Attributing = DEFAULTS
    top: Tuple[int, ...] = (1, 3)
    draws: int = 10
    permutations: int = 10
    steps: int = 40
    bound: float = 0.05
    seed: int = 1

    def check(self) -> None:
        """Raises ``OptionError`` for a value out of range."""
        check_methods(self.methods)
        self.attributing.check()
        for name, value, least in (
            *(("top", k, 1) for k in self.top),
            ("draws", self.draws, 1),
            ("permutations", self.permutations, 1),
            ("adversarial-steps", self.steps, 0),
        ):
            if value < least:
                raise OptionError(f"--{name} {value}: must be at least {least}")
        if not 0 < self.bound < 1:
            raise OptionError(f"--bound {self.bound}: must be above 0 and below 1")


class Means:
    """Means of quantities over target words; those that are not defined for a word (NaN) are left out."""

    def __init__(self) -> None:
        self.sums: DefaultDict[str, float] = defaultdict(float)
        self.counts: DefaultDict[str, int] = defaultdict(int)

    def add(self, name: str, values: Any) -> None:
        """Adds the values of many words."""
        values = np.asarray(values, dtype=np.float64).reshape(-1)
        values = values[~np.isnan(values)]
        self.sums[name] += float(values.sum())
        self.counts[name] += len(values)

    def __getitem__(self, name: str) -> float:
        return self.sums[name] / self.counts[name] if self.counts[name] else float("nan")

    def as_dict(self, digits: int = 5) -> Dict[str, float]:
        """All means that are defined."""
        return {name: round(self[name], digits) for name in self.sums if self.counts[name]}


def faithfulness(
    loaded: LoadedModels,
    sentences: Any,
    options: Measuring,
    extraction: Extraction = FORCED,
    block: int = BLOCK,
) -> Iterator[Tuple[int, Means]]:
    """Measures a corpus block by block.

    Args:
        loaded: the models
        sentences: :class:`~.sentences.SplitSentences` or :class:`~.sentences.TextSentences`
        options: of the measures
        extraction: what is forced
        block: sentences in memory

    Returns:
        after each block the number of its sentences and the means so far, always the same object, by name:

        - ``probability``: p(y_t | x); its count is the number of target words
        - ``tau M``, ``jsd M``: Kendall's tau-b and Jensen-Shannon divergence of attention and method M
        - ``tau M / M'``: of two methods
        - ``comprehensiveness k``, ``sufficiency k`` and both with ``random``: p(y_t | x) - p(y_t | x without the k
          words, or with them alone)
        - ``variation permuted``, ``variation uniform``: total variation of p(y_t; a) and p(y_t); ``other word ...``:
          share of target words whose most probable word changes
        - ``jsd adversarial``: :func:`.reweighing.adversarial`, the farther of two that start from the model's own
          weights and from uniform ones

        The last three need a single model of this package.

    Raises:
        OptionError: options out of range, or as :func:`.extraction.extract`
    """
    options.check()
    means, generator = Means(), torch.Generator().manual_seed(options.seed)
    numbers = np.random.default_rng(options.seed)
    with frozen(loaded.models):
        for ready in forced_blocks(loaded, sentences, extraction, block=block):
            records = list(extract(loaded, lambda start, ready=ready: iter(ready), extraction._replace(beam=None)))
            units = [source_units(loaded, one, options.attributing.unit) for one in ready]
            attention = [_of_units(record.attention, groups) for record, groups in zip(records, units)]
            found = attribute(loaded, ready, options.methods, options.attributing)
            for own, groups, one in zip(attention, units, found):
                means.add("probability", np.exp(one.scores))
                compare(means, own, {name: _of_units(one.values[name], groups) for name in options.methods})
            erase(means, loaded, ready, units, attention, found, options, numbers)
            if len(loaded.models) == 1 and can_reweigh(loaded.models[0]):
                reweigh(means, loaded, ready, options, generator)
            yield len(ready), means


def _of_units(values: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Sums over the positions of each unit, ``[T, N]`` to ``[T, U]``."""
    return np.stack([values[:, list(group)].sum(1) for group in groups], axis=1)


def compare(means: Means, attention: np.ndarray, found: Dict[str, np.ndarray]) -> None:
    """Adds tau and divergence of attention ``[T, U]`` and the absolute values of the attributions of a sentence."""
    sizes = {name: np.abs(values) for name, values in found.items()}
    for name, values in sizes.items():
        means.add(f"tau {name}", kendall_tau(attention, values))
        means.add(f"jsd {name}", jensen_shannon(attention, values))
    for one, other in combinations(sizes, 2):
        means.add(f"tau {one} / {other}", kendall_tau(sizes[one], sizes[other]))


def erase(
    means: Means,
    loaded: LoadedModels,
    sentences: Sequence[SourceSentence],
    units: Sequence[List[List[int]]],
    attention: Sequence[np.ndarray],
    found: Sequence[Attributed],
    options: Measuring,
    numbers: np.random.Generator,
) -> None:
    """Adds comprehensiveness and sufficiency (DeYoung et al. 2020, "ERASER").

    Sets of words that several target words have in common are erased once. A sentence of k words or fewer is left out.
    """
    rows: List[SourceSentence] = []
    places: List[Dict[FrozenSet[int], int]] = []
    chosen: List[List[Tuple[str, int, FrozenSet[int]]]] = []  # name, target word (-1: all), erased units
    for one, groups, weights in zip(sentences, units, attention):
        every, wanted = frozenset(range(len(groups))), []
        for k in (k for k in options.top if k < len(groups)):
            order = np.argsort(-weights, axis=1, kind="stable")[:, :k]
            sets = [("", step, frozenset(best.tolist())) for step, best in enumerate(order)]
            draws = [numbers.choice(len(groups), k, replace=False).tolist() for _ in range(options.draws)]
            sets += [(" random", -1, frozenset(drawn)) for drawn in draws]
            for suffix, step, kept in sets:
                wanted.append((f"comprehensiveness {k}{suffix}", step, kept))
                wanted.append((f"sufficiency {k}{suffix}", step, every - kept))
        places.append({})
        for _, _, gone in wanted:
            if gone not in places[-1]:
                positions = [place for unit in gone for place in groups[unit]]
                places[-1][gone] = len(rows)
                rows.append(one._replace(source=erased(loaded, one.source, positions, options.attributing.erase)))
        chosen.append(wanted)
    scores = forced_scores(loaded, rows, options.attributing.max_tokens)
    for wanted, where, whole in zip(chosen, places, found):
        before = np.exp(whole.scores)
        for name, step, gone in wanted:
            change = before - np.exp(scores[where[gone]].numpy())
            means.add(name, change if step < 0 else change[step])


def reweigh(
    means: Means,
    loaded: LoadedModels,
    sentences: Sequence[SourceSentence],
    options: Measuring,
    generator: torch.Generator,
) -> None:
    """Adds what other weights change, and the farthest ones that change nothing."""
    pad = loaded.task.target_dictionary.pad()
    for batch in batches_of(list(sentences), options.attributing.max_tokens // 4, 1):
        sample = collated(loaded, batch, [one.target for one in batch])
        asked, words = ask(loaded.models[0], sample), sample["target"].ne(pad)
        best = asked.probabilities.argmax(-1)
        with torch.no_grad():
            own, real = asked.weights, asked.real
            tried = [("uniform", uniform(own, real))]
            tried += [("permuted", permuted(own, real, generator)) for _ in range(options.permutations)]
            for name, weights in tried:
                changed = asked.with_weights(weights)
                means.add(f"variation {name}", variation(changed, asked.probabilities)[words].cpu())
                means.add(f"other word {name}", changed.argmax(-1).ne(best)[words].cpu())
        if options.steps:
            starts = (own, uniform(own, real))
            far = [adversarial(asked, options.bound, options.steps, start)[1] for start in starts]
            means.add("jsd adversarial", torch.maximum(*far)[words].cpu())
