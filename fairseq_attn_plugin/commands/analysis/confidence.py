"""Measures how sure the attention of a model looks, and how far that tells the quality of its translations.

    fairseq-attn confidence soft.seed1=soft1.jsonl soft.seed2=soft2.jsonl --reference test.en

The measures of each sentence are coverage and entropies of its attention (Rikters and Fishel 2017) and, to compare
with, the model's own mean log probability and minus the length of the source. With references the table has the
correlation of each measure with sentence chrF. ``--json`` has the measures of each sentence.
"""

import argparse
import math
from typing import Any, Dict, List, Optional

from tqdm import tqdm

from fairseq_attn_plugin.analysis.folders import BEAM, add_files, with_attention
from fairseq_attn_plugin.analysis.outputs.confidence import Correlation, correlate, sentence_chrf
from fairseq_attn_plugin.analysis.outputs.reading import check_lengths, read_reference
from fairseq_attn_plugin.analysis.pages.document import markdown_table, plain
from fairseq_attn_plugin.analysis.records.confidence import measures_of
from fairseq_attn_plugin.analysis.records.files import Records, open_systems
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least, check_unread
from fairseq_attn_plugin.writing import check_output, write_json


def configure(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "records of translations, or model folders")
    parser.add_argument("--reference", metavar="FILE", help="references, in words (default: those of the records)")
    _add_bootstrap(parser)
    parser.add_argument("--json", metavar="FILE", help="also write all figures to FILE")
    parser.add_argument("--weights", metavar="NAME", help="matrix to use (default: attention)")


def _add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--samples", type=int, default=1000, help="samples of the bootstrap (default: 1000)")
    parser.add_argument("--seed", type=int, default=12345, help="random seed of the bootstrap (default: 12345)")


def run(args: argparse.Namespace) -> None:
    at_least(args, samples=2, seed=0)
    check_output("--json", args.json, [args.reference, *args.files])
    systems = open_systems(with_attention(args.files, args.cpu, BEAM))
    check_output("--json", args.json, [system.path for system in systems])  # the files of model folders, too
    references = None if args.reference is None else read_reference(args.reference)
    if references is not None:
        sizes = {str(system.path): [""] * system.header.sentences for system in systems}
        check_lengths({f"--reference {args.reference}": references, **sizes})
    rows: List[List[str]] = []
    results: Dict[str, Any] = {}
    correlated = False
    for system in systems:
        measures, ids, quality = _measure(system, references, args)
        result: Dict[str, Any] = {"sentences": len(ids)}
        if quality is None:
            result["measures"] = {name: {"mean": sum(values) / len(values)} for name, values in measures.items()}
            for name, one in result["measures"].items():
                rows.append([plain(system.label), name, f"{one['mean']:.3f}", "", "", "", ""])
        else:
            found, correlated = correlate(measures, quality, args.samples, args.seed), True
            result["chrf"] = chrf = sum(quality) / len(quality)
            result["measures"] = {name: one._asdict() for name, one in found.items()}
            rows.extend(_row(plain(system.label), name, one, chrf) for name, one in found.items())
        result["each"] = {"id": ids, **measures}
        results[system.label] = result
    if not correlated:
        check_unread(args, "needs references, with which the bootstrap correlates", _add_bootstrap)
    if args.json:
        write_json("--json", args.json, {"samples": args.samples, "seed": args.seed, "systems": _finite(results)})
    headers = ["system", "measure", "mean", "Spearman", "Kendall", "given score", "chrF of the better half"]
    print(markdown_table(headers, rows, "llrrrrr"))
    if correlated:
        print("\nBrackets: 95 % of the bootstrap. Given score: Spearman's partial correlation, the score held fixed.")
        print("Behind the slash: chrF of all sentences. chrF is the mean over sentences.")


def _finite(value: Any) -> Any:
    """The same without infinities, which JSON cannot express: the score of an impossible translation."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _measure(system: Records, references: Optional[List[str]], args: argparse.Namespace) -> Any:
    """{measure: values}, the numbers of the sentences, and their chrF, or None without references."""
    measures: Dict[str, List[float]] = {}
    ids: List[int] = []
    translations: List[str] = []
    wanted: List[str] = []
    weights = system.weights_name(args.weights)
    for record in tqdm(system, system.label, system.header.sentences, unit=" sentences", disable=None):
        values = measures_of(record, weights)
        if ids and set(values) != set(measures):
            raise OptionError(f"{system.path}: only some of its sentences have probabilities, not sentence {record.id}")
        for name, value in values.items():
            measures.setdefault(name, []).append(value)
        reference = record.reference if references is None else references[record.id]
        ids.append(record.id)
        if reference is not None:
            wanted.append(reference)
            translations.append(" ".join(record.target_words))
    if not ids:
        raise OptionError(f"{system.path}: has no sentence")
    if system.header.target == "reference" and references is not None:
        raise OptionError(f"{system.path}: contains attention to the references, whose quality is no question")
    whole = len(wanted) == len(ids)
    return measures, ids, sentence_chrf(translations, wanted) if whole else None


def _row(label: str, name: str, one: Correlation, chrf: float) -> List[str]:
    def shown(value: Optional[float], interval: Any) -> str:
        if value is None:
            return ""
        # none if all values of each sample are equal
        return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")

    coefficients = [shown(one.spearman, one.spearman_interval), shown(one.kendall, one.kendall_interval)]
    given = "" if one.given_score is None else f"{one.given_score:.3f}"
    return [label, name, f"{one.mean:.3f}", *coefficients, given, f"{one.best_half:.2f} / {chrf:.2f}"]
