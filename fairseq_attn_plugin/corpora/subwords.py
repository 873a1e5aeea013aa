"""Subwords of both languages together: subword-nmt, a SentencePiece BPE model, or whole words."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Sequence, Tuple

from .files import read_lines, write_lines

__all__ = ["KINDS", "segment"]

KINDS = ("subword-nmt", "sentencepiece", "none")
SPLITS = ("train", "valid", "test")


def segment(
    folder: Path,
    languages: Sequence[str],
    kind: str,
    size: int,
    run: Callable[..., None],
    jobs: int = 1,
    known: bool = False,
) -> None:
    """Writes ``FOLDER/segmented/SPLIT.LANGUAGE`` from ``FOLDER/text/SPLIT.LANGUAGE``.

    Args:
        folder: of the corpus; it also gets ``codes`` and ``vocab.LANGUAGE``, or ``spm.model``
        languages: of the two sides
        kind: one of ``KINDS``
        size: number of merges, or of pieces
        run: runs a command, given its words
        jobs: number of processes of subword-nmt
        known: split subwords that train does not have into smaller ones (subword-nmt)
    """
    text, segmented = folder / "text", folder / "segmented"
    segmented.mkdir()
    files = [(text / name, segmented / name) for split in SPLITS for name in (f"{split}.{one}" for one in languages)]
    train = [text / f"train.{language}" for language in languages]
    codes = folder / "codes"
    if kind == "subword-nmt":
        vocabularies = {language: folder / f"vocab.{language}" for language in languages}
        run(
            *("subword-nmt", "learn-joint-bpe-and-vocab", "--input", *train, "--symbols", size, "--output", codes),
            *("--write-vocabulary", *vocabularies.values()),
        )
        for source, target in files:
            vocabulary = vocabularies[target.suffix[1:]]
            restrict = ["--vocabulary", vocabulary, "--vocabulary-threshold", 1] if known else []
            command = ["subword-nmt", "apply-bpe", "--codes", codes, "--num-workers", jobs, *restrict]
            run(*command, "--input", source, "--output", target)
    elif kind == "sentencepiece":
        _sentencepiece(folder / "spm.model", size, train, files)
    else:
        for source, target in files:
            target.write_bytes(source.read_bytes())


def _sentencepiece(model: Path, size: int, train: Sequence[Path], files: Sequence[Tuple[Path, Path]]) -> None:
    """Writes a BPE model with at most ``size`` pieces, and each file in its pieces with spaces between them."""
    import sentencepiece

    lines = [line for path in train for line in read_lines(path) if line]
    with open(model, "wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=stream,
            model_type="bpe",
            vocab_size=size,
            # a small corpus gets as many merges as it allows
            hard_vocab_limit=False,
            character_coverage=1.0,
            # the text is normalised already; NFKC would change tokens that the references keep
            normalization_rule_name="identity",
            minloglevel=2,
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for source, target in files:
        write_lines(target, (" ".join(pieces) for pieces in processor.encode(read_lines(source), out_type=str)))
