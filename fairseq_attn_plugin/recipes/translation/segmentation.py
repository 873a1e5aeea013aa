"""Subword segmentation of a prepared corpus: subword-nmt, SentencePiece, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Iterator, List, Sequence, Tuple

from fairseq_attn_plugin.corpora.files import read_lines
from fairseq_attn_plugin.corpora.subwords import apply_model, learn_model

from .reading import CorpusReader
from .recipe import CorpusSettings

__all__ = ["fitting_size", "removal", "segment"]

PER_ROOT, FEWEST, MOST = 8, 200, 32000


def removal(bpe: str) -> List[str]:
    """Options of fairseq-generate that undo the segmentation."""
    return {"subword-nmt": ["--remove-bpe"], "sentencepiece": ["--remove-bpe", "sentencepiece"]}.get(bpe, [])


def count_words(path: Path) -> int:
    """Running words of a text."""
    return sum(len(line.split()) for line in read_lines(path))


def fitting_size(words: int) -> int:
    """The number of subwords for a training text of so many words, both languages together.

    8 sqrt(words): 1,300 for 2,000 short pairs, 7,000 for Multi30k. A larger vocabulary has subwords that occur too
    seldom to be learned.
    """
    return max(FEWEST, min(MOST, int(round(PER_ROOT * words**0.5, -2))))


def segment(reader: CorpusReader, settings: CorpusSettings, log: Path) -> None:
    """Writes ``segmented/SPLIT.LANGUAGE`` from ``text/SPLIT.LANGUAGE`` for all splits and both languages.

    Args:
        reader: with the text
        settings: of the recipe
        log: for the output of subword-nmt
    """
    languages = (settings.source, settings.target)
    if settings.bpe != "none" and not settings.bpe_size:
        words = sum(count_words(reader.text / f"train.{language}") for language in languages)
        settings = replace(settings, bpe_size=fitting_size(words))
        reader.shell.say(
            f"{settings.bpe_size:,} subwords: {PER_ROOT} times the square root of the {words:,} words of train, "
            f"at least {FEWEST} and at most {MOST:,}"
        )
    {"subword-nmt": _subword_nmt, "sentencepiece": _sentencepiece, "none": _words}[settings.bpe](
        reader, settings, languages, log
    )


def _files(reader: CorpusReader, languages: Sequence[str]) -> Iterator[Tuple[Path, Path]]:
    for split in ("train", "valid", "test"):
        for language in languages:
            name = f"{split}.{language}"
            yield reader.text / name, reader.partial / "segmented" / name


def _subword_nmt(reader: CorpusReader, settings: CorpusSettings, languages: Sequence[str], log: Path) -> None:
    shell, partial = reader.shell, reader.partial
    shell.say(f"learning {settings.bpe_size} joint merges with subword-nmt")
    shell.run_with_progress(
        log,
        *("subword-nmt", "learn-joint-bpe-and-vocab"),
        *("--input", *(reader.text / f"train.{language}" for language in languages)),
        *("--symbols", settings.bpe_size, "--output", partial / "codes"),
        *("--write-vocabulary", *(partial / f"vocab.{language}" for language in languages)),
    )
    for source, target in _files(reader, languages):
        command = ["subword-nmt", "apply-bpe", "--codes", str(partial / "codes"), "--num-workers", str(settings.jobs)]
        if settings.known_subwords:
            command += ["--vocabulary", str(partial / f"vocab{target.suffix}"), "--vocabulary-threshold", "1"]
        shell.run(*command, "--input", source, "--output", target)


def _sentencepiece(reader: CorpusReader, settings: CorpusSettings, languages: Sequence[str], log: Path) -> None:
    shell, model = reader.shell, reader.partial / "spm.model"
    shell.say(f"learning a joint SentencePiece BPE model of {settings.bpe_size} pieces")
    files = [reader.text / f"train.{language}" for language in languages]
    shell.step(f"learn {model} from {files[0]} and {files[1]}", learn_model, model, settings.bpe_size, files)
    for source, target in _files(reader, languages):
        shell.step(f"apply {model} to {source}, into {target}", apply_model, model, source, target)


def _words(reader: CorpusReader, settings: CorpusSettings, languages: Sequence[str], log: Path) -> None:
    for source, target in _files(reader, languages):
        reader.shell.copy(source, target)
