"""Subwords of both languages together: subword-nmt, a SentencePiece BPE model, or whole words."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Sequence

from fairseq_attn_plugin.writing import whole_file

from .files import read_lines, write_lines

__all__ = ["KINDS", "apply_model", "learn_model", "segment"]

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
    codes, model = folder / "codes", folder / "spm.model"
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
        learn_model(model, size, train)
        for source, target in files:
            apply_model(model, source, target)
    else:
        for source, target in files:
            target.write_bytes(source.read_bytes())


def learn_model(model: Path, size: int, files: Sequence[Path]) -> None:
    """Writes a BPE model with at most ``size`` pieces, learned from the sentences of all ``files``."""
    import sentencepiece

    lines = [line for path in files for line in read_lines(path) if line]
    with whole_file(model, f"{model} cannot be written") as partial, open(partial, "wb") as stream:
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


def apply_model(model: Path, source: Path, target: Path) -> None:
    """Segments ``source`` line by line into pieces with spaces between them."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    write_lines(target, (" ".join(pieces) for pieces in processor.encode(read_lines(source), out_type=str)))
