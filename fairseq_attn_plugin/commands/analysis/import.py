"""Turns attention or alignments of another program into a file like those of ``fairseq-attn extract``.

    fairseq-attn import marian.out --format marian --source-text test.bpe.de --out marian.jsonl
    fairseq-attn import attention.jsonl --format huggingface --from de --to en --out opus.jsonl

All commands that read records read the result: plot, explore, align, aer (with --forced), compare, confidence.
The JSON lines of ``--format huggingface`` are for the output of any program.
"""

from __future__ import annotations

import argparse
import os

from fairseq_attn_plugin.analysis.importing.conversion import import_file
from fairseq_attn_plugin.analysis.importing.formats import FORMATS
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.subwords import SUBWORDS
from fairseq_attn_plugin.writing import check_output


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="output of another program")
    parser.add_argument("--format", required=True, choices=FORMATS, help="the program, or pharaoh for links")
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write, .jsonl")
    parser.add_argument("--source-text", metavar="FILE", help="source side, in the tokens that the program read")
    parser.add_argument("--target-text", metavar="FILE", help="target side, for formats that lack it")
    parser.add_argument(
        "--forced", action="store_true", help="the targets are the references, not translations of the program"
    )
    parser.add_argument("--from", dest="source_lang", default="source", metavar="LANG", help="source language")
    parser.add_argument("--to", dest="target_lang", default="target", metavar="LANG", help="target language")
    parser.add_argument("--name", help="system name for legends and tables (default: the name of FILE)")
    parser.add_argument("--subwords", choices=SUBWORDS, help="marks of subwords (default: judged by the tokens)")


def run(args: argparse.Namespace) -> None:
    form = FORMATS[args.format]
    for side in form.needs.split():
        if getattr(args, f"{side}_text") is None:
            raise OptionError(f"--format {args.format}: needs --{side}-text, the {side} side in the program's tokens")
    if args.target_text is not None and "target" not in form.needs:
        raise OptionError(f"--target-text {args.target_text}: {args.format} has the targets itself; leave it out")
    check_output("--out", args.out, [args.file, args.source_text, args.target_text])
    given = {"": args.file, "--source-text ": args.source_text, "--target-text ": args.target_text}
    for option, path in given.items():
        if path is not None and os.path.exists(path) and not os.path.isfile(path):
            raise OptionError(f"{option}{path}: must be a regular file, since it is read twice")
    header = import_file(args)
    words = "words without subwords" if header.subwords == "none" else f"subwords of {header.subwords}"
    print(f"{args.out}: attention of {header.name} for {counted(header.sentences, 'sentence')}, {words}")
