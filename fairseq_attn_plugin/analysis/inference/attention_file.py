"""Writes extracted attention into a file, and continues an interrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional

from fairseq import utils
from tqdm import tqdm

from fairseq_attn_plugin.analysis.inference.extraction import extract
from fairseq_attn_plugin.analysis.inference.forced import weight_names
from fairseq_attn_plugin.analysis.inference.loading import Teacher
from fairseq_attn_plugin.analysis.inference.segmenter import subwords_of
from fairseq_attn_plugin.analysis.inference.sentences import _fingerprint
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.analysis.records.record import Header
from fairseq_attn_plugin.analysis.records.writer import RecordWriter
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["Extracted", "describe", "extract_file"]


def describe(
    teacher: Teacher,
    sentences: Any,
    name: Optional[str] = None,
    beam: Optional[int] = None,
    subwords: Optional[str] = None,
    layer: Optional[int] = None,
    **options: Any,
) -> Header:
    """The header of a file; ``options`` are those that change what is extracted."""
    paths = [Path(path) for path in utils.split_paths(teacher.path)]
    config = teacher.config.model
    architecture = getattr(config, "_name", None) or getattr(config, "arch", None) or ""
    # a checkpoint that training has replaced in the meantime is another model
    versions = [f"{path.stat().st_size} {path.stat().st_mtime_ns}" if path.exists() else "" for path in paths]
    about = {"checkpoint version": versions, "layer": layer, **options}
    about["corpus"] = list(map(_fingerprint, sentences.files))
    if hasattr(config, "attention"):
        about["attention"] = config.attention
    return Header(
        name=name or default_name(teacher.path),
        architecture=str(architecture),
        checkpoint=teacher.path,
        source_lang=teacher.languages[0],
        target_lang=teacher.languages[1],
        split=sentences.name,
        target="reference" if beam is None else f"beam {beam}",
        subwords=subwords or subwords_of(teacher.task.target_dictionary),
        sentences=len(sentences),
        weights=weight_names(teacher.models) if layer is None else ("attention",),
        options={key: value for key, value in about.items() if value not in (None, {}, [], "")},
    )


def default_name(path: str) -> str:
    """What a checkpoint is called: its folder, or the folder above one that is called ``checkpoints``."""
    folder = Path(utils.split_paths(path)[0]).resolve().parent
    if folder.name in ("checkpoints", "checkpoint") and folder.parent.name:
        folder = folder.parent
    return folder.name or Path(path).stem


class Extracted(NamedTuple):
    """What became of an extraction."""

    written: int  # sentences in the file
    left_out: int  # those that are longer than the model takes
    resumed: int  # how many of them an interrupted run had written
    complete: bool  # the file was there already


def extract_file(
    teacher: Teacher,
    sentences: Any,
    out: PathLike,
    header: Header,
    beam: Optional[int] = None,
    max_tokens: int = 4000,
    generation: Optional[Dict[str, Any]] = None,
    layer: Optional[int] = None,
    existing: str = "keep",
) -> Extracted:
    """Writes what :func:`extract` yields, and goes on where an interrupted run stopped.

    Args:
        out: file to write, ``.jsonl`` or ``.npz``
        header: of :func:`describe`
        existing: what happens to a file that is there: ``keep``, and an ``OptionError`` where it is of other options;
            ``renew``, which replaces it in that case; ``replace``

    Raises:
        OptionError: as :func:`extract`, or the file cannot be written
    """
    path = Path(out)
    there = path.exists() and existing != "replace"
    if there and not header.same_run(open_records(path).header):
        if existing == "keep":
            raise OptionError(
                f"--out {out}: is there already, of other options or another corpus; give --overwrite to replace it"
            )
        there = False
    if there:
        written = open_records(path).count()
        return Extracted(written, len(sentences) - written, 0, True)
    # what is there stays until all of the new is
    writer = RecordWriter(path, header, replace=existing != "keep")
    resumed = written = writer.done
    with tqdm(total=len(sentences), initial=writer.next, desc=header.name, unit=" sentences", disable=None) as bar:
        try:
            for record in extract(
                teacher, sentences, beam, max_tokens, generation, layer, header.subwords, writer.next
            ):
                writer.write(record)
                written += 1
                bar.update(record.id + 1 - bar.n)
        finally:
            writer.close()
    writer.finish()
    return Extracted(written, len(sentences) - written, resumed, False)
