"""``fairseq-attn report``: one report on a folder of trained systems, as Markdown and as a page.

    fairseq-attn report FOLDER --data DATA --out REPORT [--gold LINKS] [--systems soft mqt]
    fairseq-attn report MODEL --out REPORT

MODEL is a model folder of ``fairseq-attn train``, or a folder of several, which know their data. Otherwise a training
is FOLDER, or a folder anywhere below it, that contains ``checkpoint_best.pt`` (or ``checkpoint_last.pt``), directly or
in its ``checkpoints``; its name is its path below FOLDER. Trainings that differ in the seed only are one system.

The command extracts attention into ``REPORT/attention`` and keeps files that are already there, so an interrupted or
changed report continues quickly. A system that cannot be read is named in the report, and the others are reported. The
translations are the text files in ``REPORT/outputs``, a line for each sentence.
"""

import argparse
import shlex
import sys
from pathlib import Path

from fairseq_attn_plugin.analysis.alignment.links import add_gold_options, check_gold_options
from fairseq_attn_plugin.analysis.inference.model_options import add_user_dir_option
from fairseq_attn_plugin.analysis.report.building import write_report
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import FORMAT, is_training, read_settings
from fairseq_attn_plugin.options import at_least


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=Path, help="model folder, or folder of trained systems")
    add("--data", help="folder that fairseq-preprocess wrote (default: that of each model folder)")
    add("--out", required=True, type=Path, metavar="FOLDER", help="folder to write report.md and report.html to")
    add(
        "--systems",
        nargs="+",
        metavar="NAME",
        help="names of the systems, with a seed or without it for all seeds, in this order; the others are compared "
        "with the first (default: all, by name)",
    )
    add("--gen-subset", default="test", metavar="SPLIT", help="split of the data (default: test)")
    add("--beam", type=int, default=10, help="beam width of the translations (default: 10)")
    add_gold_options(parser, "gold alignments of the split's words")
    add("--samples", type=int, default=1000, help="samples of the paired bootstrap; 0: no test (default: 1000)")
    add("--cpu", action="store_true", help="do not use a GPU")
    add_user_dir_option(parser)


def run(args: argparse.Namespace) -> None:
    at_least(args, beam=1, samples=0)
    check_gold_options(args)
    if args.samples == 1:
        raise OptionError("--samples 1: must be at least 2, or 0 for none")
    if args.data is None and args.folder.is_dir() and not _has_model_folders(args.folder):
        raise OptionError(f"{args.folder}: is no model folder and has none; give the data of its models by --data")
    args.command = shlex.join(["fairseq-attn", *sys.argv[1:]])
    write_report(args.folder, args.data or "", args.out, args)
    print(f"{args.out / 'report.md'}, {args.out / 'report.html'}")


def _has_model_folders(folder: Path) -> bool:
    """Whether it is a model folder or has some; these know their data."""
    folders = (folder, *filter(Path.is_dir, sorted(folder.iterdir())))
    return any(is_training(one) or read_settings(one).get("format") == FORMAT for one in folders)
