"""Runs commands with their words shown and their output in logs; of a training it shows the progress."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import IO, Optional, Sequence, Union

from ..commands import LOG_LINES, Shell
from ..errors import OptionError
from ..progress import follow
from ..settings import last_value

__all__ = ["LoggingShell"]


class LoggingShell(Shell):
    """A shell that prints each command, so that a user can go on with it.

    Args:
        name: for remarks
        logs: folder for the output of commands
        lock: as in the base class
    """

    def __init__(self, name: str, logs: Path, lock: Optional[int] = None):
        super().__init__(name, lock=lock)
        self.logs = logs

    def run(self, *command: object, failure: str = "") -> None:
        words = [str(word) for word in command]
        if words[0] == "fairseq-train":
            self._train(words, failure)
        else:
            self.run_quietly(self.logs / f"{words[0]}.log", *words)

    def execute(
        self, words: Sequence[str], stdout: Optional[IO[bytes]] = None, stderr: Union[int, IO[bytes], None] = None
    ) -> int:
        self._print(words)
        return super().execute(words, stdout, stderr)

    def _print(self, words: Sequence[str]) -> None:
        # the data folder gets its name when it is complete
        print("$ " + shlex.join(words).replace("/data.partial/", "/data/"), flush=True)

    def _train(self, words: Sequence[str], failure: str) -> None:
        self._print(words)
        with subprocess.Popen(
            words,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=self.inherited,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process:
            assert process.stdout is not None
            epochs = int(last_value(words, "--max-epoch") or 0)
            try:
                last = follow(process.stdout, self.logs / "fairseq-train.log", epochs)
            except SystemExit:
                process.terminate()
                raise
        if process.returncode != 0:
            sys.stderr.write("".join(last[-LOG_LINES:]))
            raise OptionError(failure or "fairseq-train failed")
