"""Whether the attention tells what a model's predictions depend on: of translations, and of classes of documents.

For every target word, all of them forced: how the attention ranks the source words, beside what other methods say
(:mod:`.attributions`); what happens to p(y_t) when the words most attended to are taken out of the source, or all
others are; and how other weights change the prediction. Only the context of step t is then another one, the state s_t
and all steps before stay:

    p(y_t; a) = the prediction from s_t and sum_j a_j h_j          (of a latent model: from the prior a)

Of a document f = log p(c) of the predicted class c. There are two levels: the words of a sentence (of the document
where the model is flat), which share the word attention, and the sentences of a document, which share the sentence
attention. A value of a sentence is the sum over its words; only leave-one-out takes the whole sentence out.
"""

from collections import defaultdict
from functools import partial
from itertools import combinations, islice
from typing import Any, Callable, DefaultDict, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.attributions import METHODS, erased, source_units
from fairseq_attn_plugin.analysis.inference.batches import batches_of, collated, targeted_blocks
from fairseq_attn_plugin.analysis.inference.classification import Classifier, DocumentSample, classes_of, is_word
from fairseq_attn_plugin.analysis.inference.extraction import FORCED, Extraction, extract
from fairseq_attn_plugin.analysis.inference.forcing import forced_scores, noted
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.analysis.outputs.confidence import scipy
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.decoder import LSTMDecoder
from fairseq_attn_plugin.modules.document_pooling import AttentionPooling

BLOCK = 40  # sentences in memory at a time, with the gradients of all their target words
DOCUMENTS = 8  # in memory, with an erasure of each of their words


class Measuring(NamedTuple):
    """Options of the measures.

    methods: attributions that the attention is compared with
    top: numbers k of source words that are erased, or left, together
    draws: random sets of k words of each sentence
    permutations: of the weights of each step
    seed: of everything random
    max_tokens: subwords in a batch, padding included
    """

    methods: Tuple[str, ...] = tuple(METHODS)[:2]
    top: Tuple[int, ...] = (1, 3)
    draws: int = 10
    permutations: int = 10
    seed: int = 1
    max_tokens: int = 4000


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

    def as_dict(self) -> Dict[str, float]:
        """All means that are defined."""
        return {name: round(self[name], 5) for name in self.sums if self.counts[name]}


def kendall_tau(a: np.ndarray, b: np.ndarray) -> List[float]:
    """Kendall's tau-b of the rows ``[T, N]``, from -1 to 1; NaN where all values of a row are equal."""
    return [scipy().stats.kendalltau(one, other).statistic for one, other in zip(a, b)]


def jensen_shannon(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Jensen-Shannon divergence of the rows ``[T, N]``, each divided by its sum, in nats; NaN of a row of zeros."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = scipy().spatial.distance.jensenshannon(a, b, axis=1) ** 2
    return found


def _compare(means: Means, prefix: str, attention: np.ndarray, found: Dict[str, np.ndarray]) -> None:
    """Adds tau and divergence of attention ``[T, U]`` and the absolute values of the attributions of a sentence."""
    sizes = {name: np.abs(values) for name, values in found.items()}
    for name, values in sizes.items():
        means.add(f"{prefix}tau {name}", kendall_tau(attention, values))
        means.add(f"{prefix}jsd {name}", jensen_shannon(attention, values))
    for one, other in combinations(sizes, 2):
        means.add(f"{prefix}tau {one} / {other}", kendall_tau(sizes[one], sizes[other]))


def _erasures(
    weights: np.ndarray, options: Measuring, numbers: np.random.Generator
) -> Iterator[Tuple[str, int, FrozenSet[int]]]:
    """The units to erase by attention ``[T, U]``: the name of a measure, the target word (-1: all), the units.

    Comprehensiveness and sufficiency are those of DeYoung et al. 2020, "ERASER". There are none of k units or fewer.
    """
    size = weights.shape[1]
    every = frozenset(range(size))
    for k in (k for k in options.top if k < size):
        order = np.argsort(-weights, axis=1, kind="stable")[:, :k]
        sets = [("", step, frozenset(best.tolist())) for step, best in enumerate(order)]
        draws = [numbers.choice(size, k, replace=False).tolist() for _ in range(options.draws)]
        sets += [(" random", -1, frozenset(drawn)) for drawn in draws]
        for suffix, step, kept in sets:
            yield f"comprehensiveness {k}{suffix}", step, kept
            yield f"sufficiency {k}{suffix}", step, every - kept


def uniform(weights: Tensor, real: Tensor) -> Tensor:
    """Equal weights of the same sum, ``[..., N]``; ``real`` is True on words."""
    shares = real.to(weights.dtype)
    return weights.sum(-1, keepdim=True) * shares / shares.sum(-1, keepdim=True)


def permuted(weights: Tensor, real: Tensor, generator: torch.Generator) -> Tensor:
    """The weights ``[..., N]`` in another order of the words, drawn anew for each row; ``real`` is True on words."""
    noise = torch.rand(weights.shape, generator=generator).to(weights.device)
    order = noise.masked_fill(~real, 2.0).argsort(-1)  # padding comes last
    places = (~real).to(torch.uint8).argsort(dim=-1, stable=True).expand_as(order)
    return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, order))


def variation(p: Tensor, q: Tensor) -> Tensor:
    """Total variation sum_v |p_v - q_v| / 2, ``[..., V]`` to ``[...]``."""
    return (p - q).abs().sum(-1) / 2


def faithfulness(
    loaded: LoadedModels, sentences: Any, options: Measuring, extraction: Extraction = FORCED
) -> Iterator[Tuple[int, Means]]:
    """Measures a corpus as of :func:`.extraction.extract`, ``BLOCK`` sentences at a time.

    Returns:
        after each block the number of its sentences and the means so far, always the same object, by name:

        - ``probability``: p(y_t | x); its count is the number of target words
        - ``tau M``, ``jsd M``: Kendall's tau-b and Jensen-Shannon divergence of attention and method M
        - ``tau M / M'``: of two methods
        - ``comprehensiveness k``, ``sufficiency k`` and both with ``random``: p(y_t | x) - p(y_t | x without the k
          words, or with them alone)
        - ``variation permuted``, ``variation uniform``: total variation of p(y_t; a) and p(y_t); ``other word ...``:
          share of target words whose most probable word changes

        The last two need a single model of this package.

    Raises:
        OptionError: a model whose source embeddings cannot be reached, or as :func:`.extraction.extract`
    """
    means, generator = Means(), torch.Generator().manual_seed(options.seed)
    numbers = np.random.default_rng(options.seed)
    for ready in targeted_blocks(loaded, sentences, extraction, BLOCK):
        records = list(extract(loaded, lambda start, ready=ready: iter(ready), extraction._replace(beam=None)))
        units = [source_units(loaded, one) for one in ready]
        attention = [_of_units(record.attention, groups) for record, groups in zip(records, units)]
        before = [scores.exp().numpy() for scores in forced_scores(loaded, ready, options.max_tokens)]
        found = {name: METHODS[name](loaded, ready, options.max_tokens) for name in options.methods}
        for number, groups in enumerate(units):
            means.add("probability", before[number])
            values = {name: _of_units(of_all[number].numpy(), groups) for name, of_all in found.items()}
            _compare(means, "", attention[number], values)
        _erase(means, loaded, ready, units, attention, before, options, numbers)
        if len(loaded.models) == 1 and can_reweigh(loaded.models[0]):
            _reweigh(means, loaded, ready, options, generator)
        yield len(ready), means


def _of_units(values: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Sums over the positions of each unit, ``[T, N]`` to ``[T, U]``."""
    return np.stack([values[:, list(group)].sum(1) for group in groups], axis=1)


def _erase(
    means: Means,
    loaded: LoadedModels,
    sentences: Sequence[SourceSentence],
    units: Sequence[List[List[int]]],
    attention: Sequence[np.ndarray],
    before: Sequence[np.ndarray],
    options: Measuring,
    numbers: np.random.Generator,
) -> None:
    """Adds comprehensiveness and sufficiency; sets of words that several target words share are erased once."""
    rows: List[SourceSentence] = []
    chosen: List[Tuple[str, int, int, int]] = []  # name, sentence, target word (-1: all), row
    for number, (one, groups, weights) in enumerate(zip(sentences, units, attention)):
        places: Dict[FrozenSet[int], int] = {}
        for name, step, gone in _erasures(weights, options, numbers):
            if gone not in places:
                places[gone] = len(rows)
                positions = [place for unit in gone for place in groups[unit]]
                rows.append(one._replace(source=erased(loaded, one.source, positions)))
            chosen.append((name, number, step, places[gone]))
    scores = forced_scores(loaded, rows, options.max_tokens)
    for name, number, step, row in chosen:
        change = before[number] - np.exp(scores[row].numpy())
        means.add(name, change if step < 0 else change[step])


def can_reweigh(model: Any) -> bool:
    """Whether a model has an attention, and p(y_t; a) of its own weights is its prediction."""
    decoder = getattr(model, "decoder", None)
    return isinstance(decoder, LSTMDecoder) and decoder.predicts_stepwise and decoder.attention is not None


@torch.no_grad()
def ask(model: Any, sample: Dict[str, Any]) -> Tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Forces the target of a batch: the weights ``[B, T, N]``, and a function from any weights a to p(y_t; a)."""
    net_input, decoder = sample["net_input"], model.decoder
    encoder_out = model.encoder(net_input["src_tokens"], src_lengths=net_input["src_lengths"])
    with noted(decoder) as (states, weights):
        decoder(net_input["prev_output_tokens"], encoder_out=encoder_out)
    hidden = torch.cat(states, 1)

    @torch.no_grad()
    def predict(weights: Tensor) -> Tensor:
        output = decoder.predict_with(hidden, weights, encoder_out)
        found: Tensor = model.get_normalized_probs((output, {}), log_probs=False, sample=sample)
        return found

    return torch.cat(weights, 1), predict


def _reweigh(
    means: Means,
    loaded: LoadedModels,
    sentences: Sequence[SourceSentence],
    options: Measuring,
    generator: torch.Generator,
) -> None:
    """Adds what equal and permuted weights change."""
    for batch in batches_of(sentences, options.max_tokens // 4):
        sample = collated(loaded, batch)
        real = sample["net_input"]["src_tokens"].ne(loaded.task.source_dictionary.pad()).unsqueeze(1)
        words = sample["target"].ne(loaded.task.target_dictionary.pad())
        weights, predict = ask(loaded.models[0], sample)
        before = predict(weights)
        for name, way in _ways(options, generator):
            changed = predict(way(weights, real))
            means.add(f"variation {name}", variation(changed, before)[words].cpu())
            means.add(f"other word {name}", changed.argmax(-1).ne(before.argmax(-1))[words].cpu())


def _ways(options: Measuring, generator: torch.Generator) -> List[Tuple[str, Callable[[Tensor, Tensor], Tensor]]]:
    """The other weights that are tried: functions of a model's own, and of what is real."""
    return [("uniform", uniform), *[("permuted", partial(permuted, generator=generator))] * options.permutations]


# --- documents


class _Level(NamedTuple):
    """Units that share one attention: the words of a sentence, or the sentences of a document."""

    name: str  # "words" or "sentences"
    units: List[List[int]]  # positions of each
    weights: np.ndarray  # [U]


def document_faithfulness(
    classifier: Classifier, samples: Iterable[DocumentSample], options: Measuring
) -> Iterator[Tuple[int, Means]]:
    """Measures documents block by block.

    Returns:
        after each block its number of documents and the means so far, by the names of :func:`faithfulness` with the
        level, ``words`` or ``sentences``, in front; a mean is over the sentences of all documents, and over documents.
        ``variation`` replaces all weights of the level at once

    Raises:
        OptionError: a model that takes means instead of attention, or the method ``saliency``
    """
    if "saliency" in options.methods:
        raise OptionError("--attribution saliency: is not for documents; leave it out")
    if not isinstance(classifier.model.words.pooling, AttentionPooling):
        raise OptionError(f"--path {classifier.path}: takes means and has no attention; take han or han_flat")
    means, generator = Means(), torch.Generator().manual_seed(options.seed)
    numbers, reading = np.random.default_rng(options.seed), iter(samples)
    while read := list(islice(reading, DOCUMENTS)):
        documents = [one.tokens for one in read if one.sentences]
        if documents:
            log_probs, attention = classes_of(classifier, documents)
            means.add("probability", log_probs.exp().amax(1))
            levels = [_levels_of(classifier, one, row) for one, row in zip(documents, attention)]
            for one, own, parts in zip(documents, log_probs, levels):
                values = _document_values(classifier, one, own, parts, options)
                for number, level in enumerate(parts):
                    if len(level.units) > 1:
                        named = {name: of_levels[number][None] for name, of_levels in values.items()}
                        _compare(means, f"{level.name} ", level.weights[None], named)
            _erase_words(means, classifier, documents, log_probs, levels, options, numbers)
            _reweigh_levels(means, classifier, documents, log_probs.exp(), options, generator)
        yield len(read), means


def _many_scores(classifier: Classifier, rows: Sequence[Tensor], max_tokens: int) -> Tensor:
    """log p ``[R, C]`` of any number of rows, in batches of about ``max_tokens`` words."""
    result = torch.empty(len(rows), len(classifier.labels))
    for part in batches_of(range(len(rows)), max_tokens, length=lambda number: len(rows[number])):
        result[part] = classes_of(classifier, [rows[number] for number in part])[0]
    return result


def _levels_of(classifier: Classifier, tokens: Tensor, attention: Dict[str, Tensor]) -> List[_Level]:
    """All levels of a document; an attention to a single unit is among them."""
    real = is_word(classifier, tokens)
    weights = attention["word_attention"][: len(tokens)].double().numpy()
    if "sentences" not in attention:
        places = real.nonzero().squeeze(1).tolist()
        return [_Level("words", [[place] for place in places], weights[places])]
    numbers = attention["sentences"][: len(tokens)]
    sentences = [(numbers == number).nonzero().squeeze(1).tolist() for number in range(int(numbers.max()) + 1)]
    found = [_Level("words", [[place] for place in places], weights[places]) for places in sentences]
    shares = attention["sentence_attention"][: len(sentences)].double().numpy()
    return [*found, _Level("sentences", sentences, shares)]


def _document_values(
    classifier: Classifier, tokens: Tensor, log_probs: Tensor, levels: List[_Level], options: Measuring
) -> Dict[str, List[np.ndarray]]:
    """By method: the values ``[U]`` of the units of each level for the class of a document."""
    label, found = int(log_probs.argmax()), {}
    for name in options.methods:
        if name == "leave-one-out":
            rows = [erased(classifier, tokens, unit) for level in levels for unit in level.units]
            changes = (log_probs[label] - _many_scores(classifier, rows, options.max_tokens)[:, label]).numpy()
            found[name] = np.split(changes, np.cumsum([len(level.units) for level in levels])[:-1])
        else:
            values = word_gradients(classifier, tokens, label)
            found[name] = [np.array([float(values[unit].sum()) for unit in level.units]) for level in levels]
    return found


def word_gradients(classifier: Classifier, tokens: Tensor, label: int) -> Tensor:
    """sum_d e_jd df/de_jd of each token, ``[N]``; zero for what is no word.

    Every word gets a symbol, and an embedding, of its own.
    """
    model, symbols = classifier.model, classifier.task.source_dictionary
    table, real = model.embed_words.weight.detach(), is_word(classifier, tokens)
    embeddings = table[tokens[real].to(table.device)]
    at = embeddings.clone().requires_grad_()
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


def _erase_words(
    means: Means,
    classifier: Classifier,
    documents: Sequence[Tensor],
    log_probs: Tensor,
    levels: Sequence[List[_Level]],
    options: Measuring,
    numbers: np.random.Generator,
) -> None:
    """Adds comprehensiveness and sufficiency; the units of other levels and sentences stay."""
    rows: List[Tensor] = []
    wanted: List[Tuple[str, int]] = []
    for number, parts in enumerate(levels):
        for level in parts:
            for name, _, gone in _erasures(level.weights[None], options, numbers):
                places = [place for unit in gone for place in level.units[unit]]
                wanted.append((f"{level.name} {name}", number))
                rows.append(erased(classifier, documents[number], places))
    best, classes = log_probs.max(1)
    scores = _many_scores(classifier, rows, options.max_tokens)
    for (name, number), after in zip(wanted, scores):
        means.add(name, float(best[number].exp() - after[classes[number]].exp()))


def _reweigh_levels(
    means: Means,
    classifier: Classifier,
    documents: Sequence[Tensor],
    before: Tensor,
    options: Measuring,
    generator: torch.Generator,
) -> None:
    """Adds what equal and permuted weights of a level change."""
    for level, part in (("words", classifier.model.words), ("sentences", classifier.model.sentences)):
        for name, way in _ways(options, generator) if part is not None else ():
            changed = _with_weights(classifier, part, documents, way).exp()
            means.add(f"{level} variation {name}", variation(changed, before))
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

    with part.pooling.register_forward_hook(replace):
        return classes_of(classifier, documents)[0]
