"""Forces translations of many sources at once: their log probabilities, and gradients of the source embeddings."""

from __future__ import annotations

import contextlib
import math
from itertools import islice
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.extraction import (
    Extraction,
    batches_of,
    collated,
    fits,
    generator_of,
    hypotheses_of,
)
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.errors import OptionError

__all__ = ["BLOCK", "embedded", "forced_blocks", "forced_scores", "frozen", "gradients_times_input", "with_targets"]

BLOCK = 40  # sentences in memory at a time, with the gradients of all their target words
Change = Callable[[Tensor, Tensor], Tensor]
RowChange = Callable[[Tensor, Tensor, Sequence[SourceSentence]], Tensor]


def forced_blocks(
    loaded: LoadedModels, sentences: Any, extraction: Extraction, start: int = 0, block: int = BLOCK
) -> Iterator[List[SourceSentence]]:
    """Yields the sentences of a corpus with the targets to force, ``block`` at a time, from number ``start`` on.

    Those that are longer than a model or its task allows are left out. Raises as :func:`with_targets`.
    """
    reading = sentences(start)
    while True:
        read = list(islice(reading, block))
        if not read:
            return
        fitting = [one for one in read if fits(one, loaded.limits, extraction.beam is None)]
        yield with_targets(loaded, fitting, extraction)


def with_targets(
    loaded: LoadedModels, sentences: Sequence[SourceSentence], extraction: Extraction
) -> List[SourceSentence]:
    """The sentences with the targets to force: their references, or what the models translate with ``beam``.

    A translation longer than the models allow as a target is left out.

    Raises ``OptionError`` if a reference is missing.
    """
    if extraction.beam is None:
        if any(one.target is None for one in sentences):
            raise OptionError("--target-text is missing: give the translations, or --beam for the model's own")
        return list(sentences)
    generator = generator_of(loaded, extraction.beam, extraction.generation)
    found: Dict[int, SourceSentence] = {}
    for batch in batches_of(list(sentences), extraction.max_tokens, extraction.beam):
        found.update((one.id, one) for one in hypotheses_of(loaded, generator, batch, 1))
    return [found[one.id] for one in sentences if fits(found[one.id], loaded.limits, True)]


@torch.no_grad()
def forced_scores(loaded: LoadedModels, rows: Sequence[SourceSentence], max_tokens: int = 4000) -> List[Tensor]:
    """log p(y_t | y_<t, x) ``[T]`` of each row, a source with its target; ids may be equal.

    Args:
        loaded: the models; of an ensemble the log of the mean probability
        rows: of any number, in batches of about ``max_tokens`` subwords
        max_tokens: in a batch
    """
    result: List[Tensor] = [torch.empty(0)] * len(rows)
    numbered = [row._replace(id=number) for number, row in enumerate(rows)]
    for part in batches_of(numbered, max_tokens, 1):
        sample = collated(loaded, part, [one.target for one in part])
        scores = _log_probs(loaded.models, sample).cpu()
        for line, place in enumerate(sample["id"].tolist()):
            one = part[place]
            result[one.id] = scores[line, : len(one.target)]  # type: ignore[arg-type]
    return result


def _log_probs(models: Sequence[Any], sample: Dict[str, Any], last: Optional[Tensor] = None) -> Tensor:
    """log p of the targets ``[B, T]``, or with ``last`` ``[B]`` of the targets at these steps alone, ``[B, 1]``."""
    net_input = {name: value for name, value in sample["net_input"].items() if value is not None}
    scores, target = [], sample["target"]
    if last is not None:
        target = target.gather(1, last.unsqueeze(1))
    for model in models:
        log_probs = model.get_normalized_probs(model(**net_input), log_probs=True, sample=sample)
        if last is not None:
            log_probs = log_probs[torch.arange(len(last), device=last.device), last].unsqueeze(1)
        scores.append(log_probs.float().gather(2, target.unsqueeze(2)).squeeze(2))
    return torch.stack(scores).logsumexp(0) - math.log(len(models))


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
    hooks = [
        encoder.register_forward_pre_hook(lambda *unused: inside.append(True)),
        encoder.register_forward_hook(lambda *unused: inside.clear()),
        table.register_forward_hook(lambda module, read, found: change(found, read[0]) if inside else None),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def gradients_times_input(
    loaded: LoadedModels,
    sentences: Sequence[SourceSentence],
    max_tokens: int = 4000,
    change: Optional[RowChange] = None,
) -> List[Tensor]:
    """sum_d e_jd df_t/de_jd of the source embeddings e_j and every f_t = log p(y_t | y_<t, x).

    A row of a batch is a target word: the gradients of all of them are one backward pass. Its target ends there.

    Args:
        loaded: the models
        sentences: with targets
        max_tokens: in a batch
        change: where the gradients are taken: a function of the embeddings ``[R, N, E]``, their words ``[R, N]`` and
            the sentence of each row

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
    pad = loaded.task.source_dictionary.pad()
    with frozen(loaded.models):
        for part in batches_of(rows, max_tokens, 1):
            sample = collated(loaded, part, [one.target for one in part])
            lines = [owners[part[place].id] for place in sample["id"].tolist()]
            of_rows = [sentences[number] for number, _ in lines]

            def at(embeddings: Tensor, words: Tensor, of_rows: Sequence[SourceSentence] = of_rows) -> Tensor:
                return embeddings if change is None else change(embeddings, words, of_rows)

            for model in _differentiate(loaded.models, sample, at):
                products = (model.embeddings.float() * model.gradients.float()).sum(2).cpu()
                real = model.words.ne(pad).cpu()
                for line, (number, step) in enumerate(lines):
                    result[number][step] += products[line][real[line]]
    return result


class _Looked(NamedTuple):
    """What one model looked up, in its own order of columns."""

    words: Tensor  # [R, N]
    embeddings: Tensor  # [R, N, E], unchanged
    gradients: Tensor  # [R, N, E]


def _differentiate(models: Sequence[Any], sample: Dict[str, Any], change: Change) -> List[_Looked]:
    """Embeddings and gradients of the last target word of each row, for each model."""
    before: List[Tuple[Tensor, Tensor]] = []
    at: List[Tensor] = []

    def look(embeddings: Tensor, words: Tensor) -> Tensor:
        before.append((words, embeddings.detach()))
        at.append(change(embeddings.detach(), words).detach().requires_grad_())
        return at[-1]

    last = sample["target"].ne(models[0].decoder.dictionary.pad()).sum(1) - 1
    # cuDNN has no backward pass of recurrent networks in evaluation
    with contextlib.ExitStack() as stack, torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for model in models:
            stack.enter_context(embedded(model, look))
        gradients = torch.autograd.grad(_log_probs(models, sample, last).sum(), at)
    return [_Looked(*looked, found) for looked, found in zip(before, gradients)]


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
