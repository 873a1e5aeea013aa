"""``fairseq-attn frequency``: shares and accuracy of rare and frequent words in outputs.

    fairseq-attn frequency --train train.en --reference test.en soft=soft.out mqt=mqt.out

:mod:`fairseq_attn_plugin.analysis.outputs.frequency` defines the counts.
"""

import argparse
import sys
from typing import Collection, Dict

from fairseq_attn_plugin.analysis.folders import BEAM, add_files, folder_of_test, with_attention
from fairseq_attn_plugin.analysis.outputs import reading as outputs
from fairseq_attn_plugin.analysis.outputs.frequency import (
    REFERENCE,
    TRAINING,
    add_frequencies,
    analyse,
    count_training,
    to_json,
)
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_output, write_json


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "text, output of fairseq-generate, beam hypotheses of fairseq-attn extract, or model folder")
    parser.add_argument("--train", required=True, metavar="TEXT", help="target side of the training text")
    parser.add_argument("--reference", required=True, metavar="REF", help="references: text, or records")
    parser.add_argument("--json", metavar="FILE", help="JSON file to write all numbers to")


def run(args: argparse.Namespace) -> None:
    check_output("--json", args.json, [args.train, args.reference, *args.files])
    folder_of_test(args.files)  # the references are those of one test set
    args.files = with_attention(args.files, args.cpu, BEAM)
    check_output("--json", args.json, args.files)  # the files of model folders, too
    systems = outputs.read_systems(args.files)
    reference = outputs.read_reference(args.reference)
    for label in {TRAINING, REFERENCE} & set(systems):
        raise OptionError(f"{label}: is the name of another column; give the system another name, NAME=FILE")
    named = {f"--reference {args.reference}": reference, **systems}
    outputs.check_lengths(named)
    if not reference:
        raise OptionError(f"--reference {args.reference}: has no sentences")
    training = count_training(args.train)
    checked: Dict[str, Collection[str]] = {f"--train {args.train}": training.keys(), **named}
    outputs.check_tokenisation(checked)
    analysis = analyse(training, reference, systems)
    if args.json is not None:
        write_json("--json", args.json, to_json(analysis))
    document = Document(f"Words of {', '.join(systems)}")
    add_frequencies(document, analysis)
    sys.stdout.write(document.markdown(""))
