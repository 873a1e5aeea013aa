"""Writes a translation lexicon P(e | f), estimated from extracted attention or from word alignments.

    fairseq-attn lexicon train.jsonl --out lexicon.tsv
    fairseq-attn lexicon --links train.align --source train.de --target train.en --out lexicon.tsv

Each target word counts once, with the source word of its greatest weight; ``--soft`` counts all weights. The counts of
several files are added. A line has source, target, probability and count, with tabs between them. ``fairseq-train
--lexicon`` and ``fairseq-generate --replace-unk`` read the file.
:mod:`fairseq_attn_plugin.analysis.alignment.lexicon` has the formulas.
"""

from __future__ import annotations

import argparse
import sys
from typing import Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.lexicon import (
    PairCounts,
    count_links,
    count_records,
    estimate_lexicon,
)
from fairseq_attn_plugin.analysis.alignment.subword_links import read_links
from fairseq_attn_plugin.analysis.folders import with_attention
from fairseq_attn_plugin.analysis.records.files import Records, open_systems
from fairseq_attn_plugin.analysis.records.record import LEVELS
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.lexicon import write_probabilities
from fairseq_attn_plugin.writing import check_output, whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="model folder or file of fairseq-attn extract")
    parser.add_argument(
        "--links", metavar="FILE", help="instead of records: alignments of --source and --target in Pharaoh format"
    )
    parser.add_argument("--source", metavar="TEXT", help="source side of --links")
    parser.add_argument("--target", metavar="TEXT", help="target side of --links")
    parser.add_argument("--out", required=True, metavar="LEXICON", help="file to write")
    parser.add_argument(
        "--soft", action="store_true", help="count all weights (default: the greatest of each target word)"
    )
    parser.add_argument(
        "--level",
        choices=LEVELS,
        default="words",
        help="units that are counted; a lexicon for --lexicon of the same model needs subwords (default: words)",
    )
    parser.add_argument("--weights", default="attention", metavar="NAME", help="matrix to use (default: attention)")
    parser.add_argument("--min-count", type=float, default=1, help="smallest count of a listed pair (default: 1)")
    parser.add_argument(
        "--top", type=int, default=10, help="greatest number of translations of a source word (default: 10)"
    )


def run(args: argparse.Namespace) -> None:
    _check(args)
    check_output("--out", args.out, [*args.files, args.links, args.source, args.target])
    counts: PairCounts = {}
    sentences = 0
    if args.links is not None:
        for sentence in read_links(args.links, args.source, args.target):
            count_links([sentence], counts)
            sentences += 1
    else:
        systems = [
            open_systems([path])[0] for path in with_attention(args.files)
        ]  # one by one: two files may have one label
        for system in systems:
            system.weights_name(args.weights)
        _check_same_kind(systems, args.level)
        for system in systems:
            total = system.header.sentences
            for record in tqdm(system, total=total, desc=system.label, unit=" sentences", disable=None, leave=False):
                count_records([record], args.soft, args.level, args.weights, counts)
                sentences += 1
    lexicon = estimate_lexicon(counts, args.min_count, args.top)
    if not lexicon:
        raise OptionError(
            f"--min-count {args.min_count:g}: no pair of the {sentences} sentences occurs so often; give a lower count "
            "or more sentences"
        )
    with whole_text(args.out, f"--out {args.out}: cannot be written") as stream:
        write_probabilities(stream, lexicon)
    translations = sum(map(len, lexicon.values()))
    sys.stderr.write(
        f"{args.out}: {counted(translations, 'translation')} of {counted(len(lexicon), 'word')}, "
        f"{counted(sentences, 'sentence')}\n"
    )


def _check_same_kind(systems: Sequence[Records], level: str) -> None:
    """Refuses to add the counts of different languages, or of different subwords."""

    def kind(one: Records) -> Tuple[str, ...]:
        header = one.header
        return (header.source_lang, header.target_lang, *([header.subwords] if level == "subwords" else []))

    for one in systems[1:]:
        if kind(one) != kind(systems[0]):
            raise OptionError(
                f"{one.path}: has {' '.join(kind(one))}, {systems[0].path} has {' '.join(kind(systems[0]))}; a "
                "lexicon has one direction and one kind of subwords"
            )


def _check(args: argparse.Namespace) -> None:
    if args.links is None and not args.files:
        raise OptionError("lexicon: give files of fairseq-attn extract, or --links with --source and --target")
    if args.links is not None:
        if args.files:
            raise OptionError(f"--links {args.links}: excludes {args.files[0]}; give one of the two")
        if args.source is None or args.target is None:
            raise OptionError(f"--links {args.links}: needs --source and --target, the texts that it links")
        if args.soft:
            raise OptionError(f"--soft: the links of {args.links} have no weights; leave it out")
        if args.level != "words":
            raise OptionError(
                f"--level {args.level}: --links always counts the tokens of --source and --target; leave it out"
            )
    elif args.source is not None or args.target is not None:
        raise OptionError(f"--source {args.source} --target {args.target}: need --links")
    at_least(args, top=1, min_count=0)
