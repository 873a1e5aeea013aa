"""``fairseq-attn explore``: one page that shows the attention of sentences, in any browser and without a network.

fairseq-attn explore soft.jsonl structured=structured.jsonl --out attention.html
"""

import argparse
import sys
from pathlib import Path

from fairseq_attn_plugin.analysis.folders import BEAM, add_files, add_sentence_options, sentence_numbers, with_attention
from fairseq_attn_plugin.analysis.pages.frame import check_page
from fairseq_attn_plugin.analysis.web.explore import FIRST, explore
from fairseq_attn_plugin.options import at_least
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "model folder or file of fairseq-attn extract")
    parser.add_argument("--out", required=True, metavar="FILE.html", help="page to write")
    add_sentence_options(parser, f"{FIRST}")


def run(args: argparse.Namespace) -> None:
    check_page("--out", args.out)
    check_output("--out", args.out, ())
    at_least(args, first=0)
    numbers = sentence_numbers(args.sentences)
    files = with_attention(args.files, args.cpu, BEAM)
    explored = explore(files, args.out, numbers, FIRST if args.first is None else args.first)
    count = len(explored.data["sentences"])
    size = Path(args.out).stat().st_size / 1e6
    print(f"{args.out}: {counted(count, 'sentence')}, {size:.1f} MB; open it in a browser")
    if explored.cut:
        sys.stderr.write(
            f"only the first {counted(count, 'sentence')}; --first 0 shows all, --sentences 3 17 20-25 shows some\n"
        )
    if explored.missing:
        names = " ".join(map(str, explored.missing[:10])) + (" ..." if len(explored.missing) > 10 else "")
        sys.stderr.write(f"--sentences {names}: not in the files\n")
