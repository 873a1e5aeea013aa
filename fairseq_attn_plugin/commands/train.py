"""``fairseq-attn train``: from a file of sentence pairs to a translator.

    fairseq-attn train pairs.tsv --from de --to en
    fairseq-attn train text.de text.en --from de --to en --arch lstm_soft --out model -- --dropout 0.4

PAIRS is a table with a sentence, a tab and its translation in each line, or two files, of which line n of one is the
translation of line n of the other; plain UTF-8 text, .gz or .xz. What follows ``--`` goes to fairseq-train. Every
command that runs is printed. The same call continues after an interruption.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List, Optional

from fairseq_attn_plugin import __version__
from fairseq_attn_plugin.analysis.inference.model_options import folder_of
from fairseq_attn_plugin.corpora.downloads import checksum
from fairseq_attn_plugin.corpora.parallel import Pair
from fairseq_attn_plugin.corpora.subwords import KINDS
from fairseq_attn_plugin.corpora.tools import PACKAGE, locked
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import is_training, open_model_folder, read_settings
from fairseq_attn_plugin.options import at_least
from fairseq_attn_plugin.own_data.pairs import read_pairs, split
from fairseq_attn_plugin.own_data.settings import check_model, tokenizer_of, training_options
from fairseq_attn_plugin.own_data.steps import Plan, check_command, run_steps, say
from fairseq_attn_plugin.writing import make_folder

TAKES_EXTRA = True  # words after --


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("pairs", nargs="+", type=Path, metavar="PAIRS", help="table (tabs, or .csv), or source and target file")
    add("--from", required=True, dest="source", metavar="LANG", help="source language, as in de")
    add("--to", required=True, dest="target", metavar="LANG", help="target language, as in en")
    add("--out", type=Path, metavar="FOLDER", help="model folder to write (default: LANG-LANG.ARCH)")
    add("--arch", default="lstm_adm", metavar="NAME", help="architecture (default: lstm_adm)")
    objectives = "of latent alignment models (default: marginal for lstm_latent, elbo-enum for lstm_posterior)"
    add("--objective", default="", metavar="NAME", help=objectives)
    columns = "columns of source and target in a table (default: 1,2, or those that its first row names)"
    add("--columns", metavar="S,T", help=columns)
    add("--valid", nargs="+", type=Path, metavar="FILE", help="validation pairs (default: taken out of PAIRS)")
    add("--test", nargs="+", type=Path, metavar="FILE", help="test pairs (default: taken out of PAIRS)")
    add = parser.add_argument_group("text").add_argument
    tokenizer = "auto (default): moses; none if a language writes no blanks between words, or moses tears the target"
    add("--tokenizer", choices=("auto", "moses", "none"), default="auto", help=tokenizer)
    kinds = ("auto", *KINDS)
    add("--subwords", choices=kinds, default="auto", help="auto (default): subword-nmt after moses, else sentencepiece")
    size = "merges or pieces (default: as many as fit the corpus)"
    add("--subword-size", type=int, default=0, metavar="N", help=size)
    add = parser.add_argument_group("training; further options of fairseq-train follow --").add_argument
    add("--max-epoch", type=int, default=60, metavar="N", help="end after N epochs (default: 60)")
    patience = "end when validation is no better for N epochs (default: 5)"
    add("--patience", type=int, default=5, metavar="N", help=patience)
    add("--seed", type=int, default=1, metavar="N", help="random seed (default: 1)")
    add("--user-dir", action="append", metavar="FOLDER", help="code that registers attention, models or objectives")
    add("--cpu", action="store_true", help="do not use a GPU")


def run(args: argparse.Namespace) -> None:
    if threading.current_thread() is not threading.main_thread():
        _run(args)
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the command that runs ends, too
    try:
        _run(args)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(args: argparse.Namespace) -> None:
    languages, columns = _languages(args), _columns(args.columns)
    if len(args.user_dir or ()) > 1:
        folders = " ".join(args.user_dir)
        raise OptionError(f"--user-dir {folders}: fairseq-train takes one; import the others in its __init__.py")
    at_least(args, subword_size=0, max_epoch=1, patience=1, seed=0)
    if args.subword_size and args.subwords == "none":
        raise OptionError(f"--subword-size {args.subword_size}: has no effect with --subwords none; leave it out")
    files: Dict[str, Optional[List[Path]]] = {"train": args.pairs, "valid": args.valid, "test": args.test}
    folder = args.out or Path(f"{'-'.join(languages)}.{args.arch}")
    if ":" in str(folder.absolute()):
        raise OptionError(f"--out {folder}: its path has a colon, which separates paths in fairseq; name another")
    checksums = {name: [checksum(path) for path in paths or () if path.is_file()] for name, paths in files.items()}
    # all that the user gave: options, the content of the files, the version of this package
    options = {name: value for name, value in vars(args).items() if name not in ("out", "pairs", "run")}
    request = json.dumps({**options, **checksums, "version": __version__}, sort_keys=True, default=str)
    done = read_settings(folder)
    with contextlib.suppress(OptionError):  # a file was lost: all of them are written again
        if done.get("request") == request and open_model_folder(folder) is not None:  # nothing is read again
            _conclude(args, folder, done["scores"], done["pairs"]["test"])
            return
    # mistakes in the corpus are reported before anything is written or imported
    notes: List[str] = []
    given: Dict[str, Optional[List[Pair]]] = dict.fromkeys(files)
    for name, paths in files.items():
        if paths:
            given[name], about = read_pairs(paths, languages, columns)
            notes.append(f"{name}: {about}")
    splits, left_out = split(given)
    objective = check_model(args)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not is_training(folder))):
        raise OptionError(f"--out {folder}: exists, and is no model folder; name another")
    tokenizer = tokenizer_of(splits["train"], languages) if args.tokenizer == "auto" else args.tokenizer
    usual = "subword-nmt" if tokenizer == "moses" else "sentencepiece"
    import torch

    plan = Plan(
        folder=folder,
        languages=languages,
        text={
            "tokenizer": tokenizer,
            "subwords": usual if args.subwords == "auto" else args.subwords,
            "subword_size": args.subword_size,
            "languages": languages,
            "columns": args.columns,
            **checksums,
        },
        user_dir=os.path.abspath(folder_of(args.user_dir[-1])) if args.user_dir else str(PACKAGE),
        options=training_options(args, objective, len(splits["train"])),
        device=["--cpu"] if args.cpu or not torch.cuda.is_available() else [],
        request=request,
    )
    if args.extra:
        check_command(plan.train_command()[1:], args.extra)
    make_folder("--out", plan.training)
    with locked(plan.training / "lock", wait=False) as lock:
        for note in (*notes, *left_out):
            say(note)
        scores = run_steps(plan._replace(lock=lock), splits)
    _conclude(args, folder, scores, len(splits["test"]))


def _conclude(args: argparse.Namespace, folder: Path, scores: Dict[str, Any], sentences: int) -> None:
    found = ", ".join(f"{name} {scores[name.lower()]['score']}" for name in ("BLEU", "chrF", "TER"))
    print(f"{folder}: {found} on {sentences:,} test sentences")
    named = shlex.join([str(folder), *(word for code in args.user_dir or () for word in ("--user-dir", code))])
    print(f"fairseq-attn translate {named} 'A sentence.'   # also: serve, explore, report, plot, compare, export")


def _languages(args: argparse.Namespace) -> List[str]:
    for option, language in (("--from", args.source), ("--to", args.target)):
        if not re.fullmatch("[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*", language):
            raise OptionError(f"{option} {language}: must be a language code, as in de or zh_Hant")
    languages = [args.source.replace("-", "_"), args.target.replace("-", "_")]  # fairseq splits a pair at the hyphen
    if languages[0].lower() == languages[1].lower():  # some file systems do not tell test.de from test.DE
        raise OptionError(f"--from {args.source} --to {args.target}: must be two languages")
    return languages


def _columns(text: Optional[str]) -> Optional[List[int]]:
    if text is None:
        return None
    if not re.fullmatch("[1-9][0-9]{0,8},[1-9][0-9]{0,8}", text):
        raise OptionError(f"--columns {text}: must be two numbers from 1, as in 2,1")
    return [int(part) for part in text.split(",")]
