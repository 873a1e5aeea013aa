"""A run of the leaderboard: one system with one seed in one direction, from training to the JSON of its results."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence, Tuple

from ...analysis.training_logs import read_log
from .. import datasets
from ..commands import Shell
from ..errors import CorpusError, OptionError
from ..settings import Variables
from ..stamps import differences, lasting_options
from ..tables import read_json, write_json
from ..translation.results import score, translate
from ..translation.run import TranslationRecipe, TranslationRun
from .results import collect
from .systems import SystemSettings

__all__ = ["Job", "make_job"]

# variables of the recipe that change no result
PLACES = ("OUT", "DATA", "DEVICE", "JOBS", "DRY_RUN", "CORPUS_URL")


@dataclass(frozen=True)
class Job:
    """A run.

    Attributes:
        system: its name
        dataset: name of the recipe
        pair: direction, as in ``de-en``
        seed: of the training
        training: the model in the recipe
        command: that makes the same model without a leaderboard
        result: JSON of the results, which exists if the run is finished
    """

    system: str
    dataset: str
    pair: str
    seed: int
    training: TranslationRun
    command: str
    result: Path

    @property
    def name(self) -> str:
        return f"{self.system} {self.pair} seed {self.seed}"

    @property
    def folder(self) -> Path:
        return self.training.folder

    @property
    def lock(self) -> Path:
        return self.folder / "job.lock"

    @property
    def log(self) -> Path:
        return self.folder / "job.log"

    def is_done(self) -> bool:
        """Whether the results are those of the same command, with the same options of fairseq-train."""
        if not self.result.is_file():
            return False
        try:
            found = read_json(self.result)
        except CorpusError:
            return False
        # the options too: the command does not name the recipe's defaults, which may have changed
        before, now = str(found.get("options")).split(), self.training.training.options
        same = not differences(lasting_options(before, []), lasting_options(now, []))
        return found.get("command") == self.command and same

    def summary(self) -> str:
        """A line on the results."""
        content = read_json(self.result)
        scores = content["bleu"]
        shown = ", ".join(f"BLEU {one['score']:.2f} ({name})" for name, one in scores.items() if one)
        return (
            f"{self.name}: perplexity {content['valid_perplexity']:.2f} in epoch {content['best_epoch']} "
            f"({content['best_updates']:,} updates), {shown}"
        )

    def execute(self, lock: Optional[int]) -> None:
        """Does what is left to do: trains, translates, scores, extracts attention, and writes the results.

        Args:
            lock: descriptor of the lock, which is held; None in a dry run

        Raises:
            OptionError: a stage failed
        """
        experiment = self.training.experiment
        shell = Shell(experiment.shell.name, experiment.shell.dry_run, lock)
        run = replace(self.training, experiment=replace(experiment, shell=shell))
        before, seconds = self._updates(), _children_seconds()
        run.train()
        if not shell.dry_run and self._updates() > before:
            usage = {"seconds": _children_seconds() - seconds, "updates": self._updates() - before}
            write_json(self.folder / "cpu.json", usage)
        translate(run.experiment, run.system)
        score(run.experiment, run.system)
        forced = run.system.file(run.experiment.settings.split, "forced.npz")
        shell.run(
            *("fairseq-attn", "extract", run.experiment.data_bin, "--path", run.system.checkpoint, "--overwrite"),
            *("--gen-subset", run.experiment.settings.split, "--name", self.system, "--out", forced),
            *(() if run.model.user_dir is None else ("--user-dir", run.model.user_dir)),
            *shell.cpu_options(run.experiment.settings.device),
            failure=f"the attention of {run.system.checkpoint} could not be extracted",
        )
        about = {"command": self.command, "system": self.system, "dataset": self.dataset, "pair": self.pair}
        shell.step(f"results of {self.folder} into {self.result}", self._write, about, run, forced)

    def _write(self, about: Dict[str, str], run: TranslationRun, forced: Path) -> None:
        self.result.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.result, {**about, "seed": self.seed, **collect(run, forced)})
        run.experiment.shell.say(f"results: {self.result}")

    def _updates(self) -> int:
        """Updates until the last validation; 0 before the first one."""
        try:
            curves = read_log(self.folder / "train.log", "updates")
        except OptionError:
            return 0
        return max((step for curve in curves.valid.values() for step in curve), default=0)


def _children_seconds() -> float:
    """CPU time of all finished child processes."""
    times = os.times()
    return times.children_user + times.children_system


def make_job(
    system: SystemSettings,
    dataset: str,
    direction: Tuple[str, str],
    seed: int,
    environment: Mapping[str, str],
    options: Sequence[str],
    results: Path,
    extra: Sequence[str] = (),
) -> Job:
    """A run with the settings of its system.

    Args:
        system: the system
        dataset: name of the recipe
        direction: source and target language; empty: those of the recipe
        seed: of the training
        environment: variables for the recipe of the corpus
        options: of fairseq-train, for all systems
        results: folder of all results
        extra: more options of fairseq-train, which win over those of the system

    Raises:
        OptionError: a setting is wrong, or the recipe is not one of translation
    """
    recipe = datasets.load(dataset) if dataset in datasets.names() else None
    if not isinstance(recipe, TranslationRecipe):
        known = [name for name in datasets.names() if isinstance(datasets.load(name), TranslationRecipe)]
        raise OptionError(f"DATASET={dataset} is no recipe of translation: expected one of {', '.join(known)}")
    values = {**environment, **system.variables, "SRC": direction[0], "TGT": direction[1], "SEED": str(seed)}
    values = {name: value for name, value in values.items() if value and name in recipe.all_defaults}
    words = [*options, *system.options, *extra]
    variables = Variables(values, recipe.all_defaults)
    run = recipe.open(variables, words, Shell(dataset, variables.flag("DRY_RUN")))
    run = replace(run, name=system.name)
    settings = run.experiment.settings
    # the same command, whether a default was given or not
    shown = {name: value for name, value in values.items() if value != recipe.all_defaults[name]}
    shown.update(system.variables, SRC=settings.source, TGT=settings.target, SEED=str(seed))
    chosen = [f"{name}={shlex.quote(value)}" for name, value in sorted(shown.items()) if name not in PLACES]
    command = " ".join([*chosen, f"fairseq-attn recipe {dataset}", *(["--", shlex.join(words)] if words else [])])
    return Job(
        system=system.name,
        dataset=dataset,
        pair=f"{settings.source}-{settings.target}",
        seed=seed,
        training=run,
        command=command,
        result=results / dataset / run.experiment.work.name / f"{system.name}.seed{seed}.json",
    )
