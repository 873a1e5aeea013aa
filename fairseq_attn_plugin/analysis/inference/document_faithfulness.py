"""Whether the attention of a document classifier tells what its class depends on; see :mod:`.faithfulness`.

f = log p(c) of the predicted class c. There are two levels: the words of a sentence (of the document where the model is
flat), which share the word attention, and the sentences of a document, which share the sentence attention. A value of a
sentence is the sum over its words, except for leave-one-out, which takes the whole sentence out.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Callable, Iterable, Iterator, List, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.classification import Classifier, DocumentSample
from fairseq_attn_plugin.analysis.inference.document_attributions import (
    Level,
    classes_of,
    document_attributions,
    levels_of,
    many_scores,
    without,
)
from fairseq_attn_plugin.analysis.inference.faithfulness import Means, Measuring, compare
from fairseq_attn_plugin.analysis.inference.reweighing import permuted, uniform
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.document_pooling import AttentionPooling

__all__ = ["document_faithfulness"]

BLOCK = 8  # documents in memory, with an erasure of each of their words


def document_faithfulness(
    classifier: Classifier, samples: Iterable[DocumentSample], options: Measuring
) -> Iterator[Tuple[int, Means]]:
    """Measures documents block by block.

    Args:
        classifier: with attention
        samples: the documents
        options: of the measures; ``smoothgrad`` and adversarial weights are not for documents

    Returns:
        after each block its number of documents and the means so far, by the names of
        :func:`.faithfulness.faithfulness` with the level, ``words`` or ``sentences``, in front; a mean is over the
        sentences of all documents, and over documents. ``variation`` replaces all weights of the level at once

    Raises:
        OptionError: a model that takes means instead of attention, or an option that is not for documents
    """
    options.check()
    if "smoothgrad" in options.methods:
        raise OptionError("--attribution smoothgrad: is not for documents; leave it out")
    if not isinstance(classifier.model.words.pooling, AttentionPooling):
        raise OptionError(f"--path {classifier.path}: takes means and has no attention; take han or han_flat")
    means, generator = Means(), torch.Generator().manual_seed(options.seed)
    numbers, reading = np.random.default_rng(options.seed), iter(samples)
    while True:
        read = list(islice(reading, BLOCK))
        if not read:
            return
        block = [one for one in read if one.sentences]
        if not block:  # nothing but empty documents
            yield len(read), means
            continue
        tokens = [one.tokens for one in block]
        log_probs, attention = classes_of(classifier, tokens)
        classes = log_probs.argmax(1)
        means.add("probability", log_probs.exp().amax(1))
        levels = [levels_of(classifier, one, row) for one, row in zip(tokens, attention)]
        values = document_attributions(classifier, tokens, classes, levels, log_probs, options)
        for found, parts in zip(values, levels):
            for number, level in enumerate(parts):
                named = {name: of_levels[number][None] for name, of_levels in found.items()}
                if len(level.units) > 1:
                    compare(_Prefixed(means, level.name), level.weights[None], named)
        _erase(means, classifier, tokens, classes, levels, log_probs, options, numbers)
        _reweigh(means, classifier, tokens, log_probs, options, generator)
        yield len(read), means


class _Prefixed(Means):
    """Means that are added to others by names with a prefix."""

    def __init__(self, means: Means, prefix: str):
        self.means, self.prefix = means, prefix

    def add(self, name: str, values: Any) -> None:
        self.means.add(f"{self.prefix} {name}", values)


def _erase(
    means: Means,
    classifier: Classifier,
    documents: Sequence[Tensor],
    classes: Tensor,
    levels: Sequence[List[Level]],
    log_probs: Tensor,
    options: Measuring,
    numbers: np.random.Generator,
) -> None:
    """Adds comprehensiveness and sufficiency; the units of other levels and sentences stay."""
    rows: List[Tensor] = []
    wanted: List[Tuple[str, int]] = []
    for d, parts in enumerate(levels):
        for level in parts:
            size = len(level.units)
            for k in (k for k in options.top if k < size):
                best = np.argsort(-level.weights, kind="stable")[:k]
                sets = [("", best)]
                sets += [(" random", numbers.choice(size, k, replace=False)) for _ in range(options.draws)]
                for suffix, kept in sets:
                    others = np.setdiff1d(np.arange(size), kept)
                    for name, gone in (("comprehensiveness", kept), ("sufficiency", others)):
                        places = [place for unit in gone for place in level.units[unit]]
                        wanted.append((f"{level.name} {name} {k}{suffix}", d))
                        rows.append(without(classifier, documents[d], places, options.attributing.erase))
    scores = many_scores(classifier, rows, options.attributing.max_tokens).exp()
    for (name, d), after in zip(wanted, scores):
        means.add(name, float(log_probs[d, classes[d]].exp() - after[classes[d]]))


def _reweigh(
    means: Means,
    classifier: Classifier,
    documents: Sequence[Tensor],
    log_probs: Tensor,
    options: Measuring,
    generator: torch.Generator,
) -> None:
    """Adds what equal and permuted weights of a level change."""
    model, before = classifier.model, log_probs.exp()

    def shuffled(weights: Tensor, real: Tensor) -> Tensor:
        return permuted(weights, real, generator)

    ways: List[Tuple[str, Callable[[Tensor, Tensor], Tensor]]] = [("uniform", uniform)]
    ways += [("permuted", shuffled)] * options.permutations
    for level, part in (("words", model.words), ("sentences", model.sentences)):
        for name, way in ways if part is not None else ():
            changed = _with_weights(classifier, part, documents, way).exp()
            means.add(f"{level} variation {name}", (changed - before).abs().sum(1) / 2)
            means.add(f"{level} other class {name}", changed.argmax(1).ne(before.argmax(1)))


def _with_weights(
    classifier: Classifier, part: Any, documents: Sequence[Tensor], way: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """log p ``[B, C]`` with other weights of a pooling, a function of its weights and of what is real, ``[R, L]``."""

    def replace(module: Any, read: Tuple[Any, ...], found: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tensor]:
        values, padding = read
        real = torch.ones_like(found[1], dtype=torch.bool) if padding is None else ~padding
        weights = way(found[1], real)
        return torch.bmm(weights.unsqueeze(1), values).squeeze(1), weights

    hook = part.pooling.register_forward_hook(replace)
    try:
        return classes_of(classifier, documents)[0]
    finally:
        hook.remove()
