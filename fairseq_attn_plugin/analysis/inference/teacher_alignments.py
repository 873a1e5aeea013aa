"""Word alignments in a data folder, which teach the attention of a model (``fairseq-attn align --into-data``)."""

from __future__ import annotations

from pathlib import Path

from fairseq import utils


def binarize(path: str, prefix: str) -> None:
    """Converts a file of alignments into ``PREFIX.idx`` and ``PREFIX.bin``, which ``--load-alignments`` reads."""
    from fairseq.binarizer import AlignmentDatasetBinarizer, FileBinarizer

    for suffix in (".bin", ".idx"):
        Path(prefix + suffix).unlink(missing_ok=True)  # a symbolic link to another data folder must not be followed
    FileBinarizer.multiprocess_dataset(path, "mmap", AlignmentDatasetBinarizer(utils.parse_alignment), prefix)
