"""Word alignments in Pharaoh format, ``0-0 1-1`` in each line, of fast_align, eflomal, awesome-align and others."""

from __future__ import annotations

from typing import Iterator

from fairseq_attn_plugin.analysis.alignment.links import parse_alignment
from fairseq_attn_plugin.analysis.importing.lines import Text, numbered_lines
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence
from fairseq_attn_plugin.errors import OptionError

__all__ = ["read_pharaoh"]


def read_pharaoh(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names the line, if it is no list of links."""
    assert files.target_text is not None
    text = Text("--target-text", files.target_text)
    for number, (where, line) in enumerate(numbered_lines(files.path)):
        try:
            links = parse_alignment(line).possible
        except ValueError as error:
            raise OptionError(f"{where}: {error}") from None
        yield Sentence(where, number, text.tokens(number, where), links=links)
    text.check_end(files.path)
