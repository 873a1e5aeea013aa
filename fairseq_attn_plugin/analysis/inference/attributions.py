"""How much each source word matters to each predicted target word, by other means than the attention.

    from fairseq_attn_plugin.analysis.inference.attributions import Attributing, attributions

    for sentence, found in attributions(loaded, SplitSentences(loaded, "test"), ["leave-one-out", "gradient"]):
        found.scores, found.values["gradient"]                              # [T], [T, N]

The translation is forced; f_t = log p(y_t | y_<t, x), e_j is the embedding of source position j. Every method gives a
matrix ``[T, N]`` with a sign: a positive value speaks for y_t.

    leave-one-out          f_t(x) - f_t(x without word j)
    gradient               sum_d e_jd df_t/de_jd                       (gradient times input)
    integrated-gradients   sum_d e_jd int_0^1 df_t/de_jd (s e) ds      (Sundararajan et al. 2017; from zero embeddings)
    smoothgrad             mean_i |sum_d e_jd df_t/de_jd (e + r_i)|    (Ding et al. 2019; Smilkov et al. 2017)

The integral is a sum over the nodes of Gauss and Legendre; the rows of integrated gradients sum to f_t(e) - f_t(0). The
r_i are Gaussian, their standard deviation a share of the range of the sentence's embeddings.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.erasure import ERASURES, UNITS, erased, source_units
from fairseq_attn_plugin.analysis.inference.extraction import FORCED, Extraction
from fairseq_attn_plugin.analysis.inference.forcing import (
    BLOCK,
    forced_blocks,
    forced_scores,
    gradients_times_input,
)
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.errors import OptionError

__all__ = ["DEFAULTS", "METHODS", "Attributed", "Attributing", "attribute", "attributions", "check_methods"]


class Attributing(NamedTuple):
    """Options of the methods.

    erase: what leave-one-out does to a word: ``remove`` takes its subwords out of the source, ``unk`` puts one
        ``<unk>`` in the place of each
    unit: what it erases at a time: a ``word`` with all its subwords, each of which gets an equal share of the
        difference, or a ``subword``
    steps: nodes of the integral of integrated gradients
    samples: of SmoothGrad
    noise: its standard deviation, as a share of the range of the sentence's embeddings
    absolute: whether SmoothGrad averages absolute values; plain values otherwise
    seed: of the noise
    max_tokens: subwords in a batch, padding included
    """

    erase: str = "remove"
    unit: str = "word"
    steps: int = 16
    samples: int = 30
    noise: float = 0.15
    absolute: bool = True
    seed: int = 1
    max_tokens: int = 4000

    def check(self) -> None:
        """Raises ``OptionError`` for a value out of range."""
        for name, value, choices in (("erase", self.erase, ERASURES), ("unit", self.unit, UNITS)):
            if value not in choices:
                raise OptionError(f"--{name} {value}: must be {' or '.join(choices)}")
        for name, number in (("steps", self.steps), ("samples", self.samples), ("max-tokens", self.max_tokens)):
            if number < 1:
                raise OptionError(f"--{name} {number}: must be at least 1")
        if self.seed < 0:
            raise OptionError(f"--seed {self.seed}: must be 0 or more")
        if not 0 <= self.noise < float("inf"):
            raise OptionError(f"--noise {self.noise}: must be 0 or more")


DEFAULTS = Attributing()


class Attributed(NamedTuple):
    """What the methods found for one sentence."""

    scores: np.ndarray  # [T], f_t
    values: Dict[str, np.ndarray]  # [T, N], by method


Method = Callable[[LoadedModels, Sequence[SourceSentence], Attributing], List[Tensor]]


def leave_one_out(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], options: Attributing = DEFAULTS
) -> List[Tensor]:
    """f_t(x) - f_t(x without word j), ``[T, N]`` of each sentence; the rows of one batch are erasures of many words.

    A source of a single word has ``<unk>`` instead of it, since no source can be empty.
    """
    rows: List[SourceSentence] = []
    units = [source_units(loaded, one, options.unit) for one in sentences]
    for one, groups in zip(sentences, units):
        rows.append(one)
        rows += [one._replace(source=erased(loaded, one.source, group, options.erase)) for group in groups]
    scores = iter(forced_scores(loaded, rows, options.max_tokens))
    result = []
    for one, groups in zip(sentences, units):
        whole, found = next(scores), torch.zeros(len(one.target), len(one.source))  # type: ignore[arg-type]
        for group in groups:
            found[:, group] = ((whole - next(scores)) / len(group)).unsqueeze(1)
        result.append(found)
    return result


def gradient(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], options: Attributing = DEFAULTS
) -> List[Tensor]:
    """sum_d e_jd df_t/de_jd, ``[T, N]`` of each sentence."""
    return gradients_times_input(loaded, sentences, options.max_tokens)


def integrated_gradients(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], options: Attributing = DEFAULTS
) -> List[Tensor]:
    """sum_d e_jd int_0^1 df_t/de_jd (s e) ds, ``[T, N]`` of each sentence."""
    nodes, shares = np.polynomial.legendre.leggauss(options.steps)
    sums: List[Tensor] = []
    for node, share in zip((nodes + 1) / 2, shares / 2):

        def scaled(embeddings: Tensor, *unused: Any, node: float = float(node)) -> Tensor:
            return node * embeddings

        part = gradients_times_input(loaded, sentences, options.max_tokens, scaled)
        sums = [float(share) * one for one in part] if not sums else [a + float(share) * b for a, b in zip(sums, part)]
    return sums


def smoothgrad(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], options: Attributing = DEFAULTS
) -> List[Tensor]:
    """mean_i |sum_d e_jd df_t/de_jd (e + r_i)|, ``[T, N]`` of each sentence; without the bars unless ``absolute``.

    The noise follows from the seed, the number of the sentence and i, whatever else is in the batch.
    """

    def noisy(embeddings: Tensor, words: Tensor, of_rows: Sequence[SourceSentence], sample: int) -> Tensor:
        real = words.ne(loaded.task.source_dictionary.pad())
        values = embeddings.masked_fill(~real.unsqueeze(2), 0.0).flatten(1)
        spread = options.noise * (values.amax(1) - values.amin(1))
        drawn: Dict[int, Tensor] = {}
        for one in of_rows:
            if one.id not in drawn:
                shape = (len(one.source), embeddings.size(2))
                numbers = np.random.default_rng((options.seed, one.id, sample))
                drawn[one.id] = torch.from_numpy(numbers.standard_normal(shape, dtype=np.float32))
        noise = torch.zeros(embeddings.shape)
        noise[real.cpu()] = torch.cat([drawn[one.id] for one in of_rows])
        return embeddings + spread.view(-1, 1, 1) * noise.to(embeddings)

    sums: List[Tensor] = []
    for sample in range(options.samples):
        part = gradients_times_input(loaded, sentences, options.max_tokens, partial(noisy, sample=sample))
        part = [one.abs() for one in part] if options.absolute else part
        sums = part if not sums else [a + b for a, b in zip(sums, part)]
    return [one / options.samples for one in sums]


METHODS: Dict[str, Method] = {
    "leave-one-out": leave_one_out,
    "gradient": gradient,
    "integrated-gradients": integrated_gradients,
    "smoothgrad": smoothgrad,
}


def attribute(
    loaded: LoadedModels,
    sentences: Sequence[SourceSentence],
    methods: Sequence[str],
    options: Attributing = DEFAULTS,
) -> List[Attributed]:
    """The attributions of sentences with targets, all in memory; see :func:`attributions`."""
    scores = forced_scores(loaded, sentences, options.max_tokens)
    found = {name: METHODS[name](loaded, sentences, options) for name in methods}
    return [
        Attributed(score.numpy(), {name: found[name][number].numpy() for name in methods})
        for number, score in enumerate(scores)
    ]


def attributions(
    loaded: LoadedModels,
    sentences: Any,
    methods: Sequence[str],
    options: Attributing = DEFAULTS,
    extraction: Extraction = FORCED,
    start: int = 0,
    block: int = BLOCK,
) -> Iterator[Tuple[SourceSentence, Attributed]]:
    """Yields the attributions of each sentence, in the order of the corpus.

    Sentences that are longer than a model or its task allows are left out. ``block`` sentences are in memory at a time.

    Args:
        loaded: the models; the value of an ensemble is that of its mean probability
        sentences: :class:`~.sentences.SplitSentences` or :class:`~.sentences.TextSentences`
        methods: names in :data:`METHODS`
        options: of the methods
        extraction: whether the reference or the model's own translation is forced (``beam``, ``generation``)
        start: number of the first sentence
        block: number of sentences in memory

    Returns:
        pairs of the sentence, whose target is the forced one, and what was found

    Raises:
        OptionError: an unknown method or a wrong option, a corpus without references that are needed, or a model whose
            source embeddings cannot be reached
    """
    check_methods(methods)
    options.check()
    for ready in forced_blocks(loaded, sentences, extraction, start, block):
        yield from zip(ready, attribute(loaded, ready, methods, options))


def check_methods(methods: Sequence[str]) -> None:
    """Raises ``OptionError`` for a name that is not in :data:`METHODS`."""
    for name in methods:
        if name not in METHODS:
            raise OptionError(f"--attribution {name}: must be one of {', '.join(METHODS)}")
