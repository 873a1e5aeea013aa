"""Reads the corpus of a translation recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence, Tuple

from fairseq_attn_plugin.corpora.parallel import AS_IT_IS, Treatment, import_split

from ..data_folder import Preparation

__all__ = ["CorpusReader", "Treatment"]


@dataclass(frozen=True)
class CorpusReader(Preparation):
    """A preparation of a parallel corpus.

    Attributes:
        languages: of the two sides of the files
    """

    languages: Tuple[str, str]

    @property
    def text(self) -> Path:
        """Folder of the splits as text."""
        return self.partial / "text"

    def read_split(
        self,
        split: str,
        files: Tuple[str, str],
        pairs: int,
        treatment: Treatment = AS_IT_IS,
        tokenized: Optional[Sequence[str]] = None,
        folder: Optional[Path] = None,
    ) -> None:
        """Reads one split into ``text/SPLIT.LANGUAGE``.

        Args:
            split: train, valid, test or another name
            files: of the two sides, in the order of ``languages``
            pairs: number of pairs in the published split; a download with fewer is an error
            treatment: of the sentences
            tokenized: names of tokenised files, which are preferred
            folder: of the files (default: the corpus)
        """
        folder = folder or self.corpus
        self.shell.step(
            f"read {' and '.join(files)} of {folder} into {self.text / split} ({treatment})",
            import_split,
            folder,
            files,
            self.languages,
            self.text / split,
            treatment=treatment,
            tokenized=tokenized,
            at_least=pairs,
            strict=self.downloads,
            expected=self.settings.at_home,
            jobs=self.settings.jobs,
        )
