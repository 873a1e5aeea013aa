"""Classifies documents with a trained model and returns the attention to words and sentences.

    from fairseq_attn_plugin.analysis.inference.classification import classify, load_classifier, text_samples
    from fairseq_attn_plugin.text.documents import documents_of

    classifier = load_classifier("data", "checkpoint_best.pt")
    for item in classify(classifier, text_samples(classifier, documents_of("reviews.jsonl", labels=False))):
        item.label, item.sentences, item.word_weights, item.sentence_weights

The weights of the words of a sentence sum to one. A flat model has no sentence weights, and its word weights sum to one
over the document.
"""

import math
import os
from dataclasses import dataclass
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from torch import Tensor

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.criterions.document_classification import macro_f1
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.han import HANModel
from fairseq_attn_plugin.patches.trained_models import check_names
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.documents import Document, class_names


class Classifier(NamedTuple):
    """A trained model, its task, and its labels in the order of the classes."""

    model: HANModel
    task: Any
    labels: List[str]
    path: str


class DocumentSample(NamedTuple):
    """A document in the form of the model's input."""

    id: str
    tokens: torch.Tensor  # [N], with </s> after each sentence
    sentences: List[List[str]]  # words; empty sentences are omitted
    gold: Optional[int]  # class of the label, if it is known
    cut: bool = False  # whether it was longer than the model allows


@dataclass(frozen=True)
class Classified:
    """A document with the prediction and the attention of the model."""

    id: str
    label: str
    probability: float
    probabilities: Dict[str, float]
    gold: Optional[str]
    sentences: List[List[str]]
    word_weights: List[List[float]]
    sentence_weights: Optional[List[float]]  # None for a flat model
    cut: bool = False
    unknown: int = 0  # words that the vocabulary lacks


def load_classifier(data: str, path: str, cpu: bool = False, overrides: Optional[Dict[str, Any]] = None) -> Classifier:
    """Loads a checkpoint of ``han``, ``han_flat`` or ``han_mean``.

    ``data`` is the folder whose dictionaries are read; ``overrides`` are options of the model to change.

    Raises:
        OptionError: the model is of another kind or lacks an option of ``overrides``, or the folder has other labels
            than the training
    """
    settings = {"shorten_method": "truncate", "shorten_data_split_list": "", **(overrides or {}), "data": data}
    models, saved, task = checkpoint_utils.load_model_ensemble_and_task([path], arg_overrides=settings)
    model = models[0]
    if not isinstance(model, HANModel):
        raise OptionError(
            f"--path {path}: is a {type(model).__name__}; must be a model of documents, such as --arch han"
        )
    check_names(models, saved, overrides or {})
    labels = class_names(task.label_dictionary)
    head = model.classification_heads[task.cfg.classification_head_name]
    if not 0 < len(labels) <= head.out_features:
        raise OptionError(f"{data}: has {len(labels)} labels; {path} was trained with {head.out_features} classes")
    model.eval()
    if torch.cuda.is_available() and not cpu:
        model.cuda()
    return Classifier(model, task, labels, path)


def text_samples(classifier: Classifier, documents: Iterable[Document]) -> Iterator[DocumentSample]:
    """Yields documents, with words and, if known, labels, as samples; one longer than ``--max-positions`` is cut.

    Raises ``OptionError``, which names the line, for a label that the training did not have.
    """
    dictionary, limit = classifier.task.source_dictionary, classifier.task.cfg.max_positions
    for number, document in enumerate(documents):
        if document.label not in (None, *classifier.labels):
            raise OptionError(
                f"--input, line {document.line}: the label {document.label!r} is unknown to {classifier.path}; must be "
                f"one of {', '.join(classifier.labels[:20])}, or left out"
            )
        symbols: List[int] = []
        sentences: List[List[str]] = []
        for sentence in document.sentences:
            if len(symbols) < limit:
                sentences.append(sentence[: limit - len(symbols)])
            symbols += [*map(dictionary.index, sentence), dictionary.eos()]
        tokens = torch.tensor(symbols[:limit] or [dictionary.eos()])
        gold = None if document.label is None else classifier.labels.index(document.label)
        yield DocumentSample(document.id or str(number), tokens, sentences, gold, cut=len(symbols) > limit)


def split_samples(classifier: Classifier, split: str) -> Iterator[DocumentSample]:
    """Yields the documents of a binarised split as samples, in the order of its text; see :func:`text_samples`.

    A word that the vocabulary lacks is ``<unk>``. Raises ``OptionError`` as the task does.
    """
    task = classifier.task
    dictionary = task.source_dictionary
    task.load_dataset(split)
    dataset = task.dataset(split)
    documents = data_utils.load_indexed_dataset(os.path.join(task.cfg.data, "input0", split), dictionary)
    sizes, limit = documents.sizes + (task.cfg.init_token is not None), task.cfg.max_positions
    for number in range(len(dataset)):
        item = dataset[number]
        tokens = item["net_input.src_tokens"]
        sentences: List[List[str]] = [[]]
        for symbol in tokens.tolist():
            if symbol == dictionary.eos():
                sentences.append([])
            elif symbol not in (dictionary.bos(), dictionary.pad()):
                sentences[-1].append(dictionary[symbol])
        gold = int(item["target"]) if "target" in item else None
        sentences = [sentence for sentence in sentences if sentence]
        yield DocumentSample(str(number), tokens, sentences, gold, bool(sizes[number] > limit))


def classify(classifier: Classifier, samples: Iterable[DocumentSample], batch_size: int = 32) -> Iterator[Classified]:
    """Yields the prediction and the attention for each document, in order."""
    labels, reading = classifier.labels, iter(samples)
    while batch := list(islice(reading, batch_size)):
        for sample, logs, found in zip(batch, *classes_of(classifier, [sample.tokens for sample in batch])):
            probabilities = {name: float(f"{value:.6g}") for name, value in zip(labels, logs.exp().tolist())}
            best = labels[int(logs.argmax())]
            # weights of the words in order
            words = found["word_attention"][: len(sample.tokens)].float()
            weights = iter(words[is_word(classifier, sample.tokens)].tolist())
            shares = None
            if "sentence_attention" in found:
                of_sentences = found["sentence_attention"][: len(sample.sentences)].float().tolist()
                shares = [round(weight, 6) for weight in of_sentences]
            yield Classified(
                id=sample.id,
                label=best,
                probability=probabilities[best],
                probabilities=probabilities,
                gold=None if sample.gold is None else labels[sample.gold],
                sentences=sample.sentences,
                word_weights=[[round(next(weights), 6) for _ in sentence] for sentence in sample.sentences],
                sentence_weights=shares,
                cut=sample.cut,
                unknown=int(sample.tokens.eq(classifier.task.source_dictionary.unk()).sum()),
            )


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


def is_word(classifier: Classifier, tokens: Tensor) -> Tensor:
    """Which tokens are words, and not padding or ends of sentences."""
    symbols = classifier.task.source_dictionary
    return tokens.ne(symbols.pad()) & tokens.ne(symbols.eos()) & tokens.ne(symbols.bos())


LEAST = 2.0**-149  # float32's smallest number, for a probability that is below it
MANY_UNKNOWN = 0.2  # a greater share of unknown words suggests a wrong preparation of the text


class ClassificationScores:
    """Counts documents, and right and wrong predictions for those with a known label."""

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)
        self.documents = self.cut = self.words = self.unknown = 0
        self.bits = 0.0
        self.confusion = [[0] * len(labels) for _ in labels]  # [label][prediction]

    def add(self, item: Classified) -> None:
        """Counts one document."""
        self.documents += 1
        self.cut += item.cut
        self.words += sum(map(len, item.sentences))
        self.unknown += item.unknown
        if item.gold is not None:
            self.confusion[self.labels.index(item.gold)][self.labels.index(item.label)] += 1
            self.bits -= math.log2(item.probabilities[item.gold] or LEAST)

    def summary(self) -> Dict[str, Any]:
        """Accuracy and macro-F1 in percent and mean loss in bits, over the documents with a known label."""
        labelled = sum(map(sum, self.confusion))
        result: Dict[str, Any] = {"documents": self.documents, "labelled": labelled, "cut": self.cut}
        result["words"], result["unknown_words"] = self.words, self.unknown
        if labelled:
            hits = [self.confusion[k][k] for k in range(len(self.labels))]
            predictions = [sum(column) for column in zip(*self.confusion)]
            result["accuracy"] = round(100 * sum(hits) / labelled, 4)
            result["macro_f1"] = round(macro_f1(hits, [sum(row) for row in self.confusion], predictions), 4)
            result["loss"] = round(self.bits / labelled, 4)
            result["labels"], result["confusion"] = self.labels, self.confusion
        return result

    def __str__(self) -> str:
        values = self.summary()
        parts = [counted(self.documents, "document")]
        if "accuracy" in values:
            parts.append(
                "accuracy {accuracy:.2f}, macro-F1 {macro_f1:.2f}, loss {loss:.3f} bits".format(**values)
                + (f" (of {values['labelled']})" if values["labelled"] != self.documents else "")
            )
        if self.cut:
            parts.append(f"{self.cut} longer than --max-positions and cut")
        if self.unknown > MANY_UNKNOWN * self.words:
            parts.append(
                f"{100 * self.unknown / self.words:.0f} % of the words unknown: prepare the text as for training "
                "(--lowercase, --tokenize, --separator)"
            )
        return ", ".join(parts)
