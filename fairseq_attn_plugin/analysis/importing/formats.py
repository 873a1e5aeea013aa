"""The formats of ``fairseq-attn import``, by name."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, NamedTuple

from fairseq_attn_plugin.analysis.importing.hugging_face import read_hugging_face
from fairseq_attn_plugin.analysis.importing.joeynmt import read_joeynmt
from fairseq_attn_plugin.analysis.importing.marian import read_marian
from fairseq_attn_plugin.analysis.importing.opennmt import read_debug, read_report
from fairseq_attn_plugin.analysis.importing.pharaoh import read_pharaoh
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence
from fairseq_attn_plugin.analysis.importing.sockeye import read_nematus, read_sockeye

__all__ = ["FORMATS", "Format"]


class Format(NamedTuple):
    """How a program's output is read."""

    read: Callable[[Files], Iterator[Sentence]]
    needs: str = ""  # texts without which a sentence lacks a side: "", "source", or "source target"
    numbers_nbest: bool = True  # whether the output tells which hypotheses are of one sentence
    hint: str = ""  # the usual reason for a matrix that does not match its sentence


FORMATS: Dict[str, Format] = {
    "marian": Format(read_marian, "source", hint="with a .spm vocabulary, run marian-decoder with --no-spm-decode"),
    "opennmt": Format(read_report, "source", numbers_nbest=False),
    "opennmt-attn-debug": Format(read_debug, "source target"),
    "sockeye": Format(read_sockeye),
    "nematus": Format(read_nematus),
    "joeynmt": Format(read_joeynmt, "source target"),
    "huggingface": Format(read_hugging_face),
    "pharaoh": Format(read_pharaoh, "source target"),
}
