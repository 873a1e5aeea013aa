"""The table of the election recipe: BLEU of its systems and satisfaction of its election, compared with the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from ...analysis.training_logs import read_log
from ..tables import markdown, number, read_json, read_scores, write_json
from ..text.files import write_lines
from .systems import SYSTEMS

__all__ = ["results", "satisfaction", "scores", "write_table"]

# percent, by rule of the window; table 2 of the paper
PAPER_SATISFACTION = {"log4": 55.01, "log3": 90.17, "log2": 93.22, "half": 96.24}


def results(files: Mapping[str, Path], logs: Mapping[str, Path]) -> Dict[str, Dict[str, Any]]:
    """Scores of each system, and its validation perplexities by epoch if it has a log of its training.

    Args:
        files: of sacreBLEU, by system
        logs: of fairseq-train, by system

    Raises:
        CorpusError: a file is missing or damaged
    """
    found: Dict[str, Dict[str, Any]] = {system: {"scores": read_scores(path)} for system, path in files.items()}
    for system, log in logs.items():
        found[system]["valid_perplexities"] = read_log(log).valid.get("ppl", {})
    return found


def scores(systems: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """A table of :func:`results`, with the lowest perplexity of each system, and all distinct signatures."""
    metrics = list(dict.fromkeys(metric for one in systems.values() for metric in one["scores"]))
    rows = []
    for system, one in systems.items():
        kind = SYSTEMS.get(system)
        by_metric, perplexities = one["scores"], one.get("valid_perplexities")
        paper = f"{kind.bleu:.2f}" if kind and kind.bleu else ""
        shown = [f"{by_metric[metric]['score']:.2f}" if metric in by_metric else "" for metric in metrics]
        perplexity = f"{min(perplexities.values()):.2f}" if perplexities else ""
        rows.append([kind.title if kind else system, perplexity, *shown, paper])
    lines = [*markdown(["system", "validation perplexity", *metrics, "paper, BLEU"], rows), ""]
    for metric in metrics:
        used = [one["scores"][metric]["signature"] for one in systems.values() if metric in one["scores"]]
        lines.append(f"{metric}: " + ", ".join(f"`{signature}`" for signature in dict.fromkeys(used)) + "  ")
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


def write_table(
    title: str, files: Mapping[str, Path], election: Optional[Path], to: Path, logs: Optional[Mapping[str, Path]] = None
) -> None:
    """Writes the table as Markdown, prints it, and writes its figures as JSON beside it.

    Args:
        title: of the table
        files: of sacreBLEU, by system
        election: JSON of the election; None: without satisfaction
        to: Markdown file
        logs: of fairseq-train, by system; a system without one has no perplexity

    Raises:
        CorpusError: a file is missing or damaged
    """
    content: Dict[str, Any] = {"title": title, "systems": results(files, logs or {})}
    lines = ["## " + title, "", *scores(content["systems"])]
    if election is not None:
        content["election"] = read_json(election)
        lines += ["", *satisfaction(election)]
    write_lines(to, lines)
    write_json(to.with_suffix(".json"), content)
    print("\n".join(lines), flush=True)
