"""Writes the sentences of another program as records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.importing.formats import FORMATS
from fairseq_attn_plugin.analysis.importing.lines import Text
from fairseq_attn_plugin.analysis.importing.marks import MARKS, count_marks, judged, marked
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence, record_of
from fairseq_attn_plugin.analysis.records.record import Header, Record
from fairseq_attn_plugin.analysis.records.writer import RecordWriter
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["Description", "import_file", "imported_records"]


class Description(NamedTuple):
    """What the output of another program does not say.

    subwords: a kind of ``MARKS`` (default: judged by the tokens)
    reference: file of the references, in words
    forced: the targets are references, not translations
    """

    name: Optional[str] = None
    source_lang: str = "source"
    target_lang: str = "target"
    subwords: Optional[str] = None
    reference: Optional[str] = None
    forced: bool = False


class Found(NamedTuple):
    """The outcome of an import."""

    header: Header
    sentences: int
    hypotheses: int


def imported_records(
    form: str,
    files: Files,
    kind: str = "none",
    reference: Optional[str] = None,
    contents: Optional[Set[str]] = None,
) -> Iterator[Record]:
    """Yields the records of another program's output, in its order.

    Args:
        form: one of ``FORMATS``
        files: the output, and the texts that it needs
        kind: of subwords, one of ``MARKS``
        reference: file of references
        contents: gets ``links`` or ``weights`` for each sentence, as it has the one or the other

    Raises:
        OptionError: a file cannot be read or has another form, or a matrix does not match its sentence; the message
            names file and line
    """
    for one, source in _sentences(form, files, reference):
        try:
            record = record_of(one, source, MARKS[kind])
            if contents is not None:
                contents.add("links" if one.weights is None else "weights")
        except OptionError as error:
            raise OptionError("; ".join(filter(None, [str(error), FORMATS[form].hint]))) from None
        yield replace(record, source=marked(record.source, kind), target=marked(record.target, kind))


def _sentences(form: str, files: Files, reference: Optional[str]) -> Iterator[Tuple[Sentence, List[str]]]:
    """Yields each sentence with its source."""
    source = None if files.source_text is None else Text("--source-text", files.source_text)
    others = None if reference is None else Text("--reference", reference)
    for one in FORMATS[form].read(files):
        left = one.source
        if source is not None:
            left = source.tokens(one.number, one.where)
        if left is None:
            raise OptionError(f"{one.where}: has no source; name its text, in the same tokens, by --source-text")
        if others is not None:
            one = one._replace(reference=" ".join(others.tokens(one.number, one.where)))
        yield one, left
    for text in (source, others):
        if text is not None:
            text.check_end(files.path)


def import_file(form: str, files: Files, out: PathLike, about: Description) -> Found:
    """Writes the records. All of them are checked before the first is written.

    Raises ``OptionError`` as :func:`imported_records` does, if there is no sentence, or ``out`` cannot be written.
    """
    counts: Dict[str, int] = {}
    contents: Set[str] = set()
    sentences = hypotheses = rank = 0
    checked = imported_records(form, files, reference=about.reference, contents=contents)
    for record in tqdm(checked, "check", unit="", disable=None):
        count_marks((*record.source, *record.target), counts)
        sentences, hypotheses, rank = max(sentences, record.id + 1), hypotheses + 1, max(rank, record.rank)
    if not hypotheses:
        raise OptionError(f"{files.path}: has no sentence")
    kind = about.subwords or judged(counts)
    header = Header(
        name=about.name or Path(files.path).stem,
        architecture=form,
        checkpoint="",
        source_lang=about.source_lang,
        target_lang=about.target_lang,
        split=Path(files.source_text or files.path).name,
        target="reference" if about.forced else "imported",
        subwords=MARKS[kind],
        sentences=sentences,
        options={**({"nbest": rank} if rank > 1 else {}), **({"links": True} if contents == {"links"} else {})},
    )
    writer = RecordWriter(out, header, resume=False)
    try:
        for record in tqdm(imported_records(form, files, kind, about.reference), "write", hypotheses, disable=None):
            writer.write(record)
    finally:
        writer.close()
    writer.finish()
    return Found(header, sentences, hypotheses)
