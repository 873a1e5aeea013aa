"""Matrices from which words are aligned, other than the attention of a forced translation.

    bayes      p(z_t = j | x, y_<=t), the exact posterior (:mod:`.posterior`)
    saliency   mean_i sum_d e_jd df_t/de_jd (e + r_i), SmoothGrad (Ding et al. 2019, "Saliency-driven Word Alignment
               Interpretation for Neural Machine Translation"), f_t = log p(y_t | y_<t, x)
    loo        f_t(x) - f_t(x without word j), leave-one-out

:mod:`.attributions` computes the last two. Saliency keeps the signs; it can average absolute values as well. The rows
become weights: negative values count as zero, and a row is divided by its sum. A row without positive values becomes
the softmax of its values, so that their order stays.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.posterior import exact_posterior
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence

__all__ = ["MATRICES", "as_weights", "matrices"]

Matrix = Callable[[LoadedModels, Sequence[SourceSentence], Dict[str, Any]], Tensor]


def _posterior(loaded: LoadedModels, sentences: Sequence[SourceSentence], sample: Dict[str, Any]) -> Tensor:
    """The mean over the models of an ensemble."""
    found = [exact_posterior(model, sample, f"--path {loaded.path}") for model in loaded.models]
    return torch.stack(found).mean(0)


def _attribution(name: str, **options: Any) -> Matrix:
    def attributed(loaded: LoadedModels, sentences: Sequence[SourceSentence], sample: Dict[str, Any]) -> Tensor:
        from fairseq_attn_plugin.analysis.inference.attributions import Attributing, attribute

        values = attribute(loaded, sentences, [name], Attributing(**options))
        found = [torch.from_numpy(one.values[name]) for one in values]
        return _padded(list(map(as_weights, found)), sample, loaded.task.source_dictionary.pad())

    return attributed


MATRICES: Dict[str, Matrix] = {
    "bayes": _posterior,
    "saliency": _attribution("smoothgrad", samples=10, absolute=False),
    "loo": _attribution("leave-one-out"),
}


def matrices(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], sample: Dict[str, Any], names: Sequence[str]
) -> Dict[str, Tensor]:
    """The matrices ``[B, T, N]`` with these names, in the rows and columns of a batch.

    Args:
        loaded: the models; of an ensemble the posterior is the mean, the others are those of its mean probability
        sentences: B, with targets
        sample: the same sentences as a batch of fairseq, whose ``id`` is the place of each in ``sentences``
        names: in :data:`MATRICES`

    Raises:
        OptionError: a model for which a matrix is not defined
    """
    return {name: MATRICES[name](loaded, sentences, sample) for name in names}


def as_weights(values: Tensor) -> Tensor:
    """Rows ``[T, N]`` that are not negative and sum to one; see the module's text."""
    positive = values.clamp(min=0)
    sums = positive.sum(-1, keepdim=True)
    return torch.where(sums > 0, positive / sums.clamp(min=torch.finfo(values.dtype).tiny), values.softmax(-1))


def _padded(found: List[Tensor], sample: Dict[str, Any], pad: int) -> Tensor:
    """Matrices of single sentences in the rows and columns of their batch."""
    source, target = sample["net_input"]["src_tokens"], sample["target"]
    result = torch.zeros(*target.shape, source.size(1))
    for row, place in enumerate(sample["id"].tolist()):
        result[row, : len(found[place]), source[row].ne(pad).cpu()] = found[place].float()
    return result
