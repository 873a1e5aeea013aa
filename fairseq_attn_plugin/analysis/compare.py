"""Outputs of systems side by side: source, reference, scores of each sentence, and the words that differ.

    attn-analysis compare soft=soft/test.out mqt=mqt/test.out --source test.de --reference test.en --sort difference

A word of an output is marked unless it belongs to a longest common subsequence of output and reference; words of the
reference that nothing stands in the place of are named as missing.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin._writing import check_not_lost, whole_text
from fairseq_attn_plugin.errors import OptionError

from . import _html
from ._sentences import add_sentence_options, sentence_numbers
from .outputs import check_lengths, check_tokenisation, read_output, read_reference, read_systems, split_label

__all__ = ["Comparison", "Output", "Sentence", "Span", "compare", "configure", "differences", "matches", "run"]

SORTS = ("order", "worst", "best", "difference")
METRICS = ("bleu", "chrf")
NAMES = {"bleu": "BLEU", "chrf": "chrF"}
TITLES = {"other": "not in the reference", "missing": "only in the reference"}
TOKENIZERS = ("none", "13a", "intl", "zh", "char")
FIRST_PRINTED, FIRST_WRITTEN = 10, 200


class Span(NamedTuple):
    """Words of an output: ``same`` as in the reference, ``other``, or those of the reference that are ``missing``."""

    kind: str
    words: List[str]


class Output(NamedTuple):
    """What a system made of a sentence; scores are between 0 and 100."""

    label: str
    spans: List[Span]
    scores: Dict[str, float]


class Sentence(NamedTuple):
    number: int  # in the corpus, from 0
    source: Optional[str]
    reference: List[Tuple[str, bool]]  # its words, and whether any system has them
    outputs: List[Output]


class Comparison(NamedTuple):
    sentences: List[Sentence]
    total: int  # sentences of the corpus
    corpus: Dict[str, Dict[str, float]]  # scores of the whole corpus, {label: {metric: score}}
    signatures: Dict[str, str]  # how they were computed


def matches(left: Sequence[str], right: Sequence[str]) -> List[Tuple[int, int]]:
    """A longest common subsequence: pairs of indices (i, j) with left[i] == right[j], both ascending.

    By the lengths l_ij of the longest one of left[i:] and right[j:]:

        l_ij = 1 + l_i+1,j+1 if left[i] == right[j], else max(l_i+1,j, l_i,j+1)
    """
    rows, columns = len(left), len(right)
    lengths = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        here, below, word = lengths[i], lengths[i + 1], left[i]
        for j in range(columns - 1, -1, -1):
            here[j] = below[j + 1] + 1 if word == right[j] else max(below[j], here[j + 1])
    pairs = []
    i = j = 0
    while i < rows and j < columns:
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def differences(
    output: Sequence[str], reference: Sequence[str], pairs: Optional[Sequence[Tuple[int, int]]] = None
) -> List[Span]:
    """The words of ``output`` in order, with marks; ``pairs`` are those of :func:`matches` if they are known.

    Between two words that are the same there are other words, or, if the output has none there, the missing ones.
    """
    pairs = matches(output, reference) if pairs is None else pairs
    spans: List[Span] = []

    def add(kind: str, words: Sequence[str]) -> None:
        if words and spans and spans[-1].kind == kind:
            spans[-1].words.extend(words)
        elif words:
            spans.append(Span(kind, list(words)))

    before = (-1, -1)
    for i, j in [*pairs, (len(output), len(reference))]:
        others = output[before[0] + 1 : i]
        add("other", others)
        if not others:
            add("missing", reference[before[1] + 1 : j])
        add("same", output[i : i + 1])
        before = (i, j)
    return spans


def _metrics(tokenize: str, lowercase: bool, of_sentences: bool) -> Dict[str, Any]:
    """sacrebleu's metrics; BLEU of a sentence leaves out the orders for which it is too short."""
    from sacrebleu.metrics import BLEU, CHRF

    # a corpus that is tokenised already is what is expected: no warning that it is
    return {
        "bleu": BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=of_sentences, force=True),
        "chrf": CHRF(lowercase=lowercase),
    }


def compare(
    systems: Mapping[str, Sequence[str]],
    reference: Sequence[str],
    source: Optional[Sequence[str]] = None,
    sort: str = "order",
    metric: str = "bleu",
    sentences: Optional[Sequence[int]] = None,
    first: int = 0,
    tokenize: str = "none",
    lowercase: bool = False,
) -> Comparison:
    """The sentences to look at, with what each system made of them.

    Args:
        systems: their outputs, {label: lines}
        reference: a line for each sentence, as many as of every system
        source: likewise
        sort: ``order`` of the corpus (or of ``sentences``); ``worst`` or ``best`` mean score of the systems first;
            the greatest ``difference`` of scores first
        metric: the score to sort by, ``bleu`` or ``chrf``
        sentences: numbers of those to show, from 0; None for all
        first: how many at most, after sorting; 0 for all
        tokenize: sacrebleu's name of how words are told apart, for BLEU and for the marks
        lowercase: capital letters make no difference

    Raises:
        OptionError: files have different numbers of sentences, or none, or there is no sentence of some number
    """
    check_lengths({"reference": reference, **({} if source is None else {"source": source}), **systems})
    if not reference:
        raise OptionError("--reference: has no sentences")
    for number in sentences or ():
        if number >= len(reference):
            raise OptionError(f"--sentences {number}: there are {len(reference)} sentences, counted from 0")
    metrics = _metrics(tokenize, lowercase, of_sentences=True)
    known: Dict[int, List[Dict[str, float]]] = {}

    def scores(number: int) -> List[Dict[str, float]]:
        """Of all systems; a sentence's are computed once."""
        if number not in known:
            known[number] = [
                {name: one.sentence_score(lines[number], [reference[number]]).score for name, one in metrics.items()}
                for lines in systems.values()
            ]
        return known[number]

    def key(number: int) -> float:
        values = [one[metric] for one in scores(number)]
        if sort == "difference":
            return min(values) - max(values)
        return sum(values) / len(values) * (-1 if sort == "best" else 1)

    order = list(range(len(reference)) if sentences is None else sentences)
    if sort != "order":
        order = sorted(tqdm(order, desc="scores", unit=" sentences", disable=None, leave=False), key=key)
    shown = order[:first] if first else order
    split = _splitter(metrics["bleu"], tokenize)
    whole = _metrics(tokenize, lowercase, of_sentences=False)
    corpus = {
        label: {name: one.corpus_score(list(lines), [list(reference)]).score for name, one in whole.items()}
        for label, lines in systems.items()
    }
    return Comparison(
        [
            _sentence(number, source, reference, systems, scores(number), split, lowercase)
            for number in tqdm(shown, desc="differences", unit=" sentences", disable=None, leave=False)
        ],
        len(reference),
        corpus,
        {name: str(one.get_signature()) for name, one in whole.items()},
    )


def _splitter(bleu: Any, tokenize: str) -> Callable[[str], List[str]]:
    return str.split if tokenize == "none" else lambda line: bleu.tokenizer(line).split()


def _sentence(
    number: int,
    source: Optional[Sequence[str]],
    reference: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    scores: Sequence[Dict[str, float]],
    split: Callable[[str], List[str]],
    lowercase: bool,
) -> Sentence:
    words = split(reference[number])
    key = [word.lower() for word in words] if lowercase else words
    found = [False] * len(words)
    outputs = []
    for (label, lines), values in zip(systems.items(), scores):
        output = split(lines[number])
        pairs = matches([word.lower() for word in output] if lowercase else output, key)
        for _, j in pairs:
            found[j] = True
        outputs.append(Output(label, differences(output, words, pairs), values))
    return Sentence(number, None if source is None else source[number], list(zip(words, found)), outputs)


# --- as text ----------------------------------------------------------------------------------------------------------

# what a file says must not steer the terminal that shows it
_CONTROLS = {code: "\ufffd" for code in [*range(32), *range(127, 160)] if chr(code) not in "\t\n"}


def _plain(span: Span) -> str:
    if span.kind == "missing":
        return f"[missing: {' '.join(span.words)}]"
    return " ".join(f"*{word}*" if span.kind == "other" else word for word in span.words)


def _colored(span: Span) -> str:
    text = " ".join(span.words)
    if span.kind == "same":
        return text
    return f"\x1b[1;31m{text}\x1b[0m" if span.kind == "other" else f"\x1b[2;36m[missing: {text}]\x1b[0m"


def as_text(comparison: Comparison, color: bool = False) -> str:
    """Blocks of lines; words that differ are ``*so*``, or in colour where a terminal shows them."""
    show = _colored if color else _plain
    blocks = []
    for sentence in comparison.sentences:
        rows = [] if sentence.source is None else [("source", sentence.source)]
        rows.append(("reference", " ".join(word for word, _ in sentence.reference)))
        rows = [(name, text.translate(_CONTROLS)) for name, text in rows]
        width = max(len(name) for name in ["reference", *comparison.corpus])
        lines = [f"sentence {sentence.number}", *(f"  {name:{width}}  {text}".rstrip() for name, text in rows)]
        for output in sentence.outputs:
            spans = [Span(kind, [word.translate(_CONTROLS) for word in words]) for kind, words in output.spans]
            lines.append(f"  {output.label:{width}}  {' '.join(map(show, spans))}".rstrip())
            lines.append(f"  {'':{width}}  {_scores(output.scores)}")
        blocks.append("\n".join(lines))
    head = [f"{label}: {_scores(scores)}" for label, scores in comparison.corpus.items()]
    return "\n\n".join(["\n".join([*head, *_signatures(comparison)]), *blocks]).strip() + "\n"


def _scores(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{NAMES[name]} {score:.1f}" for name, score in scores.items())


def _signatures(comparison: Comparison) -> List[str]:
    return [f"{NAMES[name]}: {signature}" for name, signature in comparison.signatures.items()]


# --- as Markdown ------------------------------------------------------------------------------------------------------


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|$~&])", r"\\\1", text)


def as_markdown(comparison: Comparison) -> str:
    """A heading and a table for each sentence; words that differ are bold."""

    def show(span: Span) -> str:
        text = " ".join(map(_markdown, span.words))
        return {"same": text, "other": f"**{text}**", "missing": f"*\\[missing: {text}\\]*"}[span.kind]

    lines = ["| system | " + " | ".join(NAMES[name] for name in METRICS) + " |", "| --- |" + " ---: |" * len(METRICS)]
    for label, scores in comparison.corpus.items():
        lines.append(f"| {_markdown(label)} | " + " | ".join(f"{scores[name]:.2f}" for name in METRICS) + " |")
    lines += ["", *(f"`{text}`" + ("  " if number == 0 else "") for number, text in enumerate(_signatures(comparison)))]
    for sentence in comparison.sentences:
        lines += ["", f"### Sentence {sentence.number}", "", "| | | BLEU | chrF |", "| --- | --- | ---: | ---: |"]
        if sentence.source is not None:
            lines.append(f"| source | {_markdown(sentence.source)} | | |")
        lines.append(f"| reference | {_markdown(' '.join(word for word, _ in sentence.reference))} | | |")
        for output in sentence.outputs:
            cells = " | ".join(f"{output.scores[name]:.1f}" for name in METRICS)
            lines.append(f"| {_markdown(output.label)} | {' '.join(map(show, output.spans))} | {cells} |")
    return "\n".join(lines) + "\n"


# --- as a page --------------------------------------------------------------------------------------------------------


def as_html(comparison: Comparison, title: str = "Outputs compared") -> str:
    """A page in which the sentences are searched and sorted."""
    count, several = len(comparison.sentences), len(comparison.corpus) > 1
    shown = f"{count} of {comparison.total}" if count < comparison.total else f"{count}"
    rows = [[label, *(scores[name] for name in METRICS)] for label, scores in comparison.corpus.items()]
    orders = {"order": "As given", "worst": "Worst first", "best": "Best first", "difference": "Most different first"}
    options = "".join(
        f'<option value="{name}">{text}</option>' for name, text in orders.items() if several or name != "difference"
    )
    metrics = "".join(f'<option value="{name}">{NAMES[name]}</option>' for name in METRICS)
    body = [
        '<main class="compare">',
        f"<h1>{_html.escape(title)}</h1>",
        _html.table(["System", *(NAMES[name] for name in METRICS)], rows),
        f'<p class="muted small">{"<br>".join(map(_html.escape, _signatures(comparison)))}</p>',
        '<p class="small"><span class="other">Words</span> that differ from the reference,'
        ' <span class="missing">words</span> that are missing, and'
        ' <span class="unseen">words</span> of the reference that no system has.</p>',
        '<div class="tools" id="tools" hidden>',
        '<input type="search" id="search" placeholder="Search words" aria-label="Search words">',
        f'<label>Sort <select id="sort">{options}</select></label>',
        f'<label>by <select id="metric">{metrics}</select></label>',
        f'<span id="count" class="muted" role="status">{shown} sentences</span>',
        "</div>",
        '<div id="sentences">',
        *(_article(sentence) for sentence in comparison.sentences),
        "</div>",
        "</main>",
    ]
    return _html.page(
        title, "\n".join(body), style=_html.read_asset("compare.css"), script=_html.read_asset("compare.js")
    )


def _article(sentence: Sentence) -> str:
    lines = []
    if sentence.source is not None:
        lines.append(_row("source", "source", _html.escape(sentence.source)))
    words = " ".join(
        _html.escape(word) if found else f'<span class="unseen">{_html.escape(word)}</span>'
        for word, found in sentence.reference
    )
    lines.append(_row("reference", "reference", words))
    best = {name: max((output.scores[name] for output in sentence.outputs), default=0.0) for name in METRICS}
    for output in sentence.outputs:
        text = " ".join(
            _html.escape(" ".join(span.words))
            if span.kind == "same"
            else f'<span class="{span.kind}" title="{TITLES[span.kind]}">{_html.escape(" ".join(span.words))}</span>'
            for span in output.spans
        )
        scores = "".join(
            f'<span class="score{" best" if len(sentence.outputs) > 1 and output.scores[name] == best[name] else ""}"'
            f' title="{NAMES[name]} of the sentence">{output.scores[name]:.1f}</span>'
            for name in METRICS
        )
        lines.append(_row("output", output.label, text, scores))
    values = " ".join(
        f'data-{name}="{" ".join(f"{output.scores[name]:.4f}" for output in sentence.outputs)}"' for name in METRICS
    )
    number = sentence.number
    head = f'<h2><a href="#s{number}">{number}</a></h2><span class="heads"><span>BLEU</span><span>chrF</span></span>'
    return f'<article id="s{number}" {values}><header>{head}</header>{"".join(lines)}</article>'


def _row(kind: str, label: str, text: str, scores: str = "") -> str:
    name = f'<span class="name">{_html.escape(label)}</span>'
    return f'<div class="row {kind}">{name}<p dir="auto">{text}</p><span class="scores">{scores}</span></div>'


# --- the command ------------------------------------------------------------------------------------------------------

WRITERS: Dict[str, Callable[[Comparison], str]] = {".html": as_html, ".md": as_markdown, ".txt": as_text}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "outputs", nargs="+", metavar="[LABEL=]FILE", help="text, output of fairseq-generate, or extracted attention"
    )
    parser.add_argument("--reference", required=True, metavar="FILE", help="reference translations")
    parser.add_argument("--source", metavar="FILE", help="source sentences")
    parser.add_argument("--sort", choices=SORTS, default="order", help="which sentences come first (default: order)")
    parser.add_argument("--metric", choices=METRICS, default="bleu", help="the score to sort by (default: bleu)")
    add_sentence_options(parser, f"{FIRST_PRINTED}, in a file {FIRST_WRITTEN}")
    parser.add_argument("--remove-bpe", action="store_true", help="join subwords to words, in all files that have some")
    parser.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        default="none",
        help="sacrebleu's tokeniser, for BLEU and marks; none: the text is tokenised (default: none)",
    )
    parser.add_argument("--lowercase", action="store_true", help="capital letters make no difference")
    parser.add_argument(
        "--out", metavar="FILE", help=f"a page, Markdown or text ({', '.join(WRITERS)}; default: text, printed)"
    )


def run(args: argparse.Namespace) -> None:
    numbers = sentence_numbers(args.sentences)
    if args.first is not None and args.first < 0:
        raise OptionError(f"--first {args.first}: must be at least 1, or 0 for all sentences")
    suffix = Path(args.out).suffix.lower() if args.out else None
    if suffix is not None and suffix not in WRITERS:
        raise OptionError(f"--out {args.out}: must end in {', '.join(WRITERS)}")
    check_not_lost("--out", args.out, [args.reference, args.source, *(split_label(text)[1] for text in args.outputs)])
    first = args.first
    if first is None:
        first = 0 if numbers is not None else FIRST_PRINTED if suffix is None else FIRST_WRITTEN
    systems = read_systems(args.outputs, args.remove_bpe)
    reference = read_reference(args.reference, args.remove_bpe)
    source = None if args.source is None else read_output(args.source, args.remove_bpe)
    named = {f"--reference {args.reference}": reference, **systems}
    if source is not None:
        check_lengths({f"--source {args.source}": source, **named})
    check_lengths(named)
    check_tokenisation(named)
    comparison = compare(
        systems, reference, source, args.sort, args.metric, numbers, first, args.tokenize, args.lowercase
    )
    if suffix is None:
        sys.stdout.write(as_text(comparison, color=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    else:
        with whole_text(args.out, f"--out {args.out}: cannot be written") as stream:
            stream.write(WRITERS[suffix](comparison))
        print(f"{args.out}: {len(comparison.sentences)} sentences")
    left = comparison.total - len(comparison.sentences)
    if numbers is None and left:
        sys.stderr.write(f"{left} of {comparison.total} sentences are not shown; --first 0 shows all of them\n")
