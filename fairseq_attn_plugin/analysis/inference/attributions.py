"""How much each source word matters to each word of a forced translation, by other means than the attention.

With f_t = log p(y_t | y_<t, x) and the embedding e_j of source position j, :data:`METHODS` give values ``[T, N]`` with
a sign; a positive one speaks for y_t:

    leave-one-out   f_t(x) - f_t(x without word j)              (Li et al. 2016)
    gradient        sum_d e_jd df_t/de_jd                       (gradient times input)
    saliency        mean_i sum_d e_jd df_t/de_jd (e + r_i)      (SmoothGrad; Ding et al. 2019, "Saliency-driven Word
                                                                Alignment Interpretation")

The r_i are Gaussian, their standard deviation a share of the range of the sentence's embeddings.

:data:`MATRICES` give weights ``[B, T, N]`` from which words are aligned: ``saliency``, ``loo`` (leave-one-out), and
``bayes``, the exact posterior of the alignment. Values become weights: negative ones count as zero, and a row is
divided by its sum. A row without positive values becomes the softmax of its values, so that their order stays.

The posterior. A model with attention weights a_tj and context c_t = sum_j a_tj h_j reads as a model with a latent
alignment z_t (Deng et al. 2018, "Latent Alignment and Variational Attention"; Shankar et al. 2018, "Surprisingly Easy
Hard-Attention for Sequence to Sequence Learning"), whose output layer predicts from one encoding in place of the sum:

    p(z_t = j) = a_tj / A_t,   p(y_t | z_t = j) = softmax(W o(A_t h_j, s_t))[y_t],   A_t = sum_j a_tj
    p(z_t = j | x, y_<=t) = p(j) p(y_t | j) / sum_k p(k) p(y_t | k)

A_t is 1 except for attention whose weights do not sum to one. The states s_t are those of the forced translation: they
do not depend on z. A latent alignment model has this posterior of its own. A soft model was not trained to predict from
one encoding, so that p(y_t | j) is what its output layer makes of it.
"""

from functools import partial
from itertools import groupby
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.batches import columns_of
from fairseq_attn_plugin.analysis.inference.forcing import (
    attention,
    forced_scores,
    gradients_times_input,
    noted,
    unmoved,
)
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.recurrent_decoder import RecurrentDecoder
from fairseq_attn_plugin.text.subwords import vocabulary_subwords, words_of

SAMPLES, NOISE, SEED = 10, 0.15, 1  # of saliency
ROWS = 1024  # words of the whole vocabulary at a time

Method = Callable[..., List[Tensor]]  # of models, sentences, and optionally the subwords in a batch


def source_units(loaded: Any, sentence: SourceSentence) -> List[List[int]]:
    """The positions of the source that are erased together: those of each word, in order, and the end by itself."""
    words = words_of(sentence.source_tokens, vocabulary_subwords(loaded.task.source_dictionary))
    groups = [list(same) for _, same in groupby(range(len(words)), key=words.__getitem__)]
    return groups + [[place] for place in range(len(words), len(sentence.source))]


def erased(loaded: Any, source: Tensor, places: Sequence[int]) -> Tensor:
    """The source ``[N]`` without what stands at ``places``. Where nothing would be left, one ``<unk>`` is left."""
    left = torch.ones(len(source), dtype=torch.bool)
    left[list(places)] = False
    return source[left] if bool(left.any()) else source.new_tensor([loaded.task.source_dictionary.unk()])


def leave_one_out(loaded: LoadedModels, sentences: Sequence[SourceSentence], max_tokens: int = 4000) -> List[Tensor]:
    """The formula of the module's text, ``[T, N]`` of each sentence; the rows of a batch are erasures of many words.

    Each subword of a word has an equal share of the difference.
    """
    rows: List[SourceSentence] = []
    units = [source_units(loaded, one) for one in sentences]
    for one, groups in zip(sentences, units):
        rows.append(one)
        rows += [one._replace(source=erased(loaded, one.source, group)) for group in groups]
    scores = iter(forced_scores(loaded, rows, max_tokens))
    result = []
    for one, groups in zip(sentences, units):
        whole = next(scores)
        found = torch.zeros(len(whole), len(one.source))
        for group in groups:
            found[:, group] = ((whole - next(scores)) / len(group)).unsqueeze(1)
        result.append(found)
    return result


def saliency(loaded: LoadedModels, sentences: Sequence[SourceSentence], max_tokens: int = 4000) -> List[Tensor]:
    """The formula of the module's text, ``[T, N]`` of each sentence.

    The noise follows from the number of the sentence and i, whatever else is in the batch.
    """

    def noisy(embeddings: Tensor, words: Tensor, of_rows: Sequence[SourceSentence], sample: int) -> Tensor:
        real = words.ne(loaded.task.source_dictionary.pad())
        values = embeddings.masked_fill(~real.unsqueeze(2), 0.0).flatten(1)
        spread = NOISE * (values.amax(1) - values.amin(1))
        drawn: Dict[int, Tensor] = {}
        for one in of_rows:
            if one.id not in drawn:
                shape = (len(one.source), embeddings.size(2))
                numbers = np.random.default_rng((SEED, one.id, sample))
                drawn[one.id] = torch.from_numpy(numbers.standard_normal(shape, dtype=np.float32))
        noise = torch.zeros(embeddings.shape)
        noise[real.cpu()] = torch.cat([drawn[one.id] for one in of_rows])
        return embeddings + spread.view(-1, 1, 1) * noise.to(embeddings)

    parts = [gradients_times_input(loaded, sentences, max_tokens, partial(noisy, sample=i)) for i in range(SAMPLES)]
    return [torch.stack(of_one).mean(0) for of_one in zip(*parts)]


METHODS: Dict[str, Method] = {"leave-one-out": leave_one_out, "gradient": gradients_times_input, "saliency": saliency}


def as_weights(values: Tensor) -> Tensor:
    """Rows ``[T, N]`` that are not negative and sum to one; see the module's text."""
    positive = values.clamp(min=0)
    sums = positive.sum(-1, keepdim=True)
    return torch.where(sums > 0, positive / sums.clamp(min=torch.finfo(values.dtype).tiny), values.softmax(-1))


def _posterior(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], sample: Dict[str, Any], max_tokens: int
) -> Tensor:
    """The mean over the models of an ensemble."""
    found = [exact_posterior(model, sample, f"--path {loaded.path}") for model in loaded.models]
    return torch.stack(found).mean(0)


def _attributed(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], sample: Dict[str, Any], max_tokens: int, method: Method
) -> Tensor:
    """The values of single sentences as weights, in the rows and columns of their batch."""
    found = method(loaded, sentences, max_tokens)
    result = torch.zeros(*sample["target"].shape, sample["net_input"]["src_tokens"].size(1))
    for row, place in enumerate(sample["id"].tolist()):
        values = as_weights(found[place])
        result[row, : len(values), columns_of(loaded, sample, values.size(1))] = values
    return result


# of a batch: the id of each row is its place in the sentences; the last argument bounds the subwords of a batch
MATRICES: Dict[str, Callable[[LoadedModels, Sequence[SourceSentence], Dict[str, Any], int], Tensor]] = {
    "bayes": _posterior,
    "saliency": partial(_attributed, method=saliency),
    "loo": partial(_attributed, method=leave_one_out),
}


class _Steps(NamedTuple):
    """What the output layer reads in a forced translation."""

    states: Tensor  # [B, T, Ds], s_t
    encodings: Tensor  # [B, N, Dh], in the columns of the sample
    weights: Tensor  # [B, T, N]
    log_probs: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # see LSTMDecoder.log_probs


@torch.no_grad()
def exact_posterior(model: Any, sample: Dict[str, Any], where: str) -> Tensor:
    """p(z_t = j | x, y_<=t) ``[B, T, N]`` of a batch with its ``target``; zero on padding, and where all weights are.

    Raises ``OptionError``, which starts with ``where``, for a model whose output layer does not read one context.
    """
    source, target = sample["net_input"]["src_tokens"], sample["target"]
    if hasattr(model, "forced"):
        found: Tensor = model.forced(source, sample["net_input"]["prev_output_tokens"], target)[1]["bayes"]
        return found.float()
    steps = _steps(model, sample, where)
    result = torch.zeros_like(steps.weights)
    real = source.ne(model.encoder.dictionary.pad())
    for row, (columns, length) in enumerate(zip(real, target.ne(model.decoder.dictionary.pad()).sum(1).tolist())):
        prior = steps.weights[row, :length][:, columns]
        encodings, states = steps.encodings[row, columns], steps.states[row, :length]
        sums = prior.sum(1)
        likelihoods = _log_likelihoods(steps, sums, states, encodings, source[row, columns], target[row, :length])
        posterior = (prior.log() + likelihoods).softmax(1)
        result[row, :length, columns] = posterior.masked_fill(sums.eq(0).unsqueeze(1), 0.0)
    return result


def _log_likelihoods(
    steps: _Steps, sums: Tensor, states: Tensor, encodings: Tensor, tokens: Tensor, words: Tensor
) -> Tensor:
    """log p(y_t | z_t = j) ``[T, N]`` of one sentence without padding; ``sums`` is A ``[T]``."""
    count = len(encodings)
    result = []
    for pairs in torch.arange(len(words) * count, device=words.device).split(ROWS):
        t, j = pairs // count, pairs % count
        contexts, one_hot = sums[t].unsqueeze(1) * encodings[j], torch.eye(count, device=words.device)[j]
        log_probs = steps.log_probs(contexts[None], states[t][None], one_hot[None], tokens[None])[0]
        result.append(log_probs.float().gather(1, words[t].unsqueeze(1)).squeeze(1))
    return torch.cat(result).view(len(words), count)


def _steps(model: Any, sample: Dict[str, Any], where: str) -> _Steps:
    from fairseq.models.lstm import LSTMDecoder as StockDecoder

    decoder, inputs = getattr(model, "decoder", None), sample["net_input"]
    if isinstance(decoder, RecurrentDecoder) and decoder.attention is not None:
        encoded: List[Any] = []
        hook = model.encoder.register_forward_hook(lambda _, __, out: encoded.append(out))
        with hook, noted(decoder) as (states, _):
            output = model(**inputs)
        weights = attention(model, output, sample, where)
        return _Steps(torch.cat(states, 1), encoded[0]["encodings"], weights, decoder.log_probs)
    if isinstance(decoder, StockDecoder) and decoder.attention is not None:
        reads: List[Any] = []
        with decoder.attention.register_forward_hook(lambda _, read, __: reads.append(read)):
            output = model(**inputs)
        weights = attention(model, output, sample, where)
        encodings = unmoved(model, reads[0][1].permute(1, 2, 0), inputs["src_tokens"]).transpose(1, 2)
        return _Steps(torch.stack([read[0] for read in reads], 1), encodings, weights, _stock_log_probs(decoder))
    raise OptionError(
        f"{where}: --method posterior: a {type(model).__name__} does not predict from one sum of source encodings; "
        "take a recurrent model with attention, or another method"
    )


def _stock_log_probs(decoder: Any) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The output of stock ``lstm``: its attention's projection, another layer where there is one, its vocabulary."""

    def log_probs(context: Tensor, hidden: Tensor, weights: Tensor, tokens: Tensor) -> Tensor:
        features = torch.tanh(decoder.attention.output_proj(torch.cat([context, hidden], dim=-1)))
        if hasattr(decoder, "additional_fc") and decoder.adaptive_softmax is None:
            features = decoder.additional_fc(features)
        result: Tensor = decoder.get_normalized_probs((decoder.output_layer(features), None), log_probs=True)
        return result

    return log_probs
