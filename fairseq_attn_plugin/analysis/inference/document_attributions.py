"""How much each word and each sentence of a document matters to its class.

f = log p(c) of a class c. The values are those of :mod:`.attributions`; f has no steps. A value of a sentence is the
sum over its words, except for leave-one-out, which takes the whole sentence out.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.classification import Classifier
from fairseq_attn_plugin.analysis.inference.faithfulness import Measuring

__all__ = ["Level", "classes_of", "document_attributions", "levels_of", "many_scores", "without", "word_gradients"]


class Level(NamedTuple):
    """Units that share one attention: the words of a sentence, or the sentences of a document."""

    name: str  # "words" or "sentences"
    units: List[List[int]]  # positions of each
    weights: np.ndarray  # [U]


@torch.no_grad()
def classes_of(classifier: Classifier, rows: Sequence[Tensor]) -> Tuple[Tensor, List[Dict[str, Tensor]]]:
    """log p of the classes ``[R, C]``, and each row's attention in the columns of its tokens."""
    model, task = classifier.model, classifier.task
    pad, device = task.source_dictionary.pad(), model.embed_words.weight.device
    batch = data_utils.collate_tokens(list(rows), pad).to(device)
    logits, attention = model(batch, classification_head_name=task.cfg.classification_head_name)
    log_probs = logits[:, : len(classifier.labels)].float().log_softmax(-1).cpu()
    found = {name: values.cpu() for name, values in attention.items()}
    return log_probs, [{name: values[number] for name, values in found.items()} for number in range(len(rows))]


def many_scores(classifier: Classifier, rows: Sequence[Tensor], max_tokens: int) -> Tensor:
    """log p ``[R, C]`` of any number of rows, in batches of about ``max_tokens`` words."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    result = torch.empty(len(rows), len(classifier.labels))
    batch: List[int] = []
    for number in order:
        if batch and (len(batch) + 1) * len(rows[number]) > max_tokens:
            result[batch] = classes_of(classifier, [rows[one] for one in batch])[0]
            batch = []
        batch.append(number)
    if batch:
        result[batch] = classes_of(classifier, [rows[one] for one in batch])[0]
    return result


def levels_of(classifier: Classifier, tokens: Tensor, attention: Dict[str, Tensor]) -> List[Level]:
    """All levels of a document; an attention to a single unit is among them."""
    real = _words(classifier, tokens)
    weights = attention["word_attention"][: len(tokens)].double().numpy()
    if "sentences" not in attention:
        places = real.nonzero().squeeze(1).tolist()
        return [Level("words", [[place] for place in places], weights[places])]
    numbers = attention["sentences"][: len(tokens)]
    sentences = [(numbers == number).nonzero().squeeze(1).tolist() for number in range(int(numbers.max()) + 1)]
    found = [Level("words", [[place] for place in places], weights[places]) for places in sentences]
    shares = attention["sentence_attention"][: len(sentences)].double().numpy()
    return [*found, Level("sentences", sentences, shares)]


def _words(classifier: Classifier, tokens: Tensor) -> Tensor:
    """Which tokens are words."""
    symbols = classifier.task.source_dictionary
    return tokens.ne(symbols.pad()) & tokens.ne(symbols.eos()) & tokens.ne(symbols.bos())


def without(classifier: Classifier, tokens: Tensor, places: Sequence[int], how: str) -> Tensor:
    """A document without the words at ``places``; a sentence without words is no sentence."""
    gone = torch.zeros(len(tokens), dtype=torch.bool)
    gone[list(places)] = True
    return tokens.masked_fill(gone, classifier.task.source_dictionary.unk()) if how == "unk" else tokens[~gone]


def document_attributions(
    classifier: Classifier,
    documents: Sequence[Tensor],
    classes: Tensor,
    levels: Sequence[List[Level]],
    log_probs: Tensor,
    options: Measuring,
) -> List[Dict[str, List[np.ndarray]]]:
    """By document and method: the values ``[U]`` of the units of each level."""
    result: List[Dict[str, List[np.ndarray]]] = [{} for _ in documents]
    tried = options.attributing
    if "leave-one-out" in options.methods:
        places = [(d, unit) for d, parts in enumerate(levels) for level in parts for unit in level.units]
        rows = [without(classifier, documents[d], unit, tried.erase) for d, unit in places]
        scores = iter(many_scores(classifier, rows, tried.max_tokens))
        for d, parts in enumerate(levels):
            c = int(classes[d])
            result[d]["leave-one-out"] = [
                np.array([float(log_probs[d, c] - next(scores)[c]) for _ in level.units]) for level in parts
            ]
    nodes, shares = np.polynomial.legendre.leggauss(tried.steps)
    ways = {"gradient": [(1.0, 1.0)], "integrated-gradients": list(zip((nodes + 1) / 2, shares / 2))}
    for name in (name for name in options.methods if name in ways):
        for d, parts in enumerate(levels):
            sums = sum(
                share * word_gradients(classifier, documents[d], int(classes[d]), node) for node, share in ways[name]
            )
            result[d][name] = [np.array([float(sums[unit].sum()) for unit in level.units]) for level in parts]  # type: ignore[index]
    return [{name: found[name] for name in options.methods} for found in result]


def word_gradients(classifier: Classifier, tokens: Tensor, label: int, scale: float = 1.0) -> Tensor:
    """sum_d e_jd df/de_jd (scale e) of each token, ``[N]``; zero for what is no word.

    Every word gets a symbol, and an embedding, of its own.
    """
    model, symbols = classifier.model, classifier.task.source_dictionary
    table, real = model.embed_words.weight.detach(), _words(classifier, tokens)
    embeddings = table[tokens[real].to(table.device)]
    at = (scale * embeddings).requires_grad_()
    renamed = tokens.clone()
    renamed[real] = torch.arange(int(real.sum())) + symbols.nspecial
    # cuDNN has no backward pass of recurrent networks in evaluation
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        logits, _ = torch.func.functional_call(
            model,
            {"embed_words.weight": torch.cat([table[: symbols.nspecial], at])},
            (renamed[None].to(table.device),),
            {"classification_head_name": classifier.task.cfg.classification_head_name},
        )
        score = logits[0, : len(classifier.labels)].float().log_softmax(-1)[label]
        (gradients,) = torch.autograd.grad(score, at)
    return torch.zeros(len(tokens)).masked_scatter(real, (gradients * embeddings).sum(1).float().cpu())
