"""Commands and steps of a recipe: run them, or show them in a dry run.

A dry run prints commands as a shell would take them, steps inside Python as shell comments, and remarks as
``[NAME] ...``. It writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, List, NoReturn, Optional, Sequence, Union

from ..writing import whole_file
from .errors import OptionError
from .settings import PACKAGE

__all__ = ["LOG_LINES", "USER_DIR", "Shell", "ended_by_sigterm", "import_path"]

USER_DIR = PACKAGE
LOG_LINES = 5  # last lines of the log of a failed command, shown to the user


class Shell:
    """Runs commands in the environment of this Python. ``str`` converts the words of a command.

    Args:
        name: of the recipe, for remarks
        dry_run: whether commands are shown instead
        lock: descriptor of a lock that the commands hold together with this process
    """

    def __init__(self, name: str, dry_run: bool = False, lock: Optional[int] = None):
        self.name = name
        self.dry_run = dry_run
        self.inherited = () if lock is None else (lock,)

    def say(self, text: str) -> None:
        """Prints a remark."""
        print(f"[{self.name}] {text}", flush=True)

    def run(self, *command: object, failure: str = "") -> None:
        """Runs a command with the output of this process.

        Raises:
            OptionError: the command failed; ``failure`` is the message
        """
        words = [str(word) for word in command]
        if self.dry_run:
            self._show(words)
        elif self.execute(words) != 0:
            raise OptionError(failure or f"{words[0]} failed")

    def run_into(self, file: Path, *command: object) -> None:
        """Runs a command with its output in a file, which appears only if the command succeeds."""
        words = [str(word) for word in command]
        if self.dry_run:
            self._show([*words, ">", str(file)])
            return
        with whole_file(file, f"{file} cannot be written") as partial:
            with open(partial, "wb") as stream:
                status = self.execute(words, stdout=stream)
            if status != 0:
                raise OptionError(f"{words[0]} failed")

    def run_quietly(self, log: Path, *command: object) -> None:
        """Runs a command with its output in a log, whose end is shown only if the command fails."""
        words = [str(word) for word in command]
        if self.dry_run:
            self._show(words)
            return
        with open(log, "wb") as stream:
            status = self.execute(words, stdout=stream, stderr=subprocess.STDOUT)
        if status != 0:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            sys.stderr.write("".join(line + "\n" for line in lines[-LOG_LINES:]))
            raise OptionError(f"{words[0]} failed, see {log}")

    def run_with_progress(self, log: Path, *command: object) -> None:
        """As :meth:`run_quietly`, for a command with a progress bar: a terminal shows the bar."""
        if sys.stderr.isatty():
            self.run(*command)
        else:
            self.run_quietly(log, *command)

    def step(self, description: str, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        """Calls ``function``; a dry run prints the description as a comment."""
        if self.dry_run:
            print("# " + description, flush=True)
        else:
            function(*args, **options)

    def make_folder(self, folder: Path) -> None:
        if self.dry_run:
            self._show(["mkdir", "-p", str(folder)])
        else:
            folder.mkdir(parents=True, exist_ok=True)

    def copy(self, source: Path, target: Path) -> None:
        """Copies a file; the copy appears only when it is complete."""
        if self.dry_run:
            self._show(["cp", str(source), str(target)])
            return
        with whole_file(target, f"{target} cannot be written") as partial:
            shutil.copyfile(source, partial)

    def cpu_options(self, device: str) -> List[str]:
        """``--cpu`` where torch has no CUDA device, or where DEVICE=cpu."""
        if device == "auto" and not self._has_cuda():
            device = "cpu"
        return ["--cpu"] if device == "cpu" else []

    def _has_cuda(self) -> bool:
        if self.dry_run:
            return shutil.which("nvidia-smi") is not None
        import torch

        return torch.cuda.is_available()

    def execute(
        self, words: Sequence[str], stdout: Optional[IO[bytes]] = None, stderr: Union[int, IO[bytes], None] = None
    ) -> int:
        """Exit status of the command; tools are taken from the environment of this Python first."""
        command = [sys.executable, *words[1:]] if words[0] == "python" else list(words)
        sys.stdout.flush()
        try:
            return subprocess.run(
                command, env=self.environment(), stdout=stdout, stderr=stderr, pass_fds=self.inherited
            ).returncode
        except FileNotFoundError:
            raise OptionError(
                f"{words[0]} is not installed in {sys.prefix}; install this package with its dependencies"
            ) from None

    def environment(self) -> Dict[str, str]:
        """The environment of commands, with the tools and the modules of this Python first."""
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
        return {**os.environ, **import_path(), "PATH": path}

    def _show(self, words: Sequence[str]) -> None:
        print(" ".join(word if word == ">" else shlex.quote(word) for word in words), flush=True)


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


def import_path() -> Dict[str, str]:
    """``PYTHONPATH`` for processes that import this package, which may lie in a checkout that is not installed."""
    folder = str(PACKAGE.parent)
    if folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return {}  # these must not come before the standard library
    return {"PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))}
