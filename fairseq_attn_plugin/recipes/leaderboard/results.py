"""The results of a run: what its folder holds, in one small JSON."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from fairseq_attn_plugin.corpora.files import read_lines, read_text

from ...analysis.alignment.evaluation import evaluate, load_alignments
from ...analysis.alignment.linking import Linking
from ...analysis.alignment.links import read_gold
from ...analysis.records.files import open_records
from ...analysis.report.systems import measures
from ...analysis.report.versions import versions_of
from ...analysis.training_logs import read_log
from ..errors import CorpusError
from ..tables import number, read_json, read_scores
from ..translation.run import TranslationRun

__all__ = ["collect", "sentence_statistics"]

LOG_LINES = 5
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")


def collect(run: TranslationRun, forced: Path) -> Dict[str, Any]:
    """Everything that the leaderboard shows of a finished run, and what its tests need.

    Args:
        run: trained, translated and scored
        forced: attention to the references of the split

    Raises:
        CorpusError: a file of the run is missing or damaged
    """
    experiment, settings = run.experiment, run.experiment.settings
    log, text = run.folder / "train.log", experiment.data.path / "text"
    reference = text / f"{settings.split}.{settings.target}"
    hypotheses = run.system.file(settings.split, "hyp")
    usage = run.folder / "cpu.json"
    measured = measures(open_records(forced))
    result: Dict[str, Any] = {
        "segmentation": settings.bpe_tag,
        "split": settings.split,
        "options": " ".join(run.training.options),
        "versions": {
            **versions_of("fairseq_attn_plugin", "fairseq", "torch", "sacrebleu"),
            "python": platform.python_version(),
        },
        "device": "cpu" if experiment.shell.cpu_options(settings.device) else "cuda",
        "parameters": _parameters(log),
        **_training(log, run.training.best),
        **_scores(run),
        "entropy": round(measured.entropy, 4),
        "information": round(measured.information, 4),
        "cpu_seconds_per_1000_updates": None,
        "statistics": sentence_statistics(
            read_lines(hypotheses), read_lines(reference), lowercase=experiment.corpus.lowercase
        ),
        "log_end": [line.replace(f"{experiment.work}/", "") for line in read_text(log).splitlines()[-LOG_LINES:]],
    }
    if usage.is_file():
        content = read_json(usage)
        seconds, updates = number(content, usage, "seconds"), number(content, usage, "updates")
        result["cpu_seconds_per_1000_updates"] = round(1000 * seconds / updates, 1)
    faithfulness = run.folder / "faithfulness.json"  # of fairseq-attn faithfulness --out, where a user made it
    if faithfulness.is_file():
        result["faithfulness"] = read_json(faithfulness).get("measures")
    gold = text / f"{settings.split}.align"
    if gold.is_file():
        systems, _ = load_alignments([str(forced)], Linking(end="exclude"))
        (found,) = evaluate(systems, read_gold(str(gold)))
        result["aer"] = round(found.score.aer, 4)
    return result


def _parameters(log: Path) -> Optional[int]:
    found = _PARAMETERS.findall(read_text(log))
    return int(found[-1].replace(",", "")) if found else None


def _training(log: Path, best: Path) -> Dict[str, Any]:
    """Validation perplexity by epoch, and epoch, updates and perplexity of the best checkpoint."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    by_epoch = read_log(log).valid.get("ppl", {})
    by_updates = read_log(log, "updates").valid.get("ppl", {})
    state = load_checkpoint_to_cpu(str(best))
    updates = int(state["optimizer_history"][-1]["num_updates"])
    following = state["extra_state"]["train_iterator"]  # of the next update: at the end of an epoch the next epoch
    if updates not in by_updates:
        raise CorpusError(f"{log} has no validation at update {updates}, which {best} was saved at: train again")
    return {
        "updates": max(by_updates),
        "best_updates": updates,
        "best_epoch": following["epoch"] - (following["iterations_in_epoch"] == 0),
        "valid_perplexity": by_updates[updates],
        "valid_perplexities": {str(epoch): value for epoch, value in sorted(by_epoch.items())},
    }


def _scores(run: TranslationRun) -> Dict[str, Any]:
    """Scores and signatures that sacreBLEU wrote, chrF and TER of the detokenised text.

    Without original references there is no detokenised BLEU, and chrF and TER are those of the tokenised text.
    """
    files = [run.system.file(run.experiment.settings.split, f"{name}.json") for name in ("tokenized", "detokenized")]
    tokenized, detokenized = (read_scores(file) if file.is_file() else None for file in files)
    best = detokenized or tokenized or {}
    return {
        "bleu": {"tokenized": tokenized and tokenized["BLEU"], "detokenized": detokenized and detokenized["BLEU"]},
        "chrf": best.get("chrF2"),
        "ter": best.get("TER"),
    }


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool) -> Dict[str, Any]:
    """What BLEU of tokenised text needs of each sentence, counted by sacreBLEU.

    Returns:
        ``sentences``: words of the translation, words of the reference, and the matching n-grams for n = 1 to 4, with
        blanks between them; a translation of w words has max(0, w - n + 1) n-grams
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=lowercase, tokenize="none", force=True)
    lines: List[str] = []
    for hypothesis, reference in zip(hypotheses, references):
        score = metric.corpus_score([hypothesis], [[reference]])
        lines.append(" ".join(map(str, [score.sys_len, score.ref_len, *score.counts])))
    return {"lowercase": lowercase, "sentences": lines}
