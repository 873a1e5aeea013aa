"""A joint SentencePiece BPE model: learning and applying it. The PyPI package has no command-line tools."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from fairseq_attn_plugin.writing import whole_file

from .files import read_lines, write_lines

__all__ = ["apply_model", "learn_model"]


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
