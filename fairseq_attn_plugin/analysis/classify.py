"""Classifies documents with a trained model and shows which words and sentences decided.

    attn-analysis classify DATA --path CHECKPOINT --input reviews.jsonl --out classes.jsonl
    attn-analysis classify DATA --path CHECKPOINT --gen-subset test --plot page.html

Each line of the output is a document: the label and its probability, those of all labels, the words and their weights,
and the weights of the sentences. Words are weighed within their sentence (within the document by a flat model, which
has no weights of sentences). Documents are read and written one batch at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, TextIO

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from tqdm import tqdm

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin._writing import check_not_lost, whole_text
from fairseq_attn_plugin.criterions.document_classification import macro_f1
from fairseq_attn_plugin.documents import (
    Document,
    add_reading_options,
    class_names,
    documents_of,
    reading_from,
)
from fairseq_attn_plugin.errors import OptionError, install_hook
from fairseq_attn_plugin.models.han import HANModel

from .document_pictures import check_picture, draw

__all__ = ["Classified", "Classifier", "Scores", "classify", "load_classifier", "main", "split_samples", "text_samples"]


class Classifier(NamedTuple):
    """A trained model, its task, and the labels in the order of its classes."""

    model: HANModel
    task: Any
    labels: List[str]
    path: str


class Sample(NamedTuple):
    """A document as the model reads it."""

    id: str
    tokens: torch.Tensor  # [N], with </s> after every sentence
    sentences: List[List[str]]  # the words, without empty sentences
    gold: Optional[int]  # the class, where the label is known
    cut: bool = False  # whether it was longer than the model takes


MANY_UNKNOWN = 0.2  # of the words: text that was prepared in another way than that of the training


@dataclass(frozen=True)
class Classified:
    """A document with what the model says of it."""

    id: str
    label: str
    probability: float
    probabilities: Dict[str, float]
    gold: Optional[str]
    sentences: List[List[str]]
    word_weights: List[List[float]]
    sentence_weights: Optional[List[float]]  # None by a flat model
    cut: bool = False
    unknown: int = 0  # words that the vocabulary does not have


def load_classifier(data: str, path: str, cpu: bool = False) -> Classifier:
    """Loads a checkpoint of ``han``, ``han_flat`` or ``han_mean`` for a data folder (whose dictionaries are read).

    Raises ``OptionError`` for another kind of model, or a data folder with other labels.
    """
    settings = {"data": data, "shorten_method": "truncate"}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([path], arg_overrides=settings)
    model = models[0]
    if not isinstance(model, HANModel):
        raise OptionError(
            f"--path {path}: is a {type(model).__name__}; must be a model of documents, such as --arch han"
        )
    bos, init = task.source_dictionary.bos(), task.cfg.init_token
    if init not in (None, bos):
        raise OptionError(f"--path {path}: was trained with --init-token {init}; only none and {bos} are no words")
    labels = class_names(task.label_dictionary)
    head = model.classification_heads[task.cfg.classification_head_name]
    if not 0 < len(labels) <= head.out_features:
        raise OptionError(f"{data}: has {len(labels)} labels; {path} was trained with {head.out_features} classes")
    model.eval()
    if torch.cuda.is_available() and not cpu:
        model.cuda()
    return Classifier(model, task, labels, path)


def check_labels(classifier: Classifier, documents: Iterable[Document], path: str) -> None:
    """Raises ``OptionError``, naming file and line, for a label that training does not know."""
    for document in documents:
        if document.label is not None and document.label not in classifier.labels:
            raise OptionError(
                f"{path}, line {document.line}: the label {document.label!r} is unknown to {classifier.path}; must be "
                f"one of {', '.join(classifier.labels[:20])}, or left out"
            )


def text_samples(classifier: Classifier, documents: Iterable[Document], refuse_long: bool = False) -> Iterator[Sample]:
    """Documents in a model's vocabulary; those of more than ``--max-positions`` symbols are cut, or refused.

    Raises ``OptionError`` for a label that training does not know, or a document that is refused.
    """
    dictionary, limit = classifier.task.source_dictionary, classifier.task.cfg.max_positions
    for number, document in enumerate(documents, start=1):
        name = document.id or str(number)
        if document.label is not None and document.label not in classifier.labels:
            raise OptionError(
                f"document {name}: its label {document.label!r} is unknown to {classifier.path}; must be one of "
                f"{', '.join(classifier.labels[:20])}, or left out"
            )
        symbols = [symbol for sentence in document.sentences for symbol in (*map(dictionary.index, sentence), None)]
        cut = len(symbols) > limit
        if cut and refuse_long:
            raise OptionError(
                f"document {name}: has {len(symbols)} words and ends of sentences, more than the {limit} of the "
                "model's --max-positions; leave out --refuse-long to have it cut"
            )
        sentences, left = [], limit
        for sentence in document.sentences:
            if left > 0:
                sentences.append(sentence[:left])
            left -= len(sentence) + 1
        ends = [dictionary.eos() if symbol is None else symbol for symbol in symbols[:limit]]
        gold = None if document.label is None else classifier.labels.index(document.label)
        yield Sample(name, torch.tensor(ends or [dictionary.eos()]), sentences, gold, cut)


def split_samples(classifier: Classifier, split: str, refuse_long: bool = False) -> Iterator[Sample]:
    """The documents of a binarised split, in the order of its text, with the words that the vocabulary has.

    Those of more than ``--max-positions`` symbols are cut, or refused. Raises ``OptionError`` for one that is refused,
    and as the task does.
    """
    task = classifier.task
    dictionary = task.source_dictionary
    task.load_dataset(split)
    dataset = task.dataset(split)
    documents = data_utils.load_indexed_dataset(os.path.join(task.cfg.data, "input0", split), dictionary)
    sizes, limit = documents.sizes + (task.cfg.init_token is not None), task.cfg.max_positions
    if refuse_long and (sizes > limit).any():
        number = int((sizes > limit).argmax())
        raise OptionError(
            f"document {number + 1} of {split}: has {sizes[number]} words and ends of sentences, more than the {limit} "
            "of the model's --max-positions; leave out --refuse-long to have it cut"
        )
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
        yield Sample(str(number + 1), tokens, sentences, gold, bool(sizes[number] > limit))


@torch.no_grad()
def classify(classifier: Classifier, samples: Iterable[Sample], batch_size: int = 32) -> Iterator[Classified]:
    """What the model says of each document, in their order."""
    batch: List[Sample] = []
    for sample in samples:
        batch.append(sample)
        if len(batch) == batch_size:
            yield from _classify(classifier, batch)
            batch = []
    if batch:
        yield from _classify(classifier, batch)


def _classify(classifier: Classifier, batch: List[Sample]) -> Iterator[Classified]:
    model, task, labels = classifier.model, classifier.task, classifier.labels
    device = model.embed_words.weight.device
    tokens = data_utils.collate_tokens([sample.tokens for sample in batch], task.source_dictionary.pad()).to(device)
    logits, attention = model(tokens, classification_head_name=task.cfg.classification_head_name)
    every = logits[:, : len(labels)].float().softmax(-1).cpu()
    word_rows = attention["word_attention"].float().cpu()
    sentence_rows = attention["sentence_attention"].float().cpu() if "sentence_attention" in attention else None
    dictionary = task.source_dictionary
    for row, sample in enumerate(batch):
        best = int(every[row].argmax())
        # in the order of the words; what is no word has no weight
        symbols = tokens[row].cpu()
        real = (symbols != dictionary.pad()) & (symbols != dictionary.eos()) & (symbols != dictionary.bos())
        weights = iter(word_rows[row][real].tolist())
        shares = None
        if sentence_rows is not None:
            shares = [round(weight, 6) for weight in sentence_rows[row, : len(sample.sentences)].tolist()]
        yield Classified(
            id=sample.id,
            label=labels[best],
            probability=round(float(every[row, best]), 6),
            probabilities={name: round(float(p), 6) for name, p in zip(labels, every[row])},
            gold=None if sample.gold is None else labels[sample.gold],
            sentences=sample.sentences,
            word_weights=[[round(next(weights), 6) for _ in sentence] for sentence in sample.sentences],
            sentence_weights=shares,
            cut=sample.cut,
            unknown=int((symbols == dictionary.unk()).sum()),
        )


class Scores:
    """Counts documents and, where the label is known, what became of them."""

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)
        self.documents = self.cut = self.words = self.unknown = 0
        self.bits = 0.0
        self.confusion = [[0] * len(labels) for _ in labels]  # [label][prediction]

    def add(self, item: Classified) -> None:
        self.documents += 1
        self.cut += item.cut
        self.words += sum(map(len, item.sentences))
        self.unknown += item.unknown
        if item.gold is not None:
            self.confusion[self.labels.index(item.gold)][self.labels.index(item.label)] += 1
            self.bits -= math.log2(max(item.probabilities[item.gold], 1e-6))

    def summary(self) -> Dict[str, Any]:
        """Accuracy and macro-F1 in percent and the loss in bits, of the documents whose label is known."""
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
        parts = [f"{self.documents} documents"]
        if "accuracy" in values:
            parts.append(
                "accuracy {accuracy:.2f}, macro-F1 {macro_f1:.2f}, loss {loss:.3f} bits".format(**values)
                + (f" (of {values['labelled']})" if values["labelled"] != self.documents else "")
            )
        if self.cut:
            parts.append(f"{self.cut} longer than --max-positions and cut")
        if self.unknown > MANY_UNKNOWN * self.words:
            parts.append(
                f"{100 * self.unknown / self.words:.0f} % of the words unknown: was the text of the training prepared "
                "in another way (--lowercase, --tokenize, --separator)?"
            )
        return ", ".join(parts)


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", help="folder with input0 and label, of which the dictionaries are read")
    add("--path", required=True, metavar="FILE", help="checkpoint of han, han_flat or han_mean")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", metavar="FILE", help="documents as JSONL or text, labels where they are known")
    source.add_argument("--gen-subset", metavar="SPLIT", help="a binarised split of the data folder")
    add("--out", metavar="FILE", help="JSONL with labels, probabilities and weights (default: standard output)")
    add("--no-weights", action="store_true", help="leave the words and their weights out of --out")
    add("--scores", metavar="FILE", help="JSON with accuracy, macro-F1, loss and confusion matrix")
    add("--plot", action="append", default=[], metavar="FILE", help=".html, .png, .svg or .pdf; may be repeated")
    add("--plot-documents", metavar="N,N", help="numbers of the documents to draw, from 1 (default: the first 5)")
    add(
        "--plot-sentences", type=int, default=0, metavar="N", help="draw the N weightiest sentences only (default: all)"
    )
    add("--batch-size", type=int, default=32, metavar="N", help="documents in a batch (default: 32)")
    add("--refuse-long", action="store_true", help="refuse documents longer than the model takes, instead of cutting")
    add("--cpu", action="store_true", help="do not use a GPU")
    add_reading_options(parser)


def _numbers(text: Optional[str]) -> List[int]:
    if text is None:
        return [1, 2, 3, 4, 5]
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise OptionError(f"--plot-documents {text}: must be numbers from 1 with commas between them, as in 1,7")
    return numbers


@contextlib.contextmanager
def _output(path: Optional[str]) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
    else:
        with whole_text(path, f"--out {path}: cannot be written") as stream:
            yield stream


def run(args: argparse.Namespace) -> None:
    for name, least in (("batch_size", 1), ("plot_sentences", 0)):
        if getattr(args, name) < least:
            raise OptionError(f"--{name.replace('_', '-')} {getattr(args, name)}: must be at least {least}")
    for path in args.plot:
        check_picture(path)
    numbers = _numbers(args.plot_documents)
    reading = reading_from(args)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    outputs = {"--out": args.out, "--scores": args.scores}
    outputs.update({f"--plot {place}" if place else "--plot": path for place, path in enumerate(args.plot)})
    written = [os.path.realpath(path) for path in outputs.values() if path]
    for option, path in outputs.items():
        check_not_lost(option, path, [args.input, args.path])
        if path and not os.path.isdir(os.path.dirname(path) or "."):
            raise OptionError(f"{option} {path}: there is no folder {os.path.dirname(path)}")
        if path and written.count(os.path.realpath(path)) > 1:
            raise OptionError(f"{option} {path}: is named twice; give each output a file of its own")
    if args.input is not None and not os.path.isfile(args.input):
        raise OptionError(f"--input {args.input}: no such file; must hold documents as JSONL or text")
    classifier = load_classifier(args.data, args.path, args.cpu)
    if args.input is not None:
        check_labels(classifier, documents_of(args.input, reading, labels=False), args.input)
        samples = text_samples(classifier, documents_of(args.input, reading, labels=False), args.refuse_long)
    else:
        samples = split_samples(classifier, args.gen_subset, args.refuse_long)
    scores, drawn = Scores(classifier.labels), {}
    with _output(args.out) as stream:
        items = classify(classifier, samples, args.batch_size)
        for number, item in enumerate(tqdm(items, unit=" documents", disable=None, leave=False), start=1):
            scores.add(item)
            stream.write(json.dumps(_line(item, args.no_weights), ensure_ascii=False) + "\n")
            if args.plot and number in numbers:
                drawn[number] = item
    if args.scores:
        with whole_text(args.scores, f"--scores {args.scores}: cannot be written") as stream:
            json.dump({"checkpoint": args.path, **scores.summary()}, stream, indent=1)
            stream.write("\n")
    chosen = [drawn[number] for number in numbers if number in drawn]
    if args.plot and args.plot_documents and len(chosen) < len(numbers):
        message = f"--plot-documents {args.plot_documents}: there are {scores.documents} documents"
        if not chosen:
            raise OptionError(message)
        print(f"{message}; those that there are were drawn", file=sys.stderr)
    for path in args.plot:
        draw(chosen, path, args.plot_sentences)
    print(scores, file=sys.stderr if args.out is None else sys.stdout)


def _line(item: Classified, short: bool) -> Dict[str, Any]:
    values = asdict(item)
    for name in ("sentences", "word_weights", "sentence_weights") if short else ():
        del values[name]
    return {name: value for name, value in values.items() if value is not None}


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_attn_plugin.analysis.classify", description=(__doc__ or "").split("\n")[0]
    )
    configure(parser)
    try:
        run(parser.parse_args(argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader, such as head, has seen enough: no trace, and none from the interpreter's own last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    install_hook()
    main()
