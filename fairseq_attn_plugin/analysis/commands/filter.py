"""Keeps the sentence pairs whose attention looks sure, of a corpus or of back-translations.

    fairseq-attn extract data --path back.pt --source-text mono.en --bpe-codes codes --beam 5 --out back.jsonl
    fairseq-attn filter back.jsonl --share 0.7 --out back.best

It writes back.best.en, back.best.de and the numbers of the kept sentences, counted from 0, to back.best.lines. The
measures are those of fairseq-attn confidence; the documentation says how much they tell.
"""

from __future__ import annotations

import argparse
import math
import re

from fairseq_attn_plugin.analysis.folders import BEAM, with_attention
from fairseq_attn_plugin.analysis.outputs.filtering import Rule, filter_records
from fairseq_attn_plugin.analysis.records.confidence import BASELINES, MEASURES
from fairseq_attn_plugin.analysis.records.files import open_systems
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="model folder, or records of fairseq-attn extract or import")
    parser.add_argument(
        "--out", required=True, metavar="PREFIX", help="files to write: PREFIX.SOURCE, PREFIX.TARGET, PREFIX.lines"
    )
    parser.add_argument(
        "--by",
        choices=(*MEASURES, *BASELINES),
        default="confidence",
        help="measure, greater is better: confidence (default) = coverage + out + in; score: mean log probability; "
        "length: short sources first",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--threshold", type=float, metavar="X", help="keep sentences of at least X")
    which.add_argument("--share", type=float, metavar="S", help="keep the best sentences, a share S of all")
    parser.add_argument("--source-text", metavar="FILE", help="write these lines of the corpus, not the records' words")
    parser.add_argument("--target-text", metavar="FILE", help="the same for the target side")
    parser.add_argument("--weights", metavar="NAME", help="matrix to use (default: attention)")
    parser.add_argument("--end", action="store_true", help="count the ends of sentences as subwords")


def run(args: argparse.Namespace) -> None:
    if args.share is not None and not 0 < args.share <= 1:
        raise OptionError(f"--share {args.share:g}: must be above 0 and at most 1")
    if args.threshold is not None and math.isnan(args.threshold):
        raise OptionError("--threshold nan: must be a number, such as -1.5")
    records = open_systems(with_attention([args.file], BEAM))[0]
    languages = records.header.source_lang, records.header.target_lang
    # they become names of files, and the records may be anybody's
    if not all(re.fullmatch(r"[\w-]+", one) for one in languages) or len({*languages, "lines"}) < 3:
        raise OptionError(
            f"{args.file}: its languages are {languages[0]!r} and {languages[1]!r}; must be two names such as de and en"
        )
    for name in (*languages, "lines"):
        check_output("--out", f"{args.out}.{name}", [records.path, args.source_text, args.target_text])
    rule = Rule(args.by, args.threshold, args.share, args.weights, args.end)
    done = filter_records(records, rule, args.out, args.source_text, args.target_text)
    missing = done.corpus - done.read
    print(
        f"{args.out}: {done.kept} of {counted(done.read, 'sentence pair')}"
        + (f", {args.by} of at least {done.least:.4f}" if done.kept else "")
        + (f"; {done.empty} have no words on one side and are not kept" if done.empty else "")
        + (f"; the records lack {missing} others of the corpus" if missing else "")
    )
