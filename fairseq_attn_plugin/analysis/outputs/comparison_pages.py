"""A comparison of outputs as text, Markdown or a page."""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Mapping

from fairseq_attn_plugin.analysis.outputs.comparison import METRICS, Comparison, Sentence, Span
from fairseq_attn_plugin.analysis.pages import frame as _html

NAMES = {"bleu": "BLEU", "chrf": "chrF"}
TITLES = {"other": "not in the reference", "missing": "only in the reference"}


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


WRITERS: Dict[str, Callable[[Comparison], str]] = {".html": as_html, ".md": as_markdown, ".txt": as_text}
