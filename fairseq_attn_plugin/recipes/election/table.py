"""The table of the election recipe: BLEU of its systems and satisfaction of its election, compared with the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from fairseq_attn_plugin.corpora.files import write_lines

from ...analysis.training_logs import read_log
from ..errors import OptionError
from ..tables import markdown, number, read_json, read_scores, write_json
from .systems import SYSTEMS

__all__ = ["results", "satisfaction", "scores", "write_table"]

# percent, by rule of the window; table 2 of the paper
PAPER_SATISFACTION = {"log4": 55.01, "log3": 90.17, "log2": 93.22, "half": 96.24}


def results(files: Mapping[str, Path], logs: Mapping[str, Path]) -> Dict[str, Dict[str, Any]]:
    """Scores of each system, and what its log says: validation perplexities by epoch, and that of its checkpoint.

    A system without a log, or with one in which no epoch ends, has its scores alone.

    Args:
        files: of sacreBLEU, by system
        logs: of fairseq-train, by system

    Raises:
        CorpusError: the scores of a system are missing or damaged
    """
    found: Dict[str, Dict[str, Any]] = {}
    for system, path in files.items():
        found[system] = {"scores": read_scores(path)}
        try:
            valid = read_log(logs[system]).valid if system in logs else {}
        except OptionError:
            continue
        perplexities, losses = valid.get("ppl"), valid.get("loss")
        if perplexities and losses:
            found[system]["valid_perplexities"] = perplexities
            # checkpoint_best.pt is that of the lowest loss
            found[system]["valid_perplexity"] = perplexities[min(losses, key=lambda epoch: losses[epoch])]
    return found


def scores(systems: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """A table of :func:`results`, and all distinct signatures."""
    metrics = list(dict.fromkeys(metric for one in systems.values() for metric in one["scores"]))
    rows = []
    for system, one in systems.items():
        kind = SYSTEMS.get(system)
        by_metric = one["scores"]
        paper = f"{kind.bleu:.2f}" if kind and kind.bleu else ""
        shown = [f"{by_metric[metric]['score']:.2f}" if metric in by_metric else "" for metric in metrics]
        perplexity = f"{one['valid_perplexity']:.2f}" if "valid_perplexity" in one else ""
        rows.append([kind.title if kind else system, perplexity, *shown, paper])
    lines = [*markdown(["system", "validation perplexity", *metrics, "paper, BLEU"], rows), ""]
    for metric in metrics:
        used = [one["scores"][metric]["signature"] for one in systems.values() if metric in one["scores"]]
        lines.append(f"{metric}: " + ", ".join(f"`{signature}`" for signature in dict.fromkeys(used)) + "  ")
    return [*lines[:-1], lines[-1].strip()]


def satisfaction(content: Dict[str, Any], path: Path) -> List[str]:
    """A table of satisfaction in percent by rule of the window, from the election in the file ``path``."""
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
    title: str,
    files: Mapping[str, Path],
    election: Optional[Path],
    to: Path,
    logs: Optional[Mapping[str, Path]] = None,
    about: Optional[Mapping[str, Any]] = None,
) -> None:
    """Writes the table as Markdown, prints it, and writes its figures as JSON beside it.

    Args:
        title: of the table
        files: of sacreBLEU, by system
        election: JSON of the election; None: without satisfaction
        to: Markdown file
        logs: of fairseq-train, by system; a system without one has no perplexity
        about: what the JSON says besides

    Raises:
        CorpusError: a file is missing or damaged
    """
    content: Dict[str, Any] = {"title": title, **(about or {}), "systems": results(files, logs or {})}
    lines = ["## " + title, "", *scores(content["systems"])]
    if election is not None:
        content["election"] = read_json(election)
        lines += ["", *satisfaction(content["election"], election)]
    write_lines(to, lines)
    write_json(to.with_suffix(".json"), content)
    print("\n".join(lines), flush=True)
