"""Compares outputs with the reference: scores of each sentence, and the words that differ.

A word of an output is marked unless difflib's ``SequenceMatcher`` matches it with a word of the reference. Between two
matches stand the other words of the output, or, if there are none, the missing words of the reference."""

import functools
from difflib import SequenceMatcher
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.outputs.reading import check_lengths
from fairseq_attn_plugin.analysis.outputs.significance import LOWER_IS_BETTER, metrics
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.reading import as_typed

SORTS = ("order", "worst", "best", "difference")
METRICS = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}  # names of scores, and those of sacrebleu
LOWER = tuple(name for name, metric in METRICS.items() if metric in LOWER_IS_BETTER)
TOKENIZERS = ("none", "13a", "intl", "zh", "char")


class Span(NamedTuple):
    """Adjacent words of one kind: ``same`` as in the reference, ``other``, or ``missing`` words of the reference."""

    kind: str
    words: List[str]


class Output(NamedTuple):
    """The translation of a sentence by one system; scores of sacrebleu are in per cent."""

    label: str
    spans: List[Span]
    scores: Dict[str, float]


class Sentence(NamedTuple):
    number: int  # in the corpus, from 0
    source: Optional[str]
    reference: List[Tuple[str, bool]]  # its words, and whether any output has them
    outputs: List[Output]


class Comparison(NamedTuple):
    sentences: List[Sentence]
    total: int  # sentences of the corpus
    corpus: Dict[str, Dict[str, float]]  # scores of the whole corpus, {label: {metric: score}}
    signatures: Dict[str, str]  # {metric: sacrebleu's signature}


def compare(
    systems: Mapping[str, Sequence[str]],
    reference: Sequence[str],
    source: Optional[Sequence[str]] = None,
    sort: str = "order",
    metric: str = "bleu",
    sentences: Optional[Sequence[int]] = None,
    first: int = 0,
    tokenize: str = "none",
) -> Comparison:
    """The chosen sentences, with the output of each system. Words are shown without the escapes of Moses' tokeniser;
    scores are those of the lines as they are.

    Args:
        systems: the outputs, {label: lines}
        reference: a line for each sentence
        source: a line for each sentence
        sort: ``order`` of the corpus (or of ``sentences``); ``worst`` or ``best`` mean score of the systems first;
            the greatest ``difference`` of scores first
        metric: the score to sort by, ``bleu``, ``chrf`` or ``ter``
        sentences: numbers of the sentences to show, from 0 (default: all)
        first: greatest number of sentences after sorting; 0 for all
        tokenize: sacrebleu's tokenizer, for BLEU and for the marks

    Raises:
        OptionError: the texts differ in length or are empty, or one of ``sentences`` does not exist
    """
    check_lengths({"reference": reference, **({} if source is None else {"source": source}), **systems})
    if not reference:
        raise OptionError("--reference: has no sentences")
    for number in sentences or ():
        if number >= len(reference):
            raise OptionError(f"--sentences {number}: there are {len(reference)} sentences, counted from 0")
    of_sentence, whole = metrics(tokenize, of_sentences=True), metrics(tokenize)

    @functools.lru_cache(maxsize=None)
    def scores(number: int) -> List[Dict[str, float]]:
        """The scores of all systems in a sentence."""
        pairs = [(lines[number], [reference[number]]) for lines in systems.values()]
        return [{name: of_sentence[of].sentence_score(*pair).score for name, of in METRICS.items()} for pair in pairs]

    def key(number: int) -> float:
        values = [one[metric] for one in scores(number)]
        if sort == "difference":
            return min(values) - max(values)
        return sum(values) / len(values) * (-1 if (sort == "best") != (metric in LOWER) else 1)

    bleu = of_sentence["BLEU"]

    def split(line: str) -> List[str]:
        line = as_typed(line)
        return (line if tokenize == "none" else bleu.tokenizer(line)).split()

    def compared(number: int) -> Sentence:
        """A sentence with the spans of all outputs."""
        words = split(reference[number])
        found = [False] * len(words)
        outputs = []
        for (label, lines), values in zip(systems.items(), scores(number)):
            output = split(lines[number])
            spans = []
            for kind, start, end, first, last in SequenceMatcher(None, output, words, autojunk=False).get_opcodes():
                if kind == "equal":
                    found[first:last] = [True] * (last - first)
                named = {"equal": "same", "insert": "missing"}.get(kind, "other")
                spans.append(Span(named, words[first:last] if named == "missing" else output[start:end]))
            outputs.append(Output(label, spans, values))
        return Sentence(number, None if source is None else as_typed(source[number]), list(zip(words, found)), outputs)

    order = list(range(len(reference)) if sentences is None else sentences)
    if sort != "order":
        order = sorted(tqdm(order, desc="scores", unit=" sentences", disable=None, leave=False), key=key)
    corpus = {
        label: {name: whole[of].corpus_score(list(lines), [list(reference)]).score for name, of in METRICS.items()}
        for label, lines in systems.items()
    }
    signatures = {name: str(whole[of].get_signature()) for name, of in METRICS.items()}
    shown = tqdm(order[: first or None], desc="differences", unit=" sentences", disable=None, leave=False)
    return Comparison(list(map(compared, shown)), len(reference), corpus, signatures)


TITLES = {"other": "not in the reference", "missing": "only in the reference"}


def signatures_of(comparison: Comparison) -> List[str]:
    """Of sacrebleu's metrics, a line each."""
    return [f"{METRICS[name]}: {signature}" for name, signature in comparison.signatures.items()]


def score_rows(comparison: Comparison) -> List[List[str]]:
    """The name and the scores of each system."""
    corpus = comparison.corpus.items()
    return [[label, *(f"{scores[name]:.2f}" for name in METRICS)] for label, scores in corpus]


def as_html(comparison: Comparison) -> str:
    """A page with sentences that the reader can search and sort."""
    count, several = len(comparison.sentences), len(comparison.corpus) > 1
    orders = {"order": "As given", "worst": "Worst first", "best": "Best first", "difference": "Most different first"}
    return frame.page(
        "compare.html",
        "Outputs compared",
        style=frame.read_asset("compare.css"),
        script=frame.read_asset("compare.js"),
        score_rows=score_rows(comparison),
        signatures=signatures_of(comparison),
        orders=[(name, text) for name, text in orders.items() if several or name != "difference"],
        metrics=METRICS,
        lower_places=[place for place, name in enumerate(METRICS) if name in LOWER],
        titles=TITLES,
        shown=f"{count} of {comparison.total}" if count < comparison.total else f"{count}",
        sentences=comparison.sentences,
        values=_values,
        is_best=_is_best,
    )


def _values(sentence: Sentence, metric: str) -> str:
    """The scores of all outputs, by which the page's script sorts."""
    return " ".join(f"{output.scores[metric]:.4f}" for output in sentence.outputs)


def _is_best(sentence: Sentence, output: Output, metric: str) -> bool:
    scores = [one.scores[metric] for one in sentence.outputs]
    return len(scores) > 1 and output.scores[metric] == (min if metric in LOWER else max)(scores)


MARKS = "+Words+ are not in the reference; -words- are only in the reference."


def add_sentence(document: Document, sentence: Sentence) -> None:
    """A sentence and its translations, with marks and scores."""

    def marked(span: Span) -> str:
        return {"same": "{}", "other": "+{}+", "missing": "-{}-"}[span.kind].format(" ".join(span.words))

    rows = [["reference", " ".join(word for word, _ in sentence.reference), *[None] * len(METRICS)]]
    if sentence.source is not None:
        rows.insert(0, ["source", sentence.source, *[None] * len(METRICS)])
    for one in sentence.outputs:
        scores = [f"{one.scores[name]:.1f}" for name in METRICS]
        rows.append([one.label, " ".join(map(marked, one.spans)), *scores])
    document.table([f"sentence {sentence.number}", "text", *METRICS.values()], rows)


def add_comparison(document: Document, comparison: Comparison) -> None:
    """The scores of all systems, and the sentences side by side."""
    document.table(["system", *METRICS.values()], score_rows(comparison))
    for signature in signatures_of(comparison):
        document.paragraph(signature)
    document.paragraph(MARKS)
    for sentence in comparison.sentences:
        add_sentence(document, sentence)
