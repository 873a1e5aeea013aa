"""Measures alignment error rate, precision, recall and F1 of systems against gold word alignments.

    fairseq-attn aer --gold test.align soft.jsonl lstm_adm.jsonl fast_align=forward.align
    fairseq-attn aer --gold eflomal.align soft.align

A system is a Pharaoh file, with a line ``0-0 1-2`` for each sentence, or a file of ``fairseq-attn extract``, whose
attention is aligned as ``fairseq-attn align`` does it. Precision is measured on possible links, recall on sure links;
F1 is their harmonic mean. The links of another aligner in the place of gold ones show how much two aligners agree.
"""

import argparse
import sys
from typing import List, Sequence

from fairseq_attn_plugin.analysis.alignment.evaluation import Evaluation, error_table, evaluate, load_alignments
from fairseq_attn_plugin.analysis.alignment.linking import METHODS, add_linking_options, describe_linking, linking_of
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, add_gold_options, read_gold
from fairseq_attn_plugin.analysis.folders import add_files, with_attention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import check_unread
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output, write_json


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "model folder, records of fairseq-attn extract, or links")
    add_gold_options(parser, "gold alignments", required=True)
    parser.add_argument("--json", metavar="FILE", help="also write the figures to FILE")
    add_linking_options(parser)


def run(args: argparse.Namespace) -> None:
    check_output("--json", args.json, [args.gold, *args.files])
    linking = linking_of(args)
    matrix = METHODS[args.method]
    args.files = with_attention(args.files, args.cpu, matrices=() if matrix is None else (matrix,))
    check_output("--json", args.json, args.files)  # the files of model folders, too
    systems, lengths = load_alignments(args.files, linking)
    gold = read_gold(args.gold, args.one_based, lengths)
    if not gold or not systems[0].links:
        raise OptionError(f"{args.gold if not gold else systems[0].path}: has no sentence")
    if all(system.lengths is None for system in systems):
        check_unread(args, "has no effect on files of links; leave it out", add_linking_options)
    results = evaluate(systems, gold)
    if args.json:
        systems_in_json = {
            label: {**score._asdict(), "f1": score.f1, "links": links, "sentences_left_out": left_out}
            for label, score, links, left_out in results
        }
        content = {"gold": args.gold, "sentences": len(gold), "linking": linking._asdict(), "systems": systems_in_json}
        write_json("--json", args.json, content)
    sure, possible = (sum(len(one[index]) for one in gold) for index in (0, 1))
    print(f"{args.gold}: {counted(len(gold), 'sentence')}, {sure} sure and {possible - sure} only possible links\n")
    print(error_table(results))
    print("\nPrecision: possible links; recall: sure links; F1: their harmonic mean (Fraser and Marcu 2007).")
    if any(system.lengths is not None for system in systems):
        print(f"Records: {describe_linking(linking)}.")
    for system in systems:
        if linking.weights and system.weights not in (None, linking.weights):
            print(f"{system.label}: has no {linking.weights}; its {system.weights} is used", file=sys.stderr)
    for note in _notes(args, results, gold):
        print(note, file=sys.stderr)


def _notes(args: argparse.Namespace, results: Sequence[Evaluation], gold: Sequence[GoldAlignment]) -> List[str]:
    """Possible mistakes that the figures do not show."""
    notes = []
    links = [link for one in gold for link in one.possible]
    if links and not args.one_based and min(map(min, links)) > 0 and len(gold) > 1:
        notes.append(f"{args.gold}: word 0 has no link; if the file counts from 1, give --one-based")
    empty = sum(not one.possible for one in gold)
    if empty:
        notes.append(f"{args.gold}: {empty} of the {len(gold)} sentences have no gold link")
    for result in results:
        if result.left_out:
            lacking = f"{result.left_out} of the {len(gold)} sentences"
            notes.append(f"{result.label}: its records lack {lacking}, which count as sentences without links")
    return notes
