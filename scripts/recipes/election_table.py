#!/usr/bin/env python3
"""The table of tatoeba_election.sh: scores of its systems and the satisfaction of its election, beside the paper's.

The paper is Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning", tables 2 and 3.
It puts the mask in the place of the teacher's attention and does not say that it trained any further.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

from parallel_text import CorpusError, read_text, status_of, write_lines

SYSTEMS = {
    "teacher": "teacher: additive attention",
    "mask": "mask of the election, not trained further",
    "mask-words": "mask and the agent's words, not trained further",
    "gaussian": "`lstm_gaussian`, trained further",
    "election-model": "`lstm_election`, trained further",
}
PAPER_BLEU = {"teacher": 24.22, "mask": 23.02, "mask-words": 23.65}
PAPER_SATISFACTION = {"log4": 55.01, "log3": 90.17, "log2": 93.22, "half": 96.24}


def read_json(path: str) -> Dict[str, Any]:
    try:
        content = json.loads(read_text(Path(path)))
    except ValueError as error:
        raise CorpusError("%s is no JSON (%s): run its stage again" % (path, error)) from None
    if not isinstance(content, dict):
        raise CorpusError("%s holds no table: run its stage again" % path)
    return content


def figure(content: Dict[str, Any], path: str, *keys: str) -> float:
    value: Any = content
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, (int, float)):
        raise CorpusError("%s has no %s: run its stage again" % (path, ".".join(keys)))
    return float(value)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> List[str]:
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return ["| %s |" % " | ".join(line) for line in lines]


def scores(entries: Sequence[str]) -> List[str]:
    """BLEU of ``SYSTEM=FILE`` each, FILE being sacreBLEU's; all signatures, which are one as a rule."""
    rows, signatures = [], []
    for entry in entries:
        system, _, path = entry.partition("=")
        content = read_json(path)
        paper = PAPER_BLEU.get(system)
        rows.append(
            [SYSTEMS.get(system, system), "%.2f" % figure(content, path, "score"), "%.2f" % paper if paper else ""]
        )
        signatures.append(str(content.get("signature")))
    distinct = ["`%s`" % signature for signature in dict.fromkeys(signatures)]
    return [*table(["system", "BLEU", "paper"], rows), "", "BLEU: " + ", ".join(distinct)]


def satisfaction(path: str) -> List[str]:
    """Satisfaction by rule of window size, in percent."""
    content = read_json(path)
    rows = []
    for rule in content.get("rules") or ():
        name = str(rule.get("rule"))
        shares = ["%.2f" % figure(rule, path, "satisfaction", method) for method in ("k-borda", "sntv", "bloc")]
        paper = PAPER_SATISFACTION.get(name)
        rows.append(
            [name, "%.2f" % figure(rule, path, "mean_k"), *shares, "%.3f" % figure(rule, path, "mass")]
            + ["%.2f" % paper if paper else ""]
        )
    chosen = content.get("recommended") or {}
    return [
        *table(["k", "mean k", "k-Borda", "SNTV", "Bloc", "attention inside", "paper"], rows),
        "",
        "Satisfaction in percent, of the validation set. Chosen: %s, sigma %.3f, mean %+.3f; %.3f target words per "
        "source word."
        % (chosen.get("rule"), *(figure(chosen, path, key) for key in ("sigma", "mean")),
           figure(content, path, "length_ratio")),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scores", nargs="+", required=True, metavar="SYSTEM=FILE", help="JSON of sacrebleu")
    parser.add_argument("--election", help="JSON of the election")
    parser.add_argument("--title", required=True)
    parser.add_argument("--to", required=True)
    args = parser.parse_args()
    lines = ["## " + args.title, "", *scores(args.scores)]
    if args.election:
        lines += ["", *satisfaction(args.election)]
    write_lines(Path(args.to), lines)
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(status_of(main))
