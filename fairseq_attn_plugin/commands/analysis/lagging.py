"""Measures how far translations lag behind the source that is being read: average lagging and average proportion.

    fairseq-attn lagging mocha.jsonl monotonic.jsonl soft.jsonl

A source word counts as read when it, or a word after it, has had weight. AL: Ma et al. 2019, in words behind a writer
who keeps pace; AP: the mean share of the source that is read (Cho and Esipova 2016). The encodings of a bidirectional
encoder need the whole source: only with a unidirectional one (--arch attn_lstm) and --decoder-zero-init the words that
are read are all that the translation has seen.
"""

import argparse
import math
import sys

from fairseq_attn_plugin.analysis.alignment.lagging import lagging_of
from fairseq_attn_plugin.analysis.folders import add_files, with_attention
from fairseq_attn_plugin.analysis.pages.document import markdown_table, plain
from fairseq_attn_plugin.analysis.records.files import open_systems
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "model folder or file of extract")
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.0,
        metavar="W",
        help="weights up to W, of a word the mean over its subwords, are no reading (default: 0)",
    )


def run(args: argparse.Namespace) -> None:
    if not 0 <= args.threshold < 1:
        raise OptionError(f"--threshold {args.threshold}: must be a weight, at least 0 and below 1")
    rows = []
    for records in open_systems(with_attention(args.files, args.cpu)):
        found = [lagging_of(record, args.threshold) for record in records]
        known = [one for one in found if one is not None]
        if not known:
            raise OptionError(f"{records.path}: has no sentence with words on both sides")
        means = [math.fsum(values) / len(known) for values in zip(*known)]
        rows.append([plain(records.label), f"{means[0]:.2f}", f"{means[1]:.3f}", str(len(known))])
        if len(known) < len(found):
            left_out = counted(len(found) - len(known), "sentence")
            print(f"{records.label}: {left_out} without words left out", file=sys.stderr)
    print(markdown_table(["system", "AL", "AP", "sentences"], rows, "lrrr"))
