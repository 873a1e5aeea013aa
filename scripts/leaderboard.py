#!/usr/bin/env python3
"""The page of a leaderboard: for each corpus and direction a table over seeds, and tests against a
baseline.

    python scripts/leaderboard.py benchmarks/results/multi30k-de-en-epoch3.jsonl --baseline lstm_soft --out report

RESULTS is a file .jsonl with a line for each finished run, as those of benchmarks/results, or a folder with a
JSON file for each. It makes no use of models.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.outputs.significance import Score, score_seeds
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.analysis.report.systems import spread
from fairseq_attn_plugin.errors import OptionError, install_hook
from fairseq_attn_plugin.writing import make_folder, whole_text

# a table compares with the first of these that it has, or with its first system
BASELINES = ("lstm_soft", "small-soft")
NUMBERS = ("parameters", "best_updates", "valid_perplexity", "entropy")


class Run(NamedTuple):
    """One training."""

    path: Path
    system: str
    seed: int
    content: Dict[str, Any]
    statistics: List[List[int]]  # for each sentence: words of translation and reference, and four matches

    def number(self, *keys: str) -> Optional[float]:
        """The number at ``content[key][key]...``, or None."""
        value: Any = self.content
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return float(value) if isinstance(value, (int, float)) else None


class Table(NamedTuple):
    """The runs of one folder or file: the same corpus, direction and subwords."""

    name: str
    systems: Dict[str, List[Run]]
    baseline: str


def read_tables(folder: Path, names: Optional[Sequence[str]] = None, baseline: Optional[str] = None) -> List[Table]:
    """All runs below a folder, a table for each folder with runs, or the runs of one file.

    Args:
        folder: of the results, a JSON file for each run; or a file ``.jsonl``, a line for each run
        names: of the systems to show (default: all); a table without any of them is left out
        baseline: system that the others are compared with, in all tables that have it

    Raises:
        OptionError: there are no runs, a file is damaged, the runs of a folder are not of the same test set, or no
            table has the baseline
    """
    found: Dict[str, List[Run]] = {}
    for path, content in _contents(folder):
        run = _run(path, content)
        if run is not None and (names is None or run.system in names):
            found.setdefault(path.relative_to(folder).parent.as_posix(), []).append(run)
    if not found:
        raise OptionError(f"{folder}: has no results of a leaderboard")
    if baseline is not None and not any(run.system == baseline for runs in found.values() for run in runs):
        known = sorted({run.system for runs in found.values() for run in runs})
        raise OptionError(f"--baseline {baseline}: must be one of {', '.join(known)}")
    return [_table(name, runs, names, baseline) for name, runs in found.items()]


def _table(name: str, runs: List[Run], names: Optional[Sequence[str]], baseline: Optional[str]) -> Table:
    first = runs[0]
    for run in runs:
        if len(run.statistics) != len(first.statistics) or run.content["split"] != first.content["split"]:
            raise OptionError(f"{run.path}: is not of the same sentences as {first.path}; keep them in two folders")
    systems: Dict[str, List[Run]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        systems.setdefault(run.system, []).append(run)
    chosen = [one for one in (baseline, *BASELINES) if one in systems]
    base = chosen[0] if chosen else next(iter(systems))
    order = list(names) if names is not None else [base, *sorted(set(systems) - {base})]
    title = "" if name == "." else name
    return Table(
        title or f"{first.content['dataset']} {first.content['pair']}",
        {n: systems[n] for n in order if n in systems},
        base,
    )


def _contents(folder: Path) -> Iterator[Tuple[Path, Any]]:
    """The JSON files of a folder, or the lines of a file."""
    in_lines = folder.suffix == ".jsonl" and folder.is_file()
    if not in_lines and not folder.is_dir():
        raise OptionError(f"{folder}: is not a folder, nor a file .jsonl")
    for path in [folder] if in_lines else sorted(folder.rglob("*.json")):
        try:
            text = path.read_text(encoding="utf-8")
            contents = [json.loads(one) for one in (text.splitlines() if in_lines else [text])]
        except (OSError, ValueError) as error:
            raise OptionError(f"{path}: cannot be read: {error}") from None
        yield from ((path / str(number) if in_lines else path, one) for number, one in enumerate(contents, 1))


def _run(path: Path, content: Any) -> Optional[Run]:
    """The run of a file or a line; None for a JSON of another kind."""
    if not isinstance(content, dict) or not {"system", "seed", "statistics"} <= set(content):
        return None
    try:
        lines = [[int(count) for count in line.split()] for line in content["statistics"]["sentences"]]
        run = Run(path, str(content["system"]), int(content["seed"]), content, lines)
        complete = all(run.number(key) is not None for key in NUMBERS) and all(len(line) == 6 for line in lines)
        complete = complete and bool(lines) and run.number("bleu", "tokenized", "score") is not None
        complete = complete and {"split", "dataset", "pair", "command"} <= set(content)
    except (TypeError, ValueError, KeyError, AttributeError):
        complete = False
    if not complete:
        raise OptionError(f"{path}: is not complete; remove it")
    return run


ORDERS = 4  # n-grams of BLEU


def bleu(statistics: np.ndarray) -> float:
    """BLEU of summed statistics: words of the translation, of the reference, and matches and totals of n = 1 to 4.

    Shapes:
        statistics: [2 + 2 * 4]
    """
    from sacrebleu.metrics import BLEU

    counts: List[int] = [int(count) for count in statistics]
    score = BLEU.compute_bleu(counts[2 : 2 + ORDERS], counts[2 + ORDERS :], counts[0], counts[1], smooth_method="exp")
    return float(score.score)


def bleu_statistics(lines: Sequence[Sequence[int]]) -> np.ndarray:
    """[sentences, 2 + 2 * 4], which :func:`bleu` takes the sum of.

    Args:
        lines: for each sentence, words of translation and reference and four matches; a translation of w words has
            max(0, w - n + 1) n-grams
    """
    given = np.asarray(lines, dtype=np.int64).reshape(len(lines), 2 + ORDERS)
    totals = np.maximum(given[:, :1] - np.arange(ORDERS), 0)
    return np.concatenate([given, totals], axis=1)


def holm(p_values: Mapping[str, float]) -> Dict[str, float]:
    """The p-values corrected for their number (Holm 1979): the i-th smallest of m becomes
    max over j <= i of min(1, (m - j + 1) p_j)."""
    corrected: Dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}


score_bleu = partial(score_seeds, score=bleu)


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
    """Writes ``report.md`` and ``report.html``.

    Args:
        folder: folder or file of the results, see :func:`read_tables`
        out: folder to write
        names: of the systems to show, in their order (default: all)
        baseline: system that the others are compared with (default: soft attention)
        samples: of the paired bootstrap; 0: no test
        title: of the page
        command: shown at the end

    Raises:
        OptionError: there are no results, or files cannot be read or written
    """
    tables = read_tables(folder, names, baseline)
    make_folder("--out", out)
    document = Document(title or "Leaderboard")
    errors = _alignment_errors(tables)
    for table in tables:
        _add_table(document, table, errors, samples)
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


def _add_table(document: Document, table: Table, errors: Mapping[str, List[float]], samples: int) -> None:
    document.heading(table.name)
    scores: Dict[str, Score] = {}
    if samples:
        counts = {system: [bleu_statistics(run.statistics) for run in runs] for system, runs in table.systems.items()}
        seeds_of = {system: [run.seed for run in runs] for system, runs in table.systems.items()}
        scores = score_bleu(counts, table.baseline, samples, seeds_of=seeds_of)
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
        document.paragraph(
            f"\u00b1 is half of the 95 % interval of the mean BLEU, p the probability of so large a difference to "
            f"{table.baseline} by chance: paired bootstrap of the sentences, {samples:,} samples, together for all "
            "seeds that both systems have, or for all of each if they have none in common. Holm: p corrected for the "
            f"number of comparisons, {len(scores) - 1}. Without a p: the same translations as the baseline's, or a "
            "BLEU of 0.00."
        )
    first = next(iter(table.systems.values()))[0].content
    for metric, one in (*first["bleu"].items(), ("chrF", first.get("chrf")), ("TER", first.get("ter"))):
        if one:
            document.paragraph(f"{metric}: {one.get('signature')}")
    document.code("\n".join(runs[0].content["command"] for runs in table.systems.values()))


def _mean(column: _Column, runs: Sequence[Run]) -> Optional[str]:
    return spread((column.value(run) for run in runs), column.digits)


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="file .jsonl, or folder of JSON files")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="for report.md and report.html")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="systems to show, in this order (default: all)")
    parser.add_argument("--baseline", metavar="NAME", help="system that the others are compared with")
    parser.add_argument("--samples", type=int, default=1000, help="of the paired bootstrap; 0: no test (default: 1000)")
    parser.add_argument("--title", help="title of the page")
    args = parser.parse_args(argv)
    words = shlex.join(["python", "scripts/leaderboard.py", *(sys.argv[1:] if argv is None else argv)])
    write_leaderboard(args.results, args.out, args.systems, args.baseline, args.samples, args.title, words)
    print(f"{args.out / 'report.md'}, {args.out / 'report.html'}")


if __name__ == "__main__":
    install_hook()
    main()
