"""``fairseq-attn frequency``: shares and accuracy of rare and frequent words in outputs, and BLEU.

    fairseq-attn frequency --train train.en --reference test.en soft=soft.out mqt=mqt.out --out folder --bootstrap soft

:mod:`fairseq_attn_plugin.analysis.outputs.frequency` defines the counts. Scores are those of sacrebleu.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Collection, Dict, Sequence, Tuple

from fairseq_attn_plugin.analysis.drawing.bars import draw_frequency
from fairseq_attn_plugin.analysis.drawing.canvas import SUFFIXES, check_drawing
from fairseq_attn_plugin.analysis.folders import BEAM, with_attention
from fairseq_attn_plugin.analysis.outputs import reading as outputs
from fairseq_attn_plugin.analysis.outputs.frequency import (
    COUNTS,
    DECILES,
    MEASURES,
    REFERENCE,
    TRAINING,
    analyse,
    count_bins,
    count_training,
    percent_bins,
    tables,
    to_json,
)
from fairseq_attn_plugin.analysis.outputs.significance import check_tokenizer
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_output, whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="[LABEL=]HYP",
        help="text, output of fairseq-generate, or beam hypotheses of fairseq-attn extract",
    )
    parser.add_argument("--train", required=True, metavar="TEXT", help="target side of the training text")
    parser.add_argument("--reference", required=True, metavar="REF", help="references, in any of the formats of HYP")
    parser.add_argument("--remove-bpe", action="store_true", help="join the subwords of all texts to words")
    parser.add_argument(
        "--bins", metavar="LOW-HIGH,...", help="bins of training-frequency percentiles (default: 0-10,10-20,...,90-100)"
    )
    parser.add_argument(
        "--percent-of",
        choices=MEASURES,
        default="tokens",
        help="unit of the percentiles: tokens (running words of the training text) or types (default: tokens)",
    )
    parser.add_argument(
        "--rare", type=float, default=30, metavar="P", help="bins up to this percentile are rare words (default: 30)"
    )
    parser.add_argument(
        "--count-bins",
        metavar="N,...",
        help="least training count of each bin of the accuracy table (default: 1,2,5,10,100,1000)",
    )
    parser.add_argument("--bootstrap", metavar="LABEL", help="compare all systems with this one by paired bootstrap")
    parser.add_argument("--samples", type=int, default=1000, help="samples of the bootstrap (default: 1000)")
    parser.add_argument(
        "--seed", type=int, default=12345, help="random seed of the bootstrap (default: 12345, as in sacrebleu)"
    )
    parser.add_argument(
        "--tokenize",
        default="none",
        help="sacrebleu's tokenizer for BLEU, such as 13a for detokenized text (default: none)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder to write the pictures and the tables to")
    parser.add_argument(
        "--format",
        choices=[suffix[1:] for suffix in SUFFIXES],
        default="png",
        help="format of the pictures (default: png)",
    )
    parser.add_argument("--json", metavar="FILE", help="JSON file to write all numbers to")


def run(args: argparse.Namespace) -> None:
    edges = DECILES if args.bins is None else _edges(args.bins)
    lows = COUNTS if args.count_bins is None else _lows(args.count_bins)
    _check_numbers(args)
    args.systems = with_attention(args.systems, BEAM)
    read = [args.train, args.reference, *(outputs.split_label(text)[1] for text in args.systems)]
    check_output("--json", args.json, read)
    suffix = f".{args.format}"
    if args.out is not None:
        check_drawing(Path(args.out) / f"frequency{suffix}")
    systems = outputs.read_systems(args.systems, args.remove_bpe)
    reference = outputs.read_reference(args.reference, args.remove_bpe)
    for label in {TRAINING, REFERENCE} & set(systems):
        raise OptionError(f"{label}: is the name of another column; give the system another name, NAME=FILE")
    if args.bootstrap is not None and len(systems) < 2:
        raise OptionError(
            f"--bootstrap {args.bootstrap}: needs at least two systems; give another, or leave the option out"
        )
    if args.bootstrap is not None and args.bootstrap not in systems:
        raise OptionError(f"--bootstrap {args.bootstrap}: must be one of the systems {', '.join(systems)}")
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
            raise OptionError(f"--out {args.out}: cannot be created: {error.strerror or error}") from None
        page = Path(args.out) / "frequency.md"
        with whole_text(page, f"--out {args.out}: {page.name} cannot be written") as stream:
            stream.write(text)
        draw_frequency(analysis, args.out, suffix)
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
