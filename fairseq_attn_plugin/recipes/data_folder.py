"""The data folder of a corpus: prepared once, under a lock, and complete or absent.

``WORK/data/done`` is the stamp: the settings of the preparation, and the folder of the corpus.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Sequence

from fairseq_attn_plugin.corpora.locks import locked

from .commands import Shell
from .downloads import fetch, unpack
from .errors import OptionError
from .settings import CommonSettings
from .stamps import write_stamp

__all__ = ["DataFolder", "Preparation"]


@dataclass(frozen=True)
class Preparation:
    """A preparation in progress.

    Attributes:
        shell: runs the commands
        settings: of the recipe
        partial: the folder that becomes the data folder
        corpus: folder that the corpus is read from
    """

    shell: Shell
    settings: CommonSettings
    partial: Path
    corpus: Path

    @property
    def downloads(self) -> bool:
        """Whether the corpus is downloaded; a download that is too short is an error."""
        return self.settings.data is None

    def fetch(self, url: str, name: str, least: int) -> None:
        """Downloads to ``raw/NAME``, unless it is there; fewer than ``least`` bytes are an error."""
        fetch(self.shell, url, self.corpus / name, least, self.settings.at_home)

    def unpack(self, archive: str, members: Sequence[str]) -> None:
        """Takes ``members`` out of ``raw/ARCHIVE``, unless they are there."""
        unpack(self.shell, self.corpus / archive, members)


@dataclass(frozen=True)
class DataFolder:
    """``WORK/data``.

    Attributes:
        work: its parent
        shell: runs the commands
        settings: of the recipe
    """

    work: Path
    shell: Shell
    settings: CommonSettings

    @property
    def path(self) -> Path:
        return self.work / "data"

    @property
    def done(self) -> Path:
        return self.path / "done"

    def check_prepared(self) -> None:
        """Raises ``OptionError`` if the data are missing; a dry run does not check."""
        if not self.shell.dry_run and not self.done.is_file():
            raise OptionError(f"{self.path} is not prepared: run the prepare stage first")

    def prepare(self, stamp: str, folders: Sequence[str], build: Callable[[Preparation], None]) -> bool:
        """Builds the data, unless they are there with the same settings.

        Args:
            stamp: the settings
            folders: made below the partial folder
            build: makes the data in the partial folder

        Returns:
            whether they were built (or, in a dry run, shown)

        Raises:
            OptionError: the folder was prepared with other settings or from another corpus
        """
        corpus = self.settings.data or self.settings.out / "raw"
        preparation = Preparation(self.shell, self.settings, self.work / "data.partial", corpus)
        if self.shell.dry_run:
            build(preparation)
            return True
        if self._is_done(stamp):
            return False
        (self.settings.out / "raw").mkdir(parents=True, exist_ok=True)
        # another training of the same grid may be preparing the same folder
        with locked(self.work / "prepare.lock"):
            if self._is_done(stamp):
                return False
            if self.path.is_dir() and any(self.path.iterdir()):
                raise OptionError(f"{self.path}: exists, and no recipe has prepared it; choose another OUT")
            shutil.rmtree(preparation.partial, ignore_errors=True)
            for folder in folders:
                (preparation.partial / folder).mkdir(parents=True)
            build(preparation)
            write_stamp(preparation.partial / "done", f"{stamp}\nDATA {self.settings.data or ''}")
            shutil.rmtree(self.path, ignore_errors=True)
            preparation.partial.replace(self.path)
        return True

    def _is_done(self, stamp: str) -> bool:
        if not self.done.is_file():
            return False
        before, _, source = self.done.read_text(encoding="utf-8").rstrip("\n").partition("\n")
        remedy = "choose another OUT, or remove that folder"
        if before != stamp:
            raise OptionError(f"{self.path} was prepared with other settings ('{before}', now '{stamp}'): {remedy}")
        data: Optional[Path] = self.settings.data
        # without DATA the prepared text is used, wherever it came from
        if data is not None and source != f"DATA {data}":
            raise OptionError(f"{self.path} was prepared from '{source}', not from DATA={data}: {remedy}")
        self.shell.say(f"prepare: done before ({self.path})")
        return True
