#!/usr/bin/env python3
"""Prints tables of trainings: for each file of results means over seeds, and tests against a baseline.

    python scripts/leaderboard.py benchmarks/results/multi30k-de-en-epoch3.jsonl --baseline lstm_soft

A line of a file is a finished run, as in benchmarks/results; one without statistics of its sentences is left out. The
tables are in Markdown. Numbers are means over the seeds, in brackets their standard deviation. Perplexity is that of
the validation set, per subword, at the best epoch; BLEU that of the tokenised text, without further tokenisation. The
entropy is that of the attention to the references; information says how much a step tells of the position that it
attends to, from 0 to 1. Seconds are CPU time.

"+-" is half of the 95 per cent interval of the mean BLEU, and p the probability of so large a difference to the
baseline by chance: paired bootstrap of the sentences, together for all seeds that both systems have, or for all of each
if they have none in common. "Holm" is p corrected for the number of comparisons (Holm 1979). There is no p where the
translations are those of the baseline, or BLEU is 0.00.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
from tabulate import tabulate

from fairseq_attn_plugin.analysis.outputs.significance import score_seeds
from fairseq_attn_plugin.analysis.report.systems import spread
from fairseq_attn_plugin.errors import OptionError, install_hook

Run = Dict[str, Any]  # a line of a file
BASELINES = ("lstm_soft", "small-soft")  # a table compares with the first of these that it has, or its first system
ORDERS = 4  # n-grams of BLEU
# header: the keys of the number, and its digits
COLUMNS = {
    "parameters": (("parameters",), 0),
    "updates to the best epoch": (("best_updates",), 0),
    "perplexity": (("valid_perplexity",), 2),
    "BLEU": (("bleu", "tokenized", "score"), 2),
    "BLEU, detokenised": (("bleu", "detokenized", "score"), 2),
    "chrF": (("chrf", "score"), 2),
    "TER": (("ter", "score"), 2),
    "entropy": (("entropy",), 2),  # in nats, or divided by log n: benchmarks/results/README.md says which
    "information": (("information",), 2),
    "s for 1,000 updates": (("cpu_seconds_per_1000_updates",), 0),
    "AER": (("aer",), 3),
    "tau, leave-one-out": (("faithfulness", "tau leave-one-out"), 3),
    "comprehensiveness": (("faithfulness", "comprehensiveness 1"), 3),
}


def read_runs(path: Path) -> Dict[str, List[Run]]:
    """The runs of a file by system, in the order of their seeds.

    Raises:
        OptionError: the file cannot be read, a line is not a run, a system has two runs of a seed, or the runs are not
            of the same sentences
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise OptionError(f"{path}: cannot be read: {error}") from None
    systems: Dict[str, List[Run]] = {}
    for number, line in enumerate(lines, 1):
        try:
            run = json.loads(line)
            if "statistics" not in run:
                continue  # it was stopped early, and is not of all sentences
            run["counts"] = bleu_statistics([[*map(int, one.split())] for one in run["statistics"]["sentences"]])
            run["bleu"]["tokenized"]["score"]
            others = systems.setdefault(run["system"], [])
            twice = run["seed"] in [one["seed"] for one in others]
            others.append(run)
        except (TypeError, ValueError, KeyError):
            raise OptionError(
                f"{path}: line {number} is not a run with system, seed, bleu and statistics of sentences"
            ) from None
        if twice:  # it would count as another seed
            raise OptionError(f"{path}: line {number} is a second run of {run['system']} with seed {run['seed']}")
    sizes = {len(run["counts"]) for runs in systems.values() for run in runs}
    if len(sizes) != 1:
        different = f"are of {' and '.join(map(str, sorted(sizes)))} sentences; all must be of the same"
        raise OptionError(f"{path}: the runs {different if sizes else 'have no statistics of sentences'}")
    return {system: sorted(runs, key=lambda run: run["seed"]) for system, runs in systems.items()}


def bleu(statistics: np.ndarray) -> float:
    """BLEU of summed statistics: words of the translation, of the reference, and matches and totals of n = 1 to 4.

    Shapes:
        statistics: [2 + 2 * 4]
    """
    from sacrebleu.metrics import BLEU

    counts: List[int] = [int(count) for count in statistics]
    score = BLEU.compute_bleu(counts[2 : 2 + ORDERS], counts[2 + ORDERS :], counts[0], counts[1], smooth_method="exp")
    return float(score.score)


def bleu_statistics(lines: Sequence[Sequence[int]]) -> np.ndarray:
    """[sentences, 2 + 2 * 4], which :func:`bleu` takes the sum of.

    Args:
        lines: for each sentence, words of translation and reference and four matches; a translation of w words has
            max(0, w - n + 1) n-grams
    """
    given = np.asarray(lines, dtype=np.int64).reshape(len(lines), 2 + ORDERS)
    totals = np.maximum(given[:, :1] - np.arange(ORDERS), 0)
    return np.concatenate([given, totals], axis=1)


def holm(p_values: Mapping[str, float]) -> Dict[str, float]:
    """The p-values corrected for their number (Holm 1979): the i-th smallest of m becomes
    max over j <= i of min(1, (m - j + 1) p_j)."""
    corrected: Dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}


score_bleu = partial(score_seeds, score=bleu)


def table(systems: Mapping[str, List[Run]], baseline: str, samples: int) -> str:
    """The table of systems in Markdown; ``samples`` are those of the bootstrap, 0 for no test."""
    rows: Dict[str, Dict[str, Any]] = {name: {"system": name, "seeds": len(runs)} for name, runs in systems.items()}
    tests: Dict[str, Dict[str, str]] = {name: {} for name in systems}
    if samples:
        counts = {name: [run["counts"] for run in runs] for name, runs in systems.items()}
        seeds = {name: [run["seed"] for run in runs] for name, runs in systems.items()}
        scores = score_bleu(counts, baseline, samples, seeds_of=seeds)
        p_values = {name: score.p_value for name, score in scores.items() if score.p_value is not None}
        corrected = holm(p_values)
        for name, score in scores.items():
            tests[name] = {"+-": f"{score.interval:.2f}"}
            if name in p_values:
                tests[name].update({"p": f"{p_values[name]:.3f}", "p, Holm": f"{corrected[name]:.3f}"})
    for header, (keys, digits) in COLUMNS.items():
        for name, runs in systems.items():
            value = spread((_number(run, keys) for run in runs), digits)
            rows[name].update({} if value is None else {header: value}, **(tests[name] if header == "BLEU" else {}))
    present = {header for row in rows.values() for header in row}
    headers = [one for one in ("system", "seeds", *COLUMNS) if one in present]
    headers[headers.index("BLEU") + 1 : headers.index("BLEU") + 1] = [x for x in ("+-", "p", "p, Holm") if x in present]
    lines = [[row.get(header, "") for header in headers] for row in rows.values()]
    return tabulate(lines, headers, tablefmt="github", disable_numparse=True)


def _number(run: Run, keys: Sequence[str]) -> Optional[float]:
    value: Any = run
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="files .jsonl, a run a line")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="systems to show, in this order (default: all)")
    parser.add_argument("--baseline", metavar="NAME", help="system that the others are compared with")
    parser.add_argument("--samples", type=int, default=1000, help="of the paired bootstrap; 0: no test (default: 1000)")
    args = parser.parse_args(argv)
    if args.samples < 0 or args.samples == 1:
        raise OptionError(f"--samples {args.samples}: must be at least 2, or 0 for none")
    for path in args.results:
        systems = read_runs(path)
        for option, names in (("--baseline", [args.baseline] if args.baseline else []), ("--systems", args.systems)):
            for name in names or []:
                if name not in systems:
                    raise OptionError(f"{option} {name}: must be among {', '.join(systems)}, the systems of {path}")
        baseline = args.baseline or next((one for one in BASELINES if one in systems), next(iter(systems)))
        names = args.systems or [baseline, *sorted(set(systems) - {baseline})]
        shown = {name: systems[name] for name in {**dict.fromkeys(names), baseline: None}}
        print(f"{path}, compared with {baseline}:", table(shown, baseline, args.samples), sep="\n\n", end="\n\n")


if __name__ == "__main__":
    install_hook()
    main()
