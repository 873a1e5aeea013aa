"""The best translations of fairseq-generate, in the order of the test set.

fairseq-generate sorts sentences by length and writes lines ``D-<number> TAB score TAB translation``. A missing sentence
is an error, because all later lines would be scored against the wrong references.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional, Tuple

from fairseq_attn_plugin.corpora.files import read_lines, read_text, split_lines, write_lines
from fairseq_attn_plugin.corpora.tokens import detokenize

from ..errors import CorpusError

__all__ = ["read_hypotheses", "write_hypotheses"]


def read_hypotheses(path: Path, expected: int) -> List[str]:
    """The translations by sentence number.

    Args:
        path: ``generate-SPLIT.txt``
        expected: number of sentences

    Raises:
        CorpusError: there are fewer or more
    """
    best: Dict[int, str] = {}
    for line in split_lines(read_text(path)):
        if line.startswith("D-"):
            name, _, sentence = line.split("\t", 2)
            # with --nbest the best translation comes first
            best.setdefault(int(name[2:]), " ".join(sentence.split()))
    missing = [number for number in range(expected) if number not in best]
    if missing or len(best) != expected:
        detail = f" (number {missing[0]} is missing)" if missing else ""
        raise CorpusError(
            f"{path} holds {len(best)} translations for {expected} sentences{detail}: run the generate stage again"
        )
    return [best[number] for number in range(expected)]


def write_hypotheses(
    generated: Path, reference: Path, to: Path, detokenized: Optional[Tuple[str, Path]] = None
) -> None:
    """Writes the translations to ``to``, and detokenised to another file if ``detokenized`` has language and path."""
    lines = read_hypotheses(generated, len(read_lines(reference)))
    write_lines(to, lines)
    if detokenized is not None:
        language, path = detokenized
        write_lines(path, detokenize(lines, language))
