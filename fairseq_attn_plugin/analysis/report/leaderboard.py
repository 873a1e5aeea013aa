"""The page of a leaderboard: for each corpus and direction a table over seeds, tests against a baseline, and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from fairseq_attn_plugin.analysis.drawing.intervals import Row, draw_intervals
from fairseq_attn_plugin.analysis.outputs.seed_significance import Score, bleu_statistics, holm, score_seeds
from fairseq_attn_plugin.analysis.report.document import Document
from fairseq_attn_plugin.analysis.report.runs import Run, Table, read_tables
from fairseq_attn_plugin.analysis.report.seeds import spread
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_text

__all__ = ["write_leaderboard"]


class _Column(NamedTuple):
    """A column of means over seeds."""

    header: str
    value: Callable[[Run], Optional[float]]
    digits: int


_BEFORE = (
    _Column("parameters", lambda run: run.number("parameters"), 0),
    _Column("updates to the best epoch", lambda run: run.number("best_updates"), 0),
    _Column("perplexity", lambda run: run.number("valid_perplexity"), 2),
    _Column("BLEU", lambda run: run.number("bleu", "tokenized", "score"), 2),
)
# each only where a run has it
_AFTER = (
    _Column("BLEU, detokenised", lambda run: run.number("bleu", "detokenized", "score"), 2),
    _Column("chrF", lambda run: run.number("chrf", "score"), 2),
    _Column("TER", lambda run: run.number("ter", "score"), 2),
    _Column("entropy, nats", lambda run: run.number("entropy"), 2),
    _Column("s for 1,000 updates", lambda run: run.number("cpu_seconds_per_1000_updates"), 0),
    _Column("information", lambda run: run.number("information"), 2),
    _Column("tau, leave-one-out", lambda run: run.number("faithfulness", "tau leave-one-out"), 3),
    _Column("comprehensiveness", lambda run: run.number("faithfulness", "comprehensiveness 1"), 3),
)
NOTE = (
    "Means over the seeds, in brackets their standard deviation. Perplexity: of the validation set, per subword, at "
    "the best epoch. BLEU: of the tokenised text, without further tokenisation; detokenised: with sacreBLEU's "
    "tokeniser. Entropy: of the attention to the references; information: how much a step tells of the position that "
    "it attends to, 0 if all steps attend alike, 1 at most. Seconds: CPU time of fairseq-train, validations included."
)


def write_leaderboard(
    folder: Path,
    out: Path,
    names: Optional[Sequence[str]] = None,
    baseline: Optional[str] = None,
    samples: int = 1000,
    title: Optional[str] = None,
    command: str = "",
) -> Document:
    """Writes ``report.md``, ``report.html`` and their pictures.

    Args:
        folder: folder or file of the results, see :func:`~fairseq_attn_plugin.analysis.report.runs.read_tables`
        out: folder to write
        names: of the systems to show, in their order (default: all)
        baseline: system that the others are compared with (default: soft attention)
        samples: of the paired bootstrap; 0: no test and no picture
        title: of the page
        command: shown at the end

    Raises:
        OptionError: there are no results, or files cannot be read or written
    """
    tables = read_tables(folder, names, baseline)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--out {out}: cannot be created: {error.strerror or error}") from None
    document = Document(title or "Leaderboard")
    errors = _alignment_errors(tables)
    for number, table in enumerate(tables, 1):
        _add_table(document, table, errors, out / f"bleu{number}.png", samples)
    if command:
        document.heading("How this report was made")
        document.code(command)
    for name, text in (("report.md", document.markdown(out)), ("report.html", document.html(out))):
        with whole_text(out / name, f"--out {out}: {name} cannot be written") as stream:
            stream.write(text)
    return document


def _alignment_errors(tables: Sequence[Table]) -> Dict[str, List[float]]:
    """Alignment error rates by system, of the runs whose corpus has gold alignments."""
    found: Dict[str, List[float]] = {}
    for table in tables:
        for system, runs in table.systems.items():
            rates = [rate for run in runs for rate in [run.number("aer")] if rate is not None]
            if rates:
                found.setdefault(system, []).extend(rates)
    return found


def _add_table(
    document: Document, table: Table, errors: Mapping[str, List[float]], picture: Path, samples: int
) -> None:
    document.heading(table.name)
    scores: Dict[str, Score] = {}
    if samples:
        counts = {system: [bleu_statistics(run.statistics) for run in runs] for system, runs in table.systems.items()}
        seeds_of = {system: [run.seed for run in runs] for system, runs in table.systems.items()}
        scores = score_seeds(counts, table.baseline, samples, seeds_of=seeds_of)
    others = {system: score.p_value for system, score in scores.items() if score.p_value is not None}
    corrected = holm(others)
    headers = ["system", "seeds", *(column.header for column in _BEFORE)]
    headers += ["\u00b1", "p", "p, Holm"] if samples else []
    every = [run for runs in table.systems.values() for run in runs]
    after = [one for one in _AFTER if any(one.value(run) is not None for run in every)]
    headers += [column.header for column in after]
    shows_errors = any(system in errors for system in table.systems)
    headers += ["AER, synthetic"] if shows_errors else []
    rows = []
    for system, runs in table.systems.items():
        row: List[object] = [system, len(runs), *(_mean(column, runs) for column in _BEFORE)]
        if samples:
            row.append(scores[system].interval)
            row += [f"{p[system]:.3f}" if system in p else None for p in (others, corrected)]
        row += [_mean(column, runs) for column in after]
        if shows_errors:
            row.append(spread(errors.get(system, []), 3))
        rows.append(row)
    document.table(headers, rows)
    document.paragraph(NOTE)
    if samples:
        _add_test(document, table, scores, picture, samples)
    first = next(iter(table.systems.values()))[0].content
    for metric, one in (*first["bleu"].items(), ("chrF", first.get("chrf")), ("TER", first.get("ter"))):
        if one:
            document.paragraph(f"{metric}: {one.get('signature')}")
    document.code("\n".join(runs[0].content["command"] for runs in table.systems.values()))


def _add_test(document: Document, table: Table, scores: Mapping[str, Score], picture: Path, samples: int) -> None:
    """What the test is, and its picture."""
    document.paragraph(
        f"\u00b1 is half of the 95 % interval of the mean BLEU, p the probability of so large a difference to "
        f"{table.baseline} by chance: paired bootstrap of the sentences, {samples:,} samples, together for all seeds "
        "that both systems have, or for all of each if they have none in common. "
        f"Holm: p corrected for the number of comparisons, {len(scores) - 1}. Without a p: the same translations as "
        "the baseline's, or a BLEU of 0.00."
    )
    rows = [Row(system, score.value, score.interval or 0.0, score.seeds) for system, score in scores.items()]
    rows.sort(key=lambda row: -row.mean)
    document.picture(
        picture,
        "Mean BLEU with its 95 % interval; a diamond is a seed, the line is the baseline.",
        lambda path, theme: draw_intervals(rows, path, "BLEU", scores[table.baseline].value, theme),
    )


def _mean(column: _Column, runs: Sequence[Run]) -> Optional[str]:
    return spread((column.value(run) for run in runs), column.digits)
