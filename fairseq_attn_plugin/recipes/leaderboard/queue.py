"""Runs jobs in several processes, each with its log; a job that fails does not stop the others.

The queue holds the lock of a job, and all processes of the job inherit it. Therefore no job runs twice at a time, even
if a queue was killed and parts of it live on. The processes of a job end with their queue, because its end closes their
standard input (:func:`end_with_the_queue`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Deque, List, Mapping, NamedTuple, Protocol, Sequence, Set

from tqdm import tqdm

from fairseq_attn_plugin.corpora.locks import locked

__all__ = ["Failure", "Queue", "Runnable", "end_with_the_queue"]

SECONDS = 5.0  # between two attempts to get a job that another process runs


class Runnable(Protocol):
    """What the queue needs of a job."""

    @property
    def name(self) -> str: ...

    @property
    def lock(self) -> Path: ...

    @property
    def log(self) -> Path: ...

    def is_done(self) -> bool: ...

    def summary(self) -> str:
        """A line on the finished job."""


class Failure(NamedTuple):
    """A job that failed, the end of its log, and the log."""

    name: str
    reason: str
    log: Path


class Queue:
    """Runs all jobs that are not done, in their order. ``failures`` are those that failed.

    A job that another process runs is waited for, and run here if it is left unfinished.

    Args:
        jobs: the jobs
        command: words of the command of a job
        environment: of the command, given the descriptor of the lock that it inherits
    """

    def __init__(
        self,
        jobs: Sequence[Any],
        command: Callable[[Any], Sequence[str]],
        environment: Callable[[Any, int], Mapping[str, str]],
    ):
        self.failures: List[Failure] = []
        self._jobs: Deque[Runnable] = deque(jobs)
        self._command, self._environment = command, environment
        self._elsewhere: Set[str] = set()
        self._processes: Set[subprocess.Popen[bytes]] = set()
        self._mutex = threading.Lock()
        self._ended = threading.Event()

    def run(self, processes: int) -> None:
        """Runs the jobs, ``processes`` at a time; shows a bar, and a line for each finished job."""
        self._bar = tqdm(total=len(self._jobs), unit="run", disable=None, smoothing=0)
        with self._bar, ThreadPoolExecutor(processes) as pool:
            workers = [pool.submit(self._work) for _ in range(processes)]
            try:
                for worker in workers:
                    worker.result()
            finally:
                self._end()

    def _end(self) -> None:
        """Ends what is left after an interruption."""
        self._ended.set()
        with self._mutex:
            for process in self._processes:
                _kill_group(process)

    def _work(self) -> None:
        while not self._ended.is_set():
            with self._mutex:
                if not self._jobs:
                    return
                job = self._jobs.popleft()
            with locked(job.lock, wait=False) as lock:
                if lock is not None:
                    self._finish(job, lock)
                    continue
            with self._mutex:
                self._jobs.append(job)
                known = job.name in self._elsewhere
                self._elsewhere.add(job.name)
            if known:
                self._ended.wait(SECONDS)
            else:
                self._say(f"{job.name}: another process runs it")

    def _finish(self, job: Runnable, lock: int) -> None:
        if job.is_done():
            self._say(f"{job.summary()} (done before)")
        else:
            status = self._run(job, lock)
            if self._ended.is_set():
                return
            if status == 0 and job.is_done():
                self._say(job.summary())
            else:
                self.failures.append(Failure(job.name, _reason(job.log, status), job.log))
                self._say(f"{job.name}: failed, see {job.log}")
        self._bar.update()

    def _run(self, job: Runnable, lock: int) -> int:
        """Exit status of the job's command."""
        with open(job.log, "ab") as log:
            with self._mutex:
                if self._ended.is_set():
                    return 1
                process = subprocess.Popen(
                    self._command(job),
                    env=self._environment(job, lock),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(lock,),
                    start_new_session=True,
                )
                self._processes.add(process)
            status = process.wait()
        if process.stdin is not None:
            process.stdin.close()
        _kill_group(process)  # a job that was killed may leave a training behind
        with self._mutex:
            self._processes.discard(process)
        return status

    def _say(self, text: str) -> None:
        self._bar.write(text)
        if self._bar.disable:
            print(end="", flush=True)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _reason(log: Path, status: int) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "its log is empty"
    return f"killed by signal {-status}; {last}" if status < 0 else last


def end_with_the_queue() -> None:
    """Kills this process and its children when the queue that started it ends, however it ends.

    The queue holds the other end of the standard input, and writes nothing into it. The process is the leader of a
    group of its own.
    """

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
