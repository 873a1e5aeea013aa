"""Subwords of both languages together: subword-nmt, a SentencePiece BPE model, or whole words."""

from pathlib import Path
from typing import Callable, Sequence

from .files import read_lines, write_lines
from .parallel import SPLITS

KINDS = ("subword-nmt", "sentencepiece", "none")


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
        size: number of merges, or of pieces. A small corpus has fewer. A corpus with more characters has more pieces
        run: runs a command, given its words
        jobs: number of processes of subword-nmt
        known: split subwords that train does not have into smaller ones (subword-nmt)
    """
    text, segmented, codes, model = (folder / name for name in ("text", "segmented", "codes", "spm.model"))
    segmented.mkdir()
    train = [text / f"train.{language}" for language in languages]
    if kind == "subword-nmt":
        vocabularies = [folder / f"vocab.{language}" for language in languages]
        learn = ("subword-nmt", "learn-joint-bpe-and-vocab", "--input", *train, "--symbols", size, "--output", codes)
        run(*learn, "--write-vocabulary", *vocabularies)
    elif kind == "sentencepiece":
        import sentencepiece

        lines = [line for path in train for line in read_lines(path) if line]
        with open(model, "wb") as stream:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=stream,
                model_type="bpe",
                # a model has all characters, and pieces for blanks, unknown text and the ends of sentences
                vocab_size=max(size, len(set("".join(lines)) - {" "}) + 4),
                hard_vocab_limit=False,
                character_coverage=1.0,
                # the text is normalised already; NFKC would change tokens that the references keep
                normalization_rule_name="identity",
                minloglevel=2,
            )
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for name in (f"{split}.{language}" for split in SPLITS for language in languages):
        source, target = text / name, segmented / name
        if kind == "subword-nmt":
            vocabulary = folder / f"vocab.{name.partition('.')[2]}"
            restrict = ["--vocabulary", vocabulary, "--vocabulary-threshold", 1] if known else []
            command = ["subword-nmt", "apply-bpe", "--codes", codes, "--num-workers", jobs, *restrict]
            run(*command, "--input", source, "--output", target)
        elif kind == "sentencepiece":
            write_lines(target, map(" ".join, processor.encode(read_lines(source), out_type=str)))
        else:
            target.write_bytes(source.read_bytes())
