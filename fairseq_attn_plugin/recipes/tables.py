"""Tables and scores as files: Markdown by tabulate, JSON that is complete or absent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence

from fairseq_attn_plugin.corpora.files import read_text

from ..analysis.outputs.tables import markdown_table
from ..writing import whole_text
from .errors import CorpusError

__all__ = ["markdown", "number", "read_json", "read_scores", "write_json"]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> List[str]:
    """Lines of a table; the columns ``left`` are aligned to the left, all others to the right."""
    align = "".join("l" if column in left else "r" for column in range(len(header)))
    return markdown_table(header, rows, align).split("\n")


def read_json(path: Path) -> Dict[str, Any]:
    """An object in a file.

    Raises:
        CorpusError: the file is missing or damaged, or holds something else
    """
    content = _read(path)
    if not isinstance(content, dict):
        raise CorpusError(f"{path} holds no table: run its stage again")
    return content


def read_scores(path: Path) -> Dict[str, Dict[str, Any]]:
    """Score and signature of each metric, ``BLEU``, ``chrF2`` and ``TER``, from a file of sacreBLEU; at least BLEU.

    Raises:
        CorpusError: the file is missing or damaged, or holds something else
    """
    content = _read(path)
    # with one metric, as in files of earlier versions, sacreBLEU writes an object
    entries = content if isinstance(content, list) else [content]
    found = {str(entry.get("name", "BLEU")): entry for entry in entries if isinstance(entry, dict)}
    if "BLEU" not in found:
        raise CorpusError(f"{path} has no BLEU: run its stage again")
    return {
        name: {"score": number(entry, path, "score"), "signature": str(entry.get("signature"))}
        for name, entry in found.items()
    }


def _read(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        raise CorpusError(f"{path} is not JSON ({error}): run its stage again") from None


def write_json(path: Path, content: Any) -> None:
    with whole_text(path, f"{path} cannot be written") as stream:
        stream.write(json.dumps(content, indent=1) + "\n")


def number(content: Dict[str, Any], path: Path, *keys: str) -> float:
    """The number at ``content[key][key]...``.

    Raises:
        CorpusError: there is none; ``path`` is named
    """
    value: Any = content
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, (int, float)):
        raise CorpusError(f"{path} has no {'.'.join(keys)}: run its stage again")
    return float(value)
