"""Attention of Joey NMT, whose commands draw it only: the arrays that ``predict`` returns, in an archive (Joey NMT 2).

    np.savez("attention.npz", *attention_scores)    # the last result of predict(..., return_attention=True)

The arrays are ``arr_0``, ``arr_1`` ..., one for each sentence, ``[steps, source positions]``. Both sides are padded;
the texts say where a sentence ends.
"""

from __future__ import annotations

import zipfile
from typing import Iterator

from fairseq_attn_plugin.analysis.importing.lines import Text
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence, without_end
from fairseq_attn_plugin.analysis.records.npz import DAMAGED, read_array
from fairseq_attn_plugin.errors import OptionError

__all__ = ["read_joeynmt"]


def read_joeynmt(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names the array, if it is damaged or too small."""
    assert files.source_text is not None and files.target_text is not None
    texts = [Text("--source-text", files.source_text), Text("--target-text", files.target_text)]
    try:
        with zipfile.ZipFile(files.path) as archive:
            names = [name for name in archive.namelist() if name.startswith("arr_")]
            for number in range(len(names)):
                where = f"{files.path}, arr_{number}"
                try:
                    matrix = read_array(archive, f"arr_{number}")
                except DAMAGED:
                    raise OptionError(f"{where}: must be an array of numbers") from None
                if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
                    raise OptionError(f"{where}: must be an array [steps, source positions] of numbers")
                source, target = (without_end(text.tokens(number, where)) for text in texts)
                padding = matrix[: len(target) + 1, len(source) + 1 :]
                if padding.any():
                    raise OptionError(f"{where}: has weights beyond the {len(source)} source tokens and their end")
                yield Sentence(where, number, target, source, matrix[: len(target) + 1, : len(source) + 1])
    except (OSError, zipfile.BadZipFile) as error:
        raise OptionError(f"{files.path}: must be an archive of numpy.savez: {error}") from None
    for text in texts:
        text.check_end(files.path)
