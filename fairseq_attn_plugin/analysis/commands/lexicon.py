"""A translation lexicon P(e | f) from attention, or from word alignments.

    attn-analysis lexicon train.jsonl --out lexicon.tsv                      # for fairseq-train --lexicon
    attn-analysis lexicon train.jsonl --out lexicon.txt --format replace-unk # for fairseq-generate --replace-unk
    attn-analysis lexicon --links train.align --source train.de --target train.en --out lexicon.tsv

Counts c(f, e) of source word f and target word e come from extracted attention a_tj, each row divided by its sum,

    hard   the number of times that f = f_j and e = e_t, j being the position of e_t's greatest weight
    soft   the sum of a_tj over all t and j with e_t = e and f_j = f

or are the number of links between the two. Weight on the end of the source belongs to no word; the ends translate each
other, once in a sentence, whatever a model attended to when it ended, so that a decoder can look that up, too.
``<unk>`` is no word. With c(f) = sum_e c(f, e) and V the number of target words,

    none       P(e | f) = c(f, e) / c(f)
    add        P(e | f) = (c(f, e) + k) / (c(f) + k V)          listed for pairs that were counted
    discount   P(e | f) = max(c(f, e) - d, 0) / c(f)            absolute discounting; what is left is listed nowhere
"""

from __future__ import annotations

import argparse
import sys
from typing import Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.lexicon import (
    FORMATS,
    LEVELS,
    SMOOTHINGS,
    Counts,
    count_links,
    count_records,
    estimate,
    write,
)
from fairseq_attn_plugin.analysis.alignment.subword_links import read_links
from fairseq_attn_plugin.analysis.records.files import Records, open_systems
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_not_lost, whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="what attn-analysis extract wrote; counts are added")
    parser.add_argument(
        "--links", metavar="FILE", help="instead: alignments in Pharaoh format, of --source and --target"
    )
    parser.add_argument("--source", metavar="TEXT", help="source side of --links")
    parser.add_argument("--target", metavar="TEXT", help="target side of --links")
    parser.add_argument("--out", required=True, metavar="LEXICON", help="file to write")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="probabilities",
        help="source, target, probability and count with tabs between them, for fairseq-train --lexicon (default); "
        "best translations, for fairseq-generate --replace-unk; or JSON",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--hard", action="store_true", help="count the greatest weight of each target word (default)")
    kind.add_argument("--soft", action="store_true", help="count all weights")
    parser.add_argument(
        "--level",
        choices=LEVELS,
        default="words",
        help="count words, or the subwords of the model, which its own --lexicon needs (default: words)",
    )
    parser.add_argument(
        "--weights", default="attention", metavar="NAME", help="which weights of the files (default: attention)"
    )
    parser.add_argument("--smoothing", choices=SMOOTHINGS, default="none", help="of the probabilities (default: none)")
    parser.add_argument(
        "--smoothing-value",
        type=float,
        metavar="X",
        help="what add adds to every count, discount takes off (default: 0.1, 0.5)",
    )
    parser.add_argument("--min-count", type=float, default=1, help="leave out pairs with less (default: 1)")
    parser.add_argument("--top", type=int, default=10, help="translations of a source word at most (default: 10)")


def run(args: argparse.Namespace) -> None:
    _check(args)
    check_not_lost("--out", args.out, [*args.files, args.links, args.source, args.target])
    counts: Counts = {}
    sentences = 0
    if args.links is not None:
        for sentence in read_links(args.links, args.source, args.target):
            count_links([sentence], counts)
            sentences += 1
    else:
        systems = [open_systems([path])[0] for path in args.files]
        for path, system in zip(args.files, systems):
            if args.weights not in system.header.weights:
                raise OptionError(
                    f"--weights {args.weights}: {path} has none of this name; choose from "
                    f"{', '.join(system.header.weights)}"
                )
        _check_same_kind(systems, args.level)
        for system in systems:
            total = system.header.sentences
            for record in tqdm(system, total=total, desc=system.label, unit=" sentences", disable=None, leave=False):
                count_records([record], args.soft, args.level, args.weights, counts)
                sentences += 1
    lexicon = estimate(counts, args.smoothing, args.smoothing_value, args.min_count, args.top)
    if not lexicon:
        raise OptionError(
            f"--min-count {args.min_count:g}: leaves no pair of the {sentences} sentences; give a lower one, or more "
            "sentences"
        )
    with whole_text(args.out, f"--out {args.out}: cannot be written") as stream:
        write(stream, lexicon, args.format)
    translations = sum(map(len, lexicon.values()))
    sys.stderr.write(f"{args.out}: {translations:,} translations of {len(lexicon):,} words, {sentences:,} sentences\n")


def _check_same_kind(systems: Sequence[Records], level: str) -> None:
    """Counts of other languages, or of other subwords, are counts of other words."""

    def kind(one: Records) -> Tuple[str, ...]:
        header = one.header
        return (header.source_lang, header.target_lang, *([header.subwords] if level == "subwords" else []))

    for one in systems[1:]:
        if kind(one) != kind(systems[0]):
            raise OptionError(
                f"{one.path}: is of {' '.join(kind(one))}, {systems[0].path} of {' '.join(kind(systems[0]))}; a "
                "lexicon is of one direction and one kind of words"
            )


def _check(args: argparse.Namespace) -> None:
    if args.links is None and not args.files:
        raise OptionError("lexicon: give files of attn-analysis extract, or --links with --source and --target")
    if args.links is not None:
        if args.files:
            raise OptionError(f"--links {args.links}: does not go with {args.files[0]}; leave one of the two out")
        if args.source is None or args.target is None:
            raise OptionError(f"--links {args.links}: needs the texts that it links, --source and --target")
        if args.soft:
            raise OptionError(f"--soft: the links of {args.links} have no weights; leave it out")
        if args.level != "words":
            raise OptionError(
                f"--level {args.level}: the links of {args.links} are counted between the tokens of --source and "
                "--target as they stand; leave it out"
            )
    elif args.source is not None or args.target is not None:
        raise OptionError(f"--source {args.source} --target {args.target}: are of --links; leave them out")
    if args.smoothing_value is not None:
        if args.smoothing == "none":
            raise OptionError(f"--smoothing-value {args.smoothing_value:g}: needs --smoothing add or discount")
        if not 0 <= args.smoothing_value < float("inf"):
            raise OptionError(f"--smoothing-value {args.smoothing_value:g}: must be 0 or more")
    if args.top < 1:
        raise OptionError(f"--top {args.top}: must be at least 1")
    if not args.min_count >= 0:
        raise OptionError(f"--min-count {args.min_count:g}: must be 0 or more")
