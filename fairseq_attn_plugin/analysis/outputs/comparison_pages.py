"""Writes a comparison of outputs as text or a page."""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping

from fairseq_attn_plugin.analysis.outputs.comparison import LOWER, SHOWN, Comparison, Output, Sentence, Span
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.pages.parts import html_table

TITLES = {"other": "not in the reference", "missing": "only in the reference"}


# --- as text ----------------------------------------------------------------------------------------------------------

# control characters in a file must not control the terminal
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
    """Blocks of lines; words that differ have asterisks (``*word*``), or with ``color`` a colour."""
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
    return ", ".join(f"{SHOWN.get(name, name)} {shown(name, score)}" for name, score in scores.items())


def shown(metric: str, score: float, digits: int = 1) -> str:
    """A score as text. Scores of other programs, such as COMET's, are often between 0 and 1."""
    return f"{score:.{digits if metric in SHOWN else 4}f}"


def _signatures(comparison: Comparison) -> List[str]:
    return [f"{SHOWN[name]}: {signature}" for name, signature in comparison.signatures.items()]


# --- as a page --------------------------------------------------------------------------------------------------------


def as_html(comparison: Comparison, title: str = "Outputs compared") -> str:
    """A page with sentences that the reader can search and sort."""
    count, several = len(comparison.sentences), len(comparison.corpus) > 1
    orders = {"order": "As given", "worst": "Worst first", "best": "Best first", "difference": "Most different first"}
    names = comparison.names
    rows = [[label, *(shown(name, scores[name], 2) for name in names)] for label, scores in comparison.corpus.items()]
    return frame.page(
        "compare.html",
        title,
        style=frame.read_asset("compare.css"),
        script=frame.read_asset("compare.js"),
        score_table=html_table(["System", *names.values()], rows),
        signatures=_signatures(comparison),
        orders=[(name, text) for name, text in orders.items() if several or name != "difference"],
        metrics=names,
        lower_places=[place for place, name in enumerate(names) if name in LOWER],
        shown_score=shown,
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


WRITERS: Dict[str, Callable[[Comparison], str]] = {".html": as_html, ".txt": as_text}
