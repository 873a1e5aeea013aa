"""Which columns of a table hold source and target.

Tables of Tatoeba have more than two columns: ``English TAB German TAB attribution`` (manythings.org), ``number TAB
sentence TAB number TAB translation`` (tatoeba.org).
"""

from __future__ import annotations

import re
from typing import List, Optional, Sequence, Set, Tuple

from fairseq_attn_plugin.corpora.errors import CorpusError

__all__ = ["choose_columns"]

LOOKED_AT = 1000  # rows
NUMBER = re.compile(r"[-+]?\d+([.,]\d+)*")
# how headings name the two sides, and languages
SIDES = ({"source", "src", "source text"}, {"target", "tgt", "trg", "target text"})
LANGUAGES = dict(
    item.split("=")
    for item in "arabic=ar basque=eu bengali=bn bulgarian=bg catalan=ca chinese=zh croatian=hr czech=cs danish=da "
    "dutch=nl english=en esperanto=eo estonian=et finnish=fi french=fr galician=gl german=de greek=el hebrew=he "
    "hindi=hi hungarian=hu icelandic=is indonesian=id irish=ga italian=it japanese=ja korean=ko latin=la latvian=lv "
    "lithuanian=lt norwegian=no persian=fa polish=pl portuguese=pt romanian=ro russian=ru serbian=sr slovak=sk "
    "slovenian=sl spanish=es swahili=sw swedish=sv tamil=ta thai=th turkish=tr ukrainian=uk urdu=ur vietnamese=vi "
    "welsh=cy deutsch=de français=fr español=es italiano=it português=pt nederlands=nl polski=pl".split()
)
ENGLISH = frozenset(
    "the a an of to and is are was i you he she it we they that this in on for with not do have".split()
)


def choose_columns(
    name: str, rows: Sequence[Sequence[str]], languages: Sequence[str], given: Optional[Sequence[int]] = None
) -> Tuple[int, int, int, str]:
    """Source column, target column (from 0), number of header rows, and the reason of the choice for the user.

    A first row with both languages, by code or name, or with ``source`` and ``target``, names the columns. Otherwise
    numbers, attributions and what never changes are left out, and the first two columns count in their order; if one
    language is English, the column with more of its function words.

    Args:
        name: of the file, for messages
        rows: of the table, without empty ones
        languages: of source and target
        given: columns from 1 that the user chose

    Raises:
        CorpusError: there are no two columns of text
    """
    head = [cell.strip().lower() for cell in rows[0]]
    named = [
        next((place for place, cell in enumerate(head) if _names(cell, language, side)), -1)
        for language, side in zip(languages, SIDES)
    ]
    header = int(min(named) >= 0 and named[0] != named[1])
    if given:
        return given[0] - 1, given[1] - 1, header, ""
    if header:
        return named[0], named[1], header, ", as its first line says"
    sample = rows[:LOOKED_AT]
    width = min(len(row) for row in sample)
    if width < 2:
        number = next(place for place, row in enumerate(sample, 1) if len(row) < 2)
        raise CorpusError(
            f"{name}: row {number} has one column; expected a sentence, a tab and its translation, or two files, one "
            "for each language"
        )
    cells = {column: [row[column].strip() for row in sample] for column in range(width)}
    text = [column for column, column_cells in cells.items() if not _is_no_text(column_cells)]
    if len(text) < 2:
        raise CorpusError(f"{name}: has no two columns of sentences; choose them by --columns, as in --columns 1,2")
    first, second, *others = text
    why = f"; of {width} columns, --columns chooses others" if others or width > 2 else ""
    english = [_english(cells[column]) for column in (first, second)]
    spoken = [_base(language) for language in languages]
    clear = "en" in spoken and abs(english[0] - english[1]) > 0.1
    if clear and (english[1] > english[0]) != (spoken[1] == "en"):
        return second, first, 0, f", since column {(first if spoken[1] == 'en' else second) + 1} looks like English"
    return first, second, 0, why


def _base(language: str) -> str:
    """``pt`` of ``pt_BR``."""
    return language.lower().replace("-", "_").split("_")[0]


def _names(heading: str, language: str, side: Set[str]) -> bool:
    """Whether a heading, in lower case, names a language or its side."""
    return heading in (language.lower(), *side) or LANGUAGES.get(heading) == _base(language)


def _is_no_text(cells: List[str]) -> bool:
    """Whether a column holds numbers, attributions, or the same word in all of several rows, as a language."""
    marked = sum(bool(NUMBER.fullmatch(cell)) or "CC-BY" in cell or "CC BY" in cell or "http" in cell for cell in cells)
    return marked > len(cells) / 2 or (len(cells) > 1 and len(set(cells)) == 1)


def _english(cells: List[str]) -> float:
    """The share of words that are function words of English."""
    words = [word for cell in cells for word in cell.lower().replace("'", " ").split()]
    return sum(word in ENGLISH for word in words) / max(len(words), 1)
