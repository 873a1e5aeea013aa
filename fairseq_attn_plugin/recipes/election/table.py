"""The table of the election recipe: BLEU of its systems and satisfaction of its election, compared with the paper."""

from __future__ import annotations

from pathlib import Path
from typing import List, Mapping, Optional

from ..tables import markdown, number, read_json, read_scores
from ..text.files import write_lines
from .systems import SYSTEMS

__all__ = ["satisfaction", "scores", "write_table"]

# percent, by rule of the window; table 2 of the paper
PAPER_SATISFACTION = {"log4": 55.01, "log3": 90.17, "log2": 93.22, "half": 96.24}


def scores(files: Mapping[str, Path]) -> List[str]:
    """A table of scores by system, from files of sacreBLEU, and all distinct signatures."""
    found = {system: read_scores(path) for system, path in files.items()}
    metrics = list(dict.fromkeys(metric for scores in found.values() for metric in scores))
    rows = []
    for system, by_metric in found.items():
        kind = SYSTEMS.get(system)
        paper = f"{kind.bleu:.2f}" if kind and kind.bleu else ""
        shown = [f"{by_metric[metric]['score']:.2f}" if metric in by_metric else "" for metric in metrics]
        rows.append([kind.title if kind else system, *shown, paper])
    lines = [*markdown(["system", *metrics, "paper, BLEU"], rows), ""]
    for metric in metrics:
        distinct = dict.fromkeys(scores[metric]["signature"] for scores in found.values() if metric in scores)
        lines.append(f"{metric}: " + ", ".join(f"`{signature}`" for signature in distinct) + "  ")
    return [*lines[:-1], lines[-1].strip()]


def satisfaction(path: Path) -> List[str]:
    """A table of satisfaction in percent by rule of the window, from the file of the election."""
    content = read_json(path)
    rows = []
    for rule in content.get("rules") or ():
        name = str(rule.get("rule"))
        shares = [f"{number(rule, path, 'satisfaction', method):.2f}" for method in ("k-borda", "sntv", "bloc")]
        paper = PAPER_SATISFACTION.get(name)
        mean, mass = number(rule, path, "mean_k"), number(rule, path, "mass")
        rows.append([name, f"{mean:.2f}", *shares, f"{mass:.3f}", f"{paper:.2f}" if paper else ""])
    chosen = content.get("recommended") or {}
    sigma, mean = number(chosen, path, "sigma"), number(chosen, path, "mean")
    ratio = number(content, path, "length_ratio")
    return [
        *markdown(["k", "mean k", "k-Borda", "SNTV", "Bloc", "attention inside", "paper"], rows),
        "",
        f"Satisfaction in percent, of the validation set. Chosen: {chosen.get('rule')}, sigma {sigma:.3f}, "
        f"mean {mean:+.3f}; {ratio:.3f} target words per source word.",
    ]


def write_table(title: str, files: Mapping[str, Path], election: Optional[Path], to: Path) -> None:
    """Writes and prints the table.

    Args:
        title: of the table
        files: of sacreBLEU, by system
        election: JSON of the election; None: without satisfaction
        to: Markdown file

    Raises:
        CorpusError: a file is missing or damaged
    """
    lines = ["## " + title, "", *scores(files)]
    if election is not None:
        lines += ["", *satisfaction(election)]
    write_lines(to, lines)
    print("\n".join(lines), flush=True)
