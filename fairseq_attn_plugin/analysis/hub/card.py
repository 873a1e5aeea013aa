"""The card of a model: what it is, what it was trained on, its scores with their signatures, and how it is used."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, Dict, List

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fairseq_attn_plugin.analysis.hub.packing import portable
from fairseq_attn_plugin.analysis.pages.frame import HERE
from fairseq_attn_plugin.model_folder import ModelFolder

__all__ = ["model_card"]

METRICS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}


def model_card(folder: ModelFolder, name: str) -> str:
    """The card as Markdown with YAML in front, as a Hugging Face Hub reads it.

    Args:
        folder: its settings are shown, of paths the names
        name: of the repository, ``USER/MODEL``
    """
    settings = portable(folder.settings)
    source, target = folder.languages
    command = settings.get("command")
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown: _plain escapes
    )
    environment.filters.update(plain=_plain, yaml=_yaml)
    return environment.get_template("model_card.md").render(
        name=name,
        local=name.rpartition("/")[2],
        source=source,
        target=target,
        architecture=settings.get("architecture") or "LSTM with attention",
        pairs=_pairs(settings.get("pairs")),
        scores=_scores(settings.get("scores")),
        command=shlex.join(map(str, command)) if isinstance(command, list) else command,
        versions=settings.get("versions") or {},
        bpe={"subword_nmt": "BPE (subword-nmt)", "sentencepiece": "SentencePiece"}.get(settings["bpe"], "none"),
        tokenizer="Moses" if settings["tokenizer"] else "none",
        lowercase=settings["lowercase"],
    )


def _pairs(pairs: Any) -> List[str]:
    if not isinstance(pairs, dict):
        return []
    return [f"{split}: {count:,} pairs" for split, count in pairs.items() if isinstance(count, int)]


def _scores(scores: Any) -> List[Dict[str, Any]]:
    """Those with a number, as {metric, score, signature}."""
    found = []
    for name, one in scores.items() if isinstance(scores, dict) else ():
        value = one.get("score") if isinstance(one, dict) else one
        if isinstance(value, (int, float)):
            signature = one.get("signature") if isinstance(one, dict) else None
            found.append(
                {"type": str(name), "name": METRICS.get(name, str(name)), "value": value, "signature": signature}
            )
    return found


def _plain(text: object) -> str:
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", " ".join(str(text).split()))


def _yaml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string is a YAML string
