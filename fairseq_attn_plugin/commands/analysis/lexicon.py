"""Writes a translation lexicon P(e | f), estimated from extracted attention.

    fairseq-attn lexicon train.jsonl --out lexicon.tsv

Each target word counts once, with the source word of its greatest weight; ``--soft`` counts all weights. The counts of
several files are added. A line has source, target, probability and count, with tabs between them. ``fairseq-train
--lexicon`` and ``fairseq-generate --replace-unk`` read the file.
:mod:`fairseq_attn_plugin.analysis.alignment.lexicon` has the formulas.
"""

import argparse
import sys

from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.lexicon import PairCounts, count_records, estimate_lexicon
from fairseq_attn_plugin.analysis.folders import add_files, with_attention
from fairseq_attn_plugin.analysis.records.files import open_systems
from fairseq_attn_plugin.analysis.records.record import LEVELS
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.lexicon import write_probabilities
from fairseq_attn_plugin.writing import check_output, whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "model folder, or file of extract")
    add = parser.add_argument
    add("--out", required=True, metavar="LEXICON", help="file to write")
    add("--soft", action="store_true", help="count all weights (default: the greatest of each target word)")
    add(
        "--level",
        choices=LEVELS,
        default="words",
        help="units that are counted; a lexicon for --lexicon of the same model needs subwords (default: words)",
    )
    add("--weights", metavar="NAME", help="matrix to use (default: attention)")
    add("--min-count", type=float, default=1, help="smallest count of a listed pair (default: 1)")
    add("--top", type=int, default=10, help="greatest number of translations of a source word (default: 10)")


def run(args: argparse.Namespace) -> None:
    at_least(args, top=1, min_count=0)
    check_output("--out", args.out, args.files)
    counts: PairCounts = {}
    sentences = 0
    # one by one: two files may have one label
    systems = [open_systems([path])[0] for path in with_attention(args.files, args.cpu)]
    check_output("--out", args.out, [system.path for system in systems])  # the files of model folders, too
    kinds = []
    for system in systems:
        system.weights_name(args.weights)
        header = system.header
        kinds.append([header.source_lang, header.target_lang, *([header.subwords] * (args.level == "subwords"))])
        if kinds[-1] != kinds[0]:
            raise OptionError(
                f"{system.path}: has {' '.join(kinds[-1])}, {systems[0].path} has {' '.join(kinds[0])}; a lexicon has "
                "one direction and one kind of subwords"
            )
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
