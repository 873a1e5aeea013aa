"""FASTA files are indexed without a shell.

fairseq takes a split whose file ends in ``.fasta`` for protein sequences, and indexes it by a shell command that holds
its path. Some tasks read all folders inside a data folder, one for each language: a folder with the name ``$(COMMAND)``
ran the command.
"""

from typing import Any, Callable, List

import numpy as np

from .wrapping import Patch

__all__ = ["PATCH"]


def _without_shell(_build: Callable[..., Any]) -> Callable[..., Any]:
    def _build_index(self: Any, path: str) -> Any:
        """The offset of each header in the file, and the length of the sequence that follows it."""
        from fairseq.data.fasta_dataset import fasta_file_path

        offsets: List[int] = []
        sizes: List[int] = []
        position = 0
        with open(fasta_file_path(path), "rb") as lines:
            for line in lines:
                if line.startswith(b">"):
                    offsets.append(position)
                    sizes.append(0)
                elif sizes:
                    sizes[-1] += len(line.strip())
                position += len(line)
        return np.array(offsets, dtype=np.int64), np.array(sizes, dtype=np.int64)

    return _build_index


PATCH = Patch(
    name="fasta",
    reason="fairseq gives the paths of FASTA files in a data folder to a shell, which runs what they hold",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.data.fasta_dataset:FastaDataset._build_index": _without_shell},
)
