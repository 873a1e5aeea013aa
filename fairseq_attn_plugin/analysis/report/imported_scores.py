"""Scores of a report's translations by another program, such as COMET: the texts for it, and what it gave back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from fairseq_attn_plugin.analysis.outputs.segment_scores import read_segment_scores, scores_of
from fairseq_attn_plugin.analysis.outputs.significance import Score, score_seeds
from fairseq_attn_plugin.analysis.report.corpus import Corpus, outputs_of
from fairseq_attn_plugin.analysis.report.seeds import Group
from fairseq_attn_plugin.analysis.report.settings import Settings
from fairseq_attn_plugin.analysis.report.systems import Reported
from fairseq_attn_plugin.writing import whole_text

__all__ = ["scores_by_group", "write_texts"]


def write_texts(reported: Sequence[Reported], corpus: Corpus, out: Path) -> None:
    """Writes the source, the references and each training's translations, a line for each sentence."""
    texts: Dict[str, Sequence[str]] = {"source.txt": corpus.source, "reference.txt": corpus.reference}
    texts.update({f"outputs/{name}.txt": lines for name, lines in outputs_of(reported, corpus).items()})
    for name, lines in texts.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        with whole_text(out / name, f"--out {out}: {name} cannot be written") as stream:
            stream.writelines(f"{line}\n" for line in lines)


def scores_by_group(
    groups: Sequence[Group], settings: Settings, sentences: int, baseline: Optional[str]
) -> Dict[str, Dict[str, Score]]:
    """{metric: {system: score}} of the settings' files. The score of a training is the mean of its sentences.

    Raises:
        OptionError: a file lacks a training, or has another number of sentences
    """
    found: Dict[str, Dict[str, Score]] = {}
    for text in settings.scores:
        given = read_segment_scores(text)
        runs = scores_of(given, {run.system.name: None for group in groups for run in group.runs}, sentences)
        counted: Dict[str, List[Any]] = {
            # of each sentence its score and its number
            group.name: [np.array([(value, 1.0) for value in runs[run.system.name]]) for run in group.runs]
            for group in groups
        }
        if baseline is None:
            means = {name: [_mean(lines.sum(0)) for lines in seeds] for name, seeds in counted.items()}
            found[given.metric] = {name: Score(float(np.mean(seeds)), seeds) for name, seeds in means.items()}
        else:
            seeds_of = {group.name: group.seeds for group in groups}
            found[given.metric] = score_seeds(
                counted, baseline, settings.samples, score=_mean, least=-np.inf, seeds_of=seeds_of
            )
    return found


def _mean(statistics: Any) -> float:
    return float(statistics[0] / statistics[1])
