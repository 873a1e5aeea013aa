"""Rare and frequent words in the outputs of systems: how often they occur, how often they are right, and BLEU.

    attn-analysis frequency --train train.en --reference test.en soft=soft.out mqt=mqt.out --out folder --bootstrap soft

What is counted is defined in :mod:`fairseq_attn_plugin.analysis.word_frequency`; scores are sacrebleu's.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin._writing import check_not_lost, whole_text
from fairseq_attn_plugin.errors import OptionError

from . import outputs
from .alignment import PathLike
from .bars import grouped_bars
from .plot import SUFFIXES, check_drawing
from .significance import Score, score_systems
from .word_frequency import (
    MEASURES,
    Accuracy,
    Bins,
    accuracy,
    count_bins,
    count_words,
    deviation,
    percent_bins,
    shares,
)

__all__ = [
    "Analysis",
    "accuracy_table",
    "analyse",
    "count_training",
    "draw",
    "frequency_table",
    "score_table",
    "tables",
    "to_json",
]

DECILES: Tuple[Tuple[float, float], ...] = tuple((low, low + 10) for low in range(0, 100, 10))
COUNTS = (1, 2, 5, 10, 100, 1000)


@dataclass(frozen=True)
class Analysis:
    """What there is to say about some systems; the bins are those of ``word_frequency``."""

    percents: Bins
    counts: Bins
    rare: Tuple[int, ...]  # indices of the bins of ``percents`` whose mean is Table 4
    words: Dict[str, Tuple[int, int]]  # {text: (words, different words)}, of training, reference and systems
    types: List[int]  # different words of the training text in each bin of ``percents``
    shares: Dict[str, List[float]]  # {text: f of each bin, in percent}
    accuracies: Dict[str, List[Accuracy]]  # {system: of each bin of ``counts``}
    scores: Dict[str, Dict[str, Score]]  # {metric: {system: score}}
    signatures: Dict[str, str]  # {metric: sacrebleu's signature}

    def rare_share(self, name: str) -> float:
        """Mean of f over the rare bins, in percent; ``name`` is one of ``shares``."""
        return sum(self.shares[name][place] for place in self.rare) / len(self.rare)


TRAINING, REFERENCE = "training", "reference"


def count_training(path: PathLike, remove_bpe: bool = False) -> Dict[str, int]:
    """How often each word occurs in a training text, in constant memory but for the words.

    Raises ``OptionError`` if it cannot be read or has no words.
    """
    kind = outputs.subwords_of(outputs.iter_lines(path))[0] if remove_bpe else "none"
    lines = tqdm(outputs.iter_lines(path), desc=str(path), unit=" lines", disable=None, leave=False)
    counts = count_words(lines if kind == "none" else outputs.join_subwords(lines, kind))
    if not counts:
        raise OptionError(f"--train {path}: has no words; it must be the target side of the training text")
    return counts


def analyse(
    training: Mapping[str, int],
    reference: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    edges: Sequence[Tuple[float, float]] = DECILES,
    measure: str = "tokens",
    rare: float = 30,
    lows: Sequence[int] = COUNTS,
    **scoring: Any,
) -> Analysis:
    """Frequencies, accuracies and scores of the systems.

    Args:
        training: counts of the training text's words
        reference: lines of words
        systems: {label: lines of words}, as many as the reference
        edges: bins of percentiles
        measure: what they are percent of, ``tokens`` or ``types``
        rare: the bins up to this percentile are the rare words
        lows: lowest counts of the bins of the accuracy
        scoring: ``baseline``, ``samples``, ``seed``, ``tokenize`` of ``significance.score_systems``

    Raises:
        ValueError: bins that are none
    """
    percents, counts = percent_bins(training, edges, measure), count_bins(training, lows)
    scores, signatures = score_systems(systems, reference, **scoring)
    texts = {REFERENCE: reference, **systems}
    types, total, in_training = [0] * len(percents.names), sum(training.values()), [0] * len(percents.names)
    for word, times in training.items():
        place = percents.of(word)
        if place is not None:
            types[place] += 1
            in_training[place] += times
    words = {TRAINING: (total, len(training))}
    for name, lines in texts.items():
        counted = count_words(lines)
        words[name] = (sum(counted.values()), len(counted))
    return Analysis(
        percents,
        counts,
        tuple(place for place, (_, high) in enumerate(edges) if high <= rare),
        words,
        types,
        {
            TRAINING: [100 * count / total for count in in_training],
            **{name: shares(lines, percents) for name, lines in texts.items()},
        },
        {label: accuracy(lines, reference, counts) for label, lines in systems.items()},
        scores,
        signatures,
    )


def tables(analysis: Analysis) -> str:
    """All tables, as Markdown."""
    parts = ["## Scores", "", _table(*score_table(analysis)), ""]
    parts += [f"{metric}: `{signature}`" for metric, signature in analysis.signatures.items()]
    parts += ["", "## Share of the words by training frequency, in percent, and deviation from the reference", ""]
    parts += [
        _table(*frequency_table(analysis, best="**{}**")),
        "",
        "## Accuracy of target words by training count",
        "",
    ]
    parts += ["F (precision / recall), in percent", "", _table(*accuracy_table(analysis))]
    return "\n".join(parts) + "\n"


Table = Tuple[List[str], List[List[str]]]  # headers and rows


def score_table(analysis: Analysis) -> Table:
    """Scores of the systems, with intervals and p-values where there was a baseline."""
    systems = list(analysis.accuracies)
    tested = any(score.p_value is not None for scores in analysis.scores.values() for score in scores.values())
    header = ["system"]
    for metric in analysis.scores:
        header += [metric, "95 % interval", "p"] if tested else [metric]
    rows = []
    for label in systems:
        row = [label]
        for scores in analysis.scores.values():
            score = scores[label]
            row.append(f"{score.value:.2f}")
            if tested and score.mean is not None and score.interval is not None:
                row.append(f"{score.mean:.2f} +- {score.interval:.2f}")
                row.append("baseline" if score.p_value is None else f"{score.p_value:.4f}")
        rows.append([*row, *(f"{number:,}" for number in analysis.words[label])])
    rows.append([REFERENCE, *[""] * (len(header) - 1), *(f"{number:,}" for number in analysis.words[REFERENCE])])
    return [*header, "words", "different words"], rows


def frequency_table(analysis: Analysis, best: str = "{}") -> Table:
    """Shares by training frequency, and their deviations from the reference; ``best`` marks the least of a row."""
    systems = list(analysis.accuracies)

    def row(name: str, types: str, of: Mapping[str, float]) -> List[str]:
        deviations = [deviation(of[label], of[REFERENCE]) for label in systems]
        least = min((abs(value) for value in deviations if value is not None), default=0.0)
        cells = [name, types, f"{of[TRAINING]:.2f}", f"{of[REFERENCE]:.2f}"]
        for label, value in zip(systems, deviations):
            shown = "" if value is None else f" ({value:+.1f})"
            closest = value is not None and abs(value) == least and len(systems) > 1
            cells.append((best if closest else "{}").format(f"{of[label]:.2f}{shown}"))
        return cells

    rows = [
        row(name, f"{analysis.types[place]:,}", {text: of[place] for text, of in analysis.shares.items()})
        for place, name in enumerate(analysis.percents.names)
    ]
    if analysis.rare:
        name = f"rare: mean of {len(analysis.rare)}" if len(analysis.rare) > 1 else "rare"
        rows.append(row(name, "", {text: analysis.rare_share(text) for text in analysis.shares}))
    return ["bin", "different words", TRAINING, REFERENCE, *systems], rows


def accuracy_table(analysis: Analysis) -> Table:
    """F, precision and recall by training count."""
    systems = list(analysis.accuracies)

    def cell(one: Accuracy) -> str:
        if one.f1 is None:
            return "-"
        return f"{100 * one.f1:.1f} ({_percent(one.precision)} / {_percent(one.recall)})"

    rows = []
    for place, name in enumerate(analysis.counts.names):
        of = [analysis.accuracies[label][place] for label in systems]
        rows.append([name, f"{of[0].reference:,}", *map(cell, of)])
    return ["training count", "in the reference", *systems], rows


def _percent(share: Optional[float]) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    cells = [[cell.replace("|", r"\|") for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "| " + " | ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"
        for row in cells
    ]
    rule = "| " + " | ".join("-" * (w - 1) + ":" if i else "-" * w for i, w in enumerate(widths)) + " |"
    return "\n".join([lines[0], rule, *lines[1:]])


def to_json(analysis: Analysis) -> Dict[str, Any]:
    """All numbers, for ``json.dump``."""
    of_texts = {}
    for name, per_bin in analysis.shares.items():
        words, types = analysis.words[name]
        entry: Dict[str, Any] = {"words": words, "different_words": types, "shares": per_bin}
        if analysis.rare:
            entry["rare_share"] = analysis.rare_share(name)
        if name in analysis.accuracies:
            right = analysis.shares[REFERENCE]
            entry["deviations"] = [deviation(share, other) for share, other in zip(per_bin, right)]
            if analysis.rare:
                entry["rare_deviation"] = deviation(entry["rare_share"], analysis.rare_share(REFERENCE))
            entry["accuracy"] = {
                bin_name: {**vars(one), "precision": one.precision, "recall": one.recall, "f1": one.f1}
                for bin_name, one in zip(analysis.counts.names, analysis.accuracies[name])
            }
            entry["scores"] = {metric: scores[name]._asdict() for metric, scores in analysis.scores.items()}
        of_texts[name] = entry
    return {
        "bins": list(analysis.percents.names),
        "rare_bins": [analysis.percents.names[place] for place in analysis.rare],
        "different_words_in_bins": analysis.types,
        "training": of_texts.pop(TRAINING),
        "reference": of_texts.pop(REFERENCE),
        "systems": of_texts,
        "signatures": analysis.signatures,
    }


def draw(analysis: Analysis, folder: PathLike, suffix: str = ".png") -> List[Path]:
    """Pictures in a folder that exists: the histogram of all bins, that of the rare ones (Figures 2 and 3 of the paper)
    and the F-measures by count. Returns their paths; raises ``OptionError`` as ``bars.grouped_bars``."""
    folder, texts = Path(folder), [REFERENCE, *analysis.accuracies]
    everything = list(range(len(analysis.percents.names)))
    choices = {"frequency": (everything, "All words")}
    if analysis.rare:
        choices["rare"] = ([*analysis.rare, everything[-1]], "Rare words")
    paths = []
    for name, (places, title) in choices.items():
        paths.append(folder / f"{name}{suffix}")
        grouped_bars(
            [analysis.percents.names[place] for place in places],
            {text: [analysis.shares[text][place] for place in places] for text in texts},
            paths[-1],
            title,
            ("percentile of training frequency, rare words first", "share of the words, percent"),
            first_is_reference=True,
        )
    paths.append(folder / f"accuracy{suffix}")
    grouped_bars(
        analysis.counts.names,
        {label: [None if one.f1 is None else 100 * one.f1 for one in of] for label, of in analysis.accuracies.items()},
        paths[-1],
        "Target words that are right",
        ("times in the training text", "F, percent"),
    )
    return paths


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="[LABEL=]HYP",
        help="text, output of fairseq-generate, or beam hypotheses of attn-analysis extract",
    )
    parser.add_argument("--train", required=True, metavar="TEXT", help="target side of the training text")
    parser.add_argument("--reference", required=True, metavar="REF", help="text, or one of the kinds of HYP")
    parser.add_argument("--remove-bpe", action="store_true", help="join the subwords of all texts to words")
    parser.add_argument(
        "--bins", metavar="LOW-HIGH,...", help="percentiles of training frequency (default: 0-10,10-20,...,90-100)"
    )
    parser.add_argument(
        "--percent-of",
        choices=MEASURES,
        default="tokens",
        help="what the percentiles are of: tokens (running words of the training text) or types (default: tokens)",
    )
    parser.add_argument(
        "--rare", type=float, default=30, metavar="P", help="bins up to this percentile are rare words (default: 30)"
    )
    parser.add_argument(
        "--count-bins",
        metavar="N,...",
        help="least training counts of the accuracy's bins (default: 1,2,5,10,100,1000)",
    )
    parser.add_argument("--bootstrap", metavar="LABEL", help="compare all systems with this one by paired bootstrap")
    parser.add_argument("--samples", type=int, default=1000, help="samples of the bootstrap (default: 1000)")
    parser.add_argument("--seed", type=int, default=12345, help="of the bootstrap (default: 12345, sacrebleu's)")
    parser.add_argument(
        "--tokenize",
        default="none",
        help="sacrebleu's tokenizer for BLEU, such as 13a for detokenized text (default: none)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="write pictures and the tables there")
    parser.add_argument(
        "--format", choices=[suffix[1:] for suffix in SUFFIXES], default="png", help="of the pictures (default: png)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers")


def run(args: argparse.Namespace) -> None:
    edges = DECILES if args.bins is None else _edges(args.bins)
    lows = COUNTS if args.count_bins is None else _lows(args.count_bins)
    _check_numbers(args)
    read = [args.train, args.reference, *(outputs.split_label(text)[1] for text in args.systems)]
    check_not_lost("--json", args.json, read)
    suffix = f".{args.format}"
    if args.out is not None:
        check_drawing(Path(args.out) / f"frequency{suffix}")
    systems = outputs.read_systems(args.systems, args.remove_bpe)
    reference = outputs.read_reference(args.reference, args.remove_bpe)
    for label in {TRAINING, REFERENCE} & set(systems):
        raise OptionError(f"{label}: is the name of another column; give the system another one, NAME=FILE")
    if args.bootstrap is not None and len(systems) < 2:
        raise OptionError(f"--bootstrap {args.bootstrap}: compares systems, and there is one only; leave it out")
    if args.bootstrap is not None and args.bootstrap not in systems:
        raise OptionError(f"--bootstrap {args.bootstrap}: is none of the systems; choose from {', '.join(systems)}")
    named = {f"--reference {args.reference}": reference, **systems}
    outputs.check_lengths(named)
    if not reference:
        raise OptionError(f"--reference {args.reference}: has no sentences")
    training = count_training(args.train, args.remove_bpe)
    checked: Dict[str, Collection[str]] = {f"--train {args.train}": training.keys(), **named}
    outputs.check_tokenisation(checked)
    analysis = analyse(
        training,
        reference,
        systems,
        edges,
        args.percent_of,
        args.rare,
        lows,
        baseline=args.bootstrap,
        samples=args.samples,
        seed=args.seed,
        tokenize=args.tokenize,
    )
    text = tables(analysis)
    if args.json is not None:
        with whole_text(args.json, f"--json {args.json}: cannot be written") as stream:
            json.dump(to_json(analysis), stream, ensure_ascii=False, indent=1)
            stream.write("\n")
    if args.out is not None:
        try:
            os.makedirs(args.out, exist_ok=True)
        except OSError as error:
            raise OptionError(f"--out {args.out}: cannot be made: {error.strerror or error}") from None
        page = Path(args.out) / "frequency.md"
        with whole_text(page, f"--out {args.out}: {page.name} cannot be written") as stream:
            stream.write(text)
        draw(analysis, args.out, suffix)
    sys.stdout.write(text)


def _edges(text: str) -> Sequence[Tuple[float, float]]:
    try:
        edges = []
        for item in text.split(","):
            low, _, high = item.partition("-")
            edges.append((float(low), float(high)))
        percent_bins({"word": 1}, edges)
        return edges
    except ValueError:
        raise OptionError(
            f"--bins {text}: must be percentiles from 0 to 100 in order, without overlap, as in 0-10,10-20,20-30"
        ) from None


def _lows(text: str) -> Sequence[int]:
    try:
        lows = [int(item) for item in text.split(",")]
        count_bins({}, lows)
        return lows
    except ValueError:
        raise OptionError(f"--count-bins {text}: must be positive and ascending, as in 1,2,5,10,100,1000") from None


def _check_numbers(args: argparse.Namespace) -> None:
    if not 0 < args.rare <= 100:
        raise OptionError(f"--rare {args.rare:g}: must be more than 0 and at most 100")
    if args.samples < 2:
        raise OptionError(f"--samples {args.samples}: must be at least 2")
    if args.seed < 0:
        raise OptionError(f"--seed {args.seed}: must be 0 or more")
    check_tokenizer(args.tokenize)


def check_tokenizer(name: str) -> None:
    """Raises ``OptionError`` for a tokenizer that sacrebleu does not have, or that lacks its package."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise OptionError(f"--tokenize {name}: unknown; choose from {', '.join(BLEU.TOKENIZERS)}")
    try:
        BLEU(tokenize=name, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        raise OptionError(f"--tokenize {name}: {' '.join(str(error).split())}") from None
