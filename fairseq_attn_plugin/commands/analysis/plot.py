"""``fairseq-attn plot``: attention heatmaps of sentences, with one or several models side by side.

    fairseq-attn plot soft.jsonl lstm_adm.jsonl --sentences 3 17 --out pictures
    fairseq-attn plot lstm_soft=soft.jsonl lstm_adm=adm.jsonl --sentences 5 --gold test.align --out figure.pdf

Rows are target words, columns are source words. A latent alignment model has a panel for its prior and one for its
posterior. ``--gold`` draws sure links as solid boxes and possible links as dashed boxes.
:mod:`fairseq_attn_plugin.analysis.drawing.panels` provides these steps as functions.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, add_gold_options, check_gold_options, read_gold
from fairseq_attn_plugin.analysis.drawing.canvas import check_drawing
from fairseq_attn_plugin.analysis.drawing.heatmaps import heatmaps
from fairseq_attn_plugin.analysis.drawing.panels import END, FIRST, choose_sentences, panels_of, weights_of
from fairseq_attn_plugin.analysis.folders import BEAM, add_files, add_sentence_options, sentence_numbers, with_attention
from fairseq_attn_plugin.analysis.records.files import Records, open_systems
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least
from fairseq_attn_plugin.writing import make_folder


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "model folder or file of fairseq-attn extract")
    parser.add_argument(
        "--out", required=True, metavar="PATH", help="folder for sentence-0017.png and so on, or one picture"
    )
    add_sentence_options(parser, str(FIRST))
    parser.add_argument(
        "--subwords",
        action=argparse.BooleanOptionalAction,
        help="rows and columns are subwords (default: if SentencePiece split a language without blanks between words)",
    )
    parser.add_argument("--end", action="store_true", help=f"also draw the ends of sentences, {END}")
    parser.add_argument(
        "--normalize",
        action="store_true",
        help="divide each row by its sum, for mechanisms whose rows do not sum to one",
    )
    parser.add_argument(
        "--weights",
        metavar="NAMES",
        help="matrices to draw: attention; of latent models also posterior, bayes (default: attention and a posterior)",
    )
    add_gold_options(parser, "gold alignments of the words, drawn as boxes")


def _paths(out: Path, pictures: int, sentences: int) -> Callable[[int], Path]:
    """The file of each sentence number: ``out`` for one picture, or files in the folder ``out``."""
    # a name such as wmt.de may be that of a folder of several pictures
    picture = r"\.[a-z]{2,4}" if pictures == 1 else r"\.(png|svg|pdf|jpe?g|gif|eps|ps|tiff?|webp)"
    if re.fullmatch(picture, out.suffix.lower()) and not out.is_dir():
        check_drawing(out)  # raises an error that lists the formats
        if pictures > 1:
            raise OptionError(
                f"--out {out}: is one picture, not {pictures}; give a folder, or one sentence to --sentences"
            )
        return lambda number: out
    check_drawing(out / "sentence.png")
    digits = max(4, len(str(sentences - 1)))
    return lambda number: out / f"sentence-{number:0{digits}d}.png"


def run(args: argparse.Namespace) -> None:
    numbers = sentence_numbers(args.sentences)
    at_least(args, first=0)
    check_gold_options(args)
    systems = open_systems(with_attention(args.files, args.cpu, BEAM))
    weights = weights_of(systems, [name.strip() for name in args.weights.split(",")] if args.weights else None)
    header = systems[0].header
    subwords = any(one.header.unspaced for one in systems) if args.subwords is None else args.subwords
    total = max(header.sentences, 1)
    first = min((FIRST if args.first is None else args.first) or total, total)
    count = first if numbers is None else len(numbers)
    gold: Optional[List[GoldAlignment]] = None
    if args.gold:
        gold = read_gold(args.gold, args.one_based, [None] * header.sentences)
    path_of = _paths(Path(args.out), count, header.sentences)

    written: List[Path] = []
    for chosen in tqdm(choose_sentences(systems, numbers, first), total=count, unit=" sentences", disable=None):
        links = None if gold is None else gold[chosen.number]
        try:
            panels = panels_of(systems, chosen, weights, subwords, args.end, links, args.normalize, int(args.one_based))
        except ValueError as error:
            raise OptionError(f"--gold {args.gold}: sentence {chosen.number}: {error}") from None
        path = path_of(chosen.number)
        make_folder("--out", path.parent)
        heatmaps(panels, path)
        written.append(path)
    _report(args, systems, written)


def _report(args: argparse.Namespace, systems: Sequence[Records], written: Sequence[Path]) -> None:
    if not written:
        raise OptionError(f"there is no sentence to draw in {' and '.join(str(one.path) for one in systems)}")
    if len(written) == 1:
        print(written[0])
    else:
        print(f"{args.out}: {len(written)} pictures, {written[0].name} to {written[-1].name}")
    if args.gold and any(system.header.target != "reference" for system in systems):
        print("gold links belong to the references and are not drawn for other translations", file=sys.stderr)
