"""Forces translations through models of fairseq: their log probabilities, their attention, and gradients of sources."""

import contextlib
import math
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.batches import batches_of, collated
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.attention import AttentionOutput
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.decoder_state import Decoded
from fairseq_attn_plugin.modules.recurrent_decoder import RecurrentDecoder

Change = Callable[[Tensor, Tensor], Tensor]


def weight_names(models: Sequence[Any]) -> Tuple[str, ...]:
    """Names of the matrices that all models give: ``attention``, and the posteriors of latent alignment models."""
    names = [("attention", *getattr(model, "posteriors", ())) for model in models]
    return tuple(name for name in names[0] if all(name in others for others in names))


def attention(model: Any, output: Any, sample: Dict[str, Any], where: str) -> Tensor:
    """The weights ``[B, T, N]`` of a forward pass, with the columns of the sample's ``src_tokens``.

    Raises ``OptionError``, whose message starts with ``where``, if the output has no such weights.
    """
    weights = output[1].get("attn") if isinstance(output[1], dict) else output[1]
    if isinstance(weights, (list, tuple)):
        weights = weights[0] if len(weights) else None
    source = sample["net_input"]["src_tokens"]
    shape = (*sample["target"].shape, source.size(1))
    if not isinstance(weights, Tensor) or weights.shape != shape:
        raise OptionError(
            f"{where}: a {type(model).__name__} returns no attention of source words for target words; take a model "
            "with attention, such as lstm_soft"
        )
    return unmoved(model, weights.float(), source)


def unmoved(model: Any, weights: Tensor, source: Tensor) -> Tensor:
    """Moves the columns of stock ``lstm``, which pads its sources on the right, back to those of ``source``.

    ``weights`` is ``[B, T, N]``, or anything else with a column for each source position.
    """
    from fairseq.models.lstm import LSTMEncoder

    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, LSTMEncoder) or not encoder.left_pad:
        return weights
    # fairseq.utils.convert_padding_direction leaves a batch unchanged if it is padded on the right already
    pads = source.eq(encoder.padding_idx)
    shift = (pads.sum(1, keepdim=True) * pads[:, 0].any()).unsqueeze(1)
    columns = (torch.arange(source.size(1), device=source.device) - shift) % source.size(1)
    return weights.gather(2, columns.expand_as(weights))


@torch.no_grad()
def force(
    models: Sequence[Any], sample: Dict[str, Any], names: Sequence[str], where: str
) -> Tuple[Tensor, Dict[str, Tensor]]:
    """Runs one forward pass of every model over a batch with its ``target``.

    Args:
        models: trained models, in evaluation mode
        sample: batch in the form of fairseq's translation dataset
        names: matrices to return, some of :func:`weight_names`
        where: start of error messages

    Returns:
        natural log p(y_t | y_<t, x) ``[B, T]``, for an ensemble the log of the mean probability, and the matrices
        ``[B, T, N]`` in float32, for an ensemble their means

    Raises:
        OptionError: a model returns no attention ``[B, T, N]``
    """
    scores: List[Tensor] = []
    matrices: List[Dict[str, Tensor]] = []
    target, net_input = sample["target"], sample["net_input"]
    for model in models:
        if len(names) > 1:
            output, found = model.forced(net_input["src_tokens"], net_input["prev_output_tokens"], target)
        else:
            output = model(**net_input)
            found = {names[0]: attention(model, output, sample, where)}
        log_probs = model.get_normalized_probs(output, log_probs=True, sample=sample)
        scores.append(log_probs.float().gather(2, target.unsqueeze(2)).squeeze(2))
        matrices.append(found)
    score = torch.stack(scores).logsumexp(0) - math.log(len(models))
    return score, {name: torch.stack([found[name].float() for found in matrices]).mean(0) for name in names}


@contextlib.contextmanager
def noted(decoder: RecurrentDecoder) -> Iterator[Tuple[List[Tensor], List[Tensor]]]:
    """Collects the states that ask the attention, ``[B, T, Ds]`` in parts, and its weights ``[B, T, N]``."""
    states: List[Tensor] = []
    weights: List[Tensor] = []

    def note(query: Tensor, attended: AttentionOutput) -> AttentionOutput:
        states.append(query)
        weights.append(attended.weights)
        return attended

    decoder.intervention = note
    try:
        yield states, weights
    finally:
        decoder.intervention = None


@torch.no_grad()
def forced_scores(loaded: LoadedModels, rows: Sequence[SourceSentence], max_tokens: int = 4000) -> List[Tensor]:
    """log p(y_t | y_<t, x) ``[T]`` of each row, a source with its target; of an ensemble the log of the mean
    probability. Ids may be equal.
    """
    result: List[Tensor] = [torch.empty(0)] * len(rows)
    numbered = [row._replace(id=number) for number, row in enumerate(rows)]
    for part in batches_of(numbered, max_tokens):
        sample = collated(loaded, part)
        scores = _log_probs(loaded.models, sample).cpu()
        for line, place in enumerate(sample["id"].tolist()):
            one = part[place]
            result[one.id] = scores[line, : len(one.target)]  # type: ignore[arg-type]
    return result


def _log_probs(models: Sequence[Any], sample: Dict[str, Any], last: Optional[Tensor] = None) -> Tensor:
    """log p of the targets ``[B, T]``, or with ``last`` ``[B]`` of the targets at these steps alone, ``[B, 1]``."""
    scores, target = [], sample["target"]
    if last is not None:
        target = target.gather(1, last.unsqueeze(1))
    for model in models:
        with contextlib.nullcontext() if last is None else _predicting(model, last):
            log_probs = model.get_normalized_probs(model(**sample["net_input"]), log_probs=True, sample=sample)
        if last is not None and log_probs.size(1) > 1:
            log_probs = log_probs[torch.arange(len(last), device=last.device), last].unsqueeze(1)
        scores.append(log_probs.float().gather(2, target.unsqueeze(2)).squeeze(2))
    return torch.stack(scores).logsumexp(0) - math.log(len(models))


@contextlib.contextmanager
def _predicting(model: Any, last: Tensor) -> Iterator[None]:
    """Within the context a decoder of this package may predict the words of the steps ``last`` ``[B]`` alone; their
    products with the vocabulary are most of the time."""
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, RecurrentDecoder) or decoder.adaptive_softmax is not None:
        yield
        return
    rows, usual = torch.arange(len(last), device=last.device), decoder.words_of

    def words_of(decoded: Decoded, *others: Any) -> Tensor:
        weights, scores = (None if x is None else x[rows, last].unsqueeze(1) for x in decoded[1:3])
        features = decoded.features[rows, last].unsqueeze(1)
        return usual(decoded._replace(features=features, weights=weights, scores=scores), *others)

    decoder.words_of = words_of
    try:
        yield
    finally:
        del decoder.words_of


@contextlib.contextmanager
def embedded(model: Any, change: Change) -> Iterator[None]:
    """Within the context the source embeddings that the encoder of ``model`` looks up are changed.

    ``change`` gets embeddings ``[B, N, E]`` and their words ``[B, N]``, which stock ``lstm`` pads on the right. They
    are those before any scaling, positions, normalisation and dropout. Embeddings that the decoder shares are
    changed in the encoder alone.

    Raises:
        OptionError: the model has no encoder with ``embed_tokens``
    """
    encoder = getattr(model, "encoder", None)
    table = getattr(encoder, "embed_tokens", None)
    if encoder is None or not isinstance(table, torch.nn.Module):
        raise OptionError(
            f"--path: the source embeddings of a {type(model).__name__} cannot be reached, which gradients need; "
            "leave-one-out does without them"
        )
    inside: List[bool] = []
    before = encoder.register_forward_pre_hook(lambda *unused: inside.append(True))
    after = encoder.register_forward_hook(lambda *unused: inside.clear())
    lookup = table.register_forward_hook(lambda module, read, found: change(found, read[0]) if inside else None)
    with before, after, lookup:
        yield


def gradients_times_input(
    loaded: LoadedModels,
    sentences: Sequence[SourceSentence],
    max_tokens: int = 4000,
    change: Optional[Callable[..., Tensor]] = None,
) -> List[Tensor]:
    """sum_d e_jd df_t/de_jd of the source embeddings e_j and every f_t = log p(y_t | y_<t, x).

    A row of a batch is a target word: the gradients of all of them are one backward pass. Its target ends there.

    Args:
        loaded: the models
        sentences: with targets
        max_tokens: subwords in a batch
        change: where the gradients are taken: a function of the embeddings ``[R, N, E]``, their words ``[R, N]``, and
            the sentence of each row as ``of_rows``

    Returns:
        ``[T, N]`` of each sentence, in float32; the sum over the models of an ensemble

    Raises:
        OptionError: a model whose source embeddings cannot be reached
    """
    rows: List[SourceSentence] = []
    owners: List[Tuple[int, int]] = []
    for number, one in enumerate(sentences):
        assert one.target is not None
        for step in range(len(one.target)):
            rows.append(one._replace(id=len(rows), target=one.target[: step + 1]))
            owners.append((number, step))
    result = [torch.zeros(len(one.target), len(one.source)) for one in sentences]  # type: ignore[arg-type]
    pads = loaded.task.source_dictionary.pad(), loaded.task.target_dictionary.pad()
    with frozen(loaded.models):
        for part in batches_of(rows, max_tokens):
            sample = collated(loaded, part)
            lines = [owners[part[place].id] for place in sample["id"].tolist()]
            of_rows = [sentences[number] for number, _ in lines]
            at = None if change is None else partial(change, of_rows=of_rows)
            for words, embeddings, found in _differentiate(loaded.models, sample, pads[1], at):
                products, real = (embeddings.float() * found.float()).sum(2).cpu(), words.ne(pads[0]).cpu()
                for line, (number, step) in enumerate(lines):
                    result[number][step] += products[line][real[line]]
    return result


def _differentiate(
    models: Sequence[Any], sample: Dict[str, Any], pad: int, change: Optional[Change]
) -> List[Tuple[Tensor, Tensor, Tensor]]:
    """For each model its source words ``[R, N]``, their embeddings, and the gradients of the last target words."""
    before: List[Tuple[Tensor, Tensor]] = []
    at: List[Tensor] = []

    def look(embeddings: Tensor, words: Tensor) -> Tensor:
        embeddings = embeddings.detach()
        before.append((words, embeddings))
        at.append((embeddings if change is None else change(embeddings, words)).detach().requires_grad_())
        return at[-1]

    last = sample["target"].ne(pad).sum(1) - 1
    # cuDNN has no backward pass of recurrent networks in evaluation
    with contextlib.ExitStack() as stack, torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for model in models:
            stack.enter_context(embedded(model, look))
        gradients = torch.autograd.grad(_log_probs(models, sample, last).sum(), at)
    return [(*looked, found) for looked, found in zip(before, gradients)]


@contextlib.contextmanager
def frozen(models: Sequence[Any]) -> Iterator[None]:
    """Parameters need no gradients meanwhile."""
    trained = [parameter for model in models for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
