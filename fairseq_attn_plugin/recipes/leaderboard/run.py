"""The leaderboard's recipe with its settings: the stages prepare, run, report."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Sequence, Tuple

from fairseq_attn_plugin.corpora.locks import locked

from ..commands import Shell, import_path
from ..errors import OptionError
from ..recipe import Recipe
from ..settings import Variables, is_number
from ..translation.model import DEFAULTS as MODEL_DEFAULTS
from ..translation.preparation import prepare
from ..translation.recipe import DEFAULTS as CORPUS_DEFAULTS
from .job import Job, make_job
from .queue import Queue, end_with_the_queue
from .systems import read_systems

__all__ = ["LeaderboardRecipe", "LeaderboardRun"]

# chosen by SYSTEMS, SEEDS and PAIRS
REFUSED = (*MODEL_DEFAULTS, "SEED", "SRC", "TGT")
INHERITED = "LEADERBOARD_LOCK"  # from the queue to a process of its own: the descriptor of the lock
DEFAULTS: Dict[str, str] = {
    **CORPUS_DEFAULTS,
    **dict.fromkeys([*REFUSED, "BPE", "BPE_SIZE", "CUT", "LONGEST", "PAIR"], ""),
    "DATASET": "multi30k",
    "PAIRS": "",
    "SYSTEMS": "lstm_soft lstm_adm lstm lstm_adm_aqt structured lstm_soft_additive",
    "SEEDS": "1 2 3",
    "SYSTEMS_FILE": "",
    "MAX_TOKENS": "1000",
    "MAX_EPOCH": "25",
    "PATIENCE": "3",
    "PROCESSES": "1",
    "RESULTS": "",
    INHERITED: "",
}


@dataclass(frozen=True)
class LeaderboardRun:
    """All runs of one call.

    Attributes:
        jobs: the runs, in order: first all systems with the first seed
        shell: shows commands in a dry run
        values: the settings, for the processes of the queue
        extra: options of fairseq-train for all systems
        processes: runs at a time; 0: one after the other in this process
        results: folder of the results
        page: folder of the report
    """

    jobs: Sequence[Job]
    shell: Shell
    values: Mapping[str, str]
    extra: Sequence[str]
    processes: int
    results: Path
    page: Path

    def stages(self) -> Dict[str, Callable[[], None]]:
        """The stages by name, in their order."""
        return {"prepare": self.prepare, "run": self.run, "report": self.report}

    def prepare(self) -> None:
        """The prepare stage: data of all directions and subwords."""
        for job in {job.training.experiment.work: job for job in self.jobs}.values():
            prepare(job.training.experiment)

    def run(self) -> None:
        """The run stage.

        Raises:
            OptionError: data are missing, or some runs failed
        """
        if self.shell.dry_run or self.processes == 0:
            for job in self.jobs:
                self._run_here(job)
            return
        for job in self.jobs:
            job.training.experiment.data.check_prepared()
            job.folder.mkdir(parents=True, exist_ok=True)
        queue = Queue(self.jobs, self._command, self._environment)
        queue.run(self.processes)
        for failure in queue.failures:
            print(f"{failure.name} failed: {failure.reason} (log: {failure.log})", flush=True)
        if queue.failures:
            raise OptionError(
                f"{len(queue.failures)} of {len(self.jobs)} runs failed; the same command runs them again"
            )

    def report(self) -> None:
        """The report stage: a page on all results in the folder."""
        self.shell.run("fairseq-attn", "report", self.results, "--out", self.page)

    def _run_here(self, job: Job) -> None:
        if self.shell.dry_run:
            job.execute(None)
            return
        inherited = self.values[INHERITED]
        if inherited:
            end_with_the_queue()
            job.execute(int(inherited))
            return
        with locked(job.lock, wait=False) as lock:
            if lock is None:
                raise OptionError(f"{job.name}: another process runs it")
            if not job.is_done():
                job.execute(lock)
        print(job.summary(), flush=True)

    def _command(self, job: Job) -> List[str]:
        return [sys.executable, "-m", __package__.rpartition(".")[0], "leaderboard", "run", "--", *self.extra]

    def _environment(self, job: Job, lock: int) -> Dict[str, str]:
        """One thread, and this run alone."""
        one = {"SYSTEMS": job.system, "SEEDS": str(job.seed), "PAIRS": job.pair, "PROCESSES": "0", INHERITED: str(lock)}
        threads = {name: os.environ.get(name, "1") for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return {**os.environ, **threads, **import_path(), **self.values, **one}


class LeaderboardRecipe(Recipe):
    """The leaderboard."""

    stages = ("prepare", "run", "report")
    common = DEFAULTS

    def open(self, variables: Variables, extra: Sequence[str], shell: Shell) -> LeaderboardRun:
        for name in REFUSED:
            if variables.text(name):
                raise OptionError(
                    f"{name}={variables.text(name)}: SYSTEMS, SEEDS and PAIRS choose the runs; leave {name} out"
                )
        if variables.text(INHERITED):
            variables.number(INHERITED, meaning=", which the queue sets for its own processes")
        dataset = variables.text("DATASET")
        out = variables.path("OUT") or Path.cwd() / "out" / "leaderboard"
        results = variables.path("RESULTS") or out / "results"
        values = {**variables.values, "OUT": str(out), "RESULTS": str(results)}
        options = ["--max-tokens", str(variables.number("MAX_TOKENS", least=1))]
        options += ["--max-epoch", str(variables.number("MAX_EPOCH", least=1))]
        if variables.number("PATIENCE"):
            options += ["--patience", variables.text("PATIENCE")]
        known = read_systems(variables.path("SYSTEMS_FILE"))
        systems = [known[name] for name in _some(variables, "SYSTEMS", variables.several("SYSTEMS", tuple(known)))]
        jobs = [
            make_job(system, dataset, pair, seed, {**values, "OUT": str(out / dataset)}, options, results, extra)
            for pair in _pairs(variables)
            for seed in _seeds(variables)
            for system in systems
        ]
        processes = variables.number("PROCESSES")
        return LeaderboardRun(jobs, shell, values, extra, processes, results, out / "report")


def _some(variables: Variables, name: str, words: List[str]) -> List[str]:
    """The words of a variable, each once.

    Raises:
        OptionError: there are none
    """
    if not words:
        raise OptionError(f"{name} is empty")
    return list(dict.fromkeys(words))


def _seeds(variables: Variables) -> List[int]:
    words = _some(variables, "SEEDS", variables.words("SEEDS"))
    for word in words:
        if not is_number(word):
            raise OptionError(f'SEEDS: {word} is not a whole number: expected some, as in SEEDS="1 2 3"')
    return [int(word) for word in words]


def _pairs(variables: Variables) -> List[Tuple[str, str]]:
    """Directions; one of empty names for that of the recipe."""
    pairs = []
    for word in dict.fromkeys(variables.words("PAIRS")):
        source, dash, target = word.partition("-")
        if not (source and dash and target):
            raise OptionError(f'PAIRS: {word} is no direction: expected some, as in PAIRS="de-en en-de"')
        pairs.append((source, target))
    return pairs or [("", "")]
