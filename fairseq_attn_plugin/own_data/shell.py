"""Runs commands with their words shown and their output in logs; of a training it shows the progress."""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Iterator, NoReturn

from fairseq_attn_plugin.corpora import tools
from fairseq_attn_plugin.corpora.errors import OptionError

from .progress import follow
from .settings import last_value

__all__ = ["LoggingShell", "ended_by_sigterm"]


class LoggingShell:
    """Runs commands and prints each, so that a user can go on with it.

    Args:
        logs: folder for the output of commands
        lock: descriptor of a lock that the commands hold together with this process; -1: none
    """

    def __init__(self, logs: Path, lock: int = -1):
        self.logs = logs
        self.lock = lock

    def say(self, text: str) -> None:
        """Prints a remark."""
        print(f"[train] {text}", flush=True)

    def run(self, *command: object, failure: str = "") -> None:
        """Runs a command with its output in ``LOGS/TOOL.log``.

        Raises:
            OptionError: the command failed; ``failure`` is the message
        """
        words = [str(word) for word in command]
        # the data folder gets its name when it is complete
        print("$ " + shlex.join(words).replace("/data.partial/", "/data/"), flush=True)
        log = self.logs / f"{words[0]}.log"
        if words[0] == "fairseq-train":
            self._train(words, log, failure)
        else:
            tools.run_quietly(log, *words, lock=self.lock)

    def _train(self, words: list[str], log: Path, failure: str) -> None:
        with subprocess.Popen(
            words,
            env=tools.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=() if self.lock < 0 else (self.lock,),
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process:
            assert process.stdout is not None
            try:
                last = follow(process.stdout, log, int(last_value(words, "--max-epoch") or 0))
            except SystemExit:
                process.terminate()
                raise
        if process.returncode != 0:
            sys.stderr.write("".join(last[-tools.LOG_LINES :]))
            raise OptionError(failure or "fairseq-train failed")


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within it SIGTERM ends this process as an exception does: the command that it runs ends, too."""

    def end(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
