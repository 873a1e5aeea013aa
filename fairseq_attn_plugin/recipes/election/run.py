"""The election recipe with its settings: from the corpus to the table."""

from __future__ import annotations

import filecmp
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from ...analysis.report.versions import versions_of
from ..commands import Shell
from ..errors import OptionError
from ..recipe import Recipe
from ..settings import Variables
from ..stamps import checksum, read_stamp, remove_stamp, write_stamp
from ..training import Training, train, train_command
from ..translation.preparation import prepare
from ..translation.recipe import Experiment, read_corpus_settings
from ..translation.results import System, score, translate
from .settings import DEFAULTS, ElectionSettings, read_election_settings
from .systems import SYSTEMS
from .table import write_table

__all__ = ["ElectionRecipe", "ElectionRun"]

ELECTION = ("fairseq-attn", "election")
AGENT = ("fairseq-attn", "q-agent")
STAGES = (
    *("prepare", "teacher", "election", "agent", "mask", "mask-words", "gaussian", "election-model"),
    *("generate", "score", "table"),
)


@dataclass(frozen=True)
class ElectionRun:
    """All systems on one corpus.

    Attributes:
        experiment: the corpus and its settings
        settings: of the recipe
        extra: options of fairseq-train for all systems
    """

    experiment: Experiment
    settings: ElectionSettings
    extra: Sequence[str]

    @property
    def shell(self) -> Shell:
        return self.experiment.shell

    @property
    def teacher(self) -> Path:
        """Checkpoint of the teacher."""
        return self.folder("teacher") / "checkpoint_best.pt"

    @property
    def election(self) -> Path:
        return self.folder("teacher") / "election.json"

    @property
    def words(self) -> Path:
        """Table of the agent."""
        return self.folder("agent") / "words.json"

    def folder(self, system: str) -> Path:
        return self.experiment.work / f"{system}.seed{self.experiment.settings.seed}"

    def stages(self) -> Dict[str, Callable[[], None]]:
        """The stages by name, in their order."""
        stages: Dict[str, Callable[[], None]] = {
            "prepare": lambda: prepare(self.experiment),
            "teacher": self.train_teacher,
            "election": self.hold_election,
            "agent": self.train_agent,
            "generate": lambda: self.each_system(translate),
            "score": lambda: self.each_system(score),
            "table": self.make_table,
        }
        students = (name for name in SYSTEMS if name != "teacher")
        stages.update({name: partial(self.train_student, name) for name in students})
        return {name: stages[name] for name in STAGES}

    def needs(self, stage: str, file: Path) -> None:
        """Raises ``OptionError`` if the file of an earlier stage is missing; a dry run has none."""
        if not file.is_file() and not self.shell.dry_run:
            raise OptionError(f"{file} is missing: run the {stage} stage first")

    def training(self, system: str) -> Training:
        """The training of a system. A student gets the parameters of the teacher and the mask; some get the words."""
        kind, settings = SYSTEMS[system], self.settings
        epochs, extra = settings.epochs_of(system), list(self.extra)
        other = ["--dropout", "0.2", "--clip-norm", "5", "--max-epoch", str(epochs)]
        lasting: List[Path] = []
        if system == "teacher":
            other += ["--attention-score", "additive"]
        else:
            lasting = [self.teacher, self.election]
            other += ["--election-teacher", str(self.teacher), "--gaussian-election", str(self.election)]
            if kind.reads_words:
                lasting.append(self.words)
                other += ["--election-table", str(self.words)]
        if settings.max_normalize:
            other.append("--attention-max-normalize")
        if kind.rate is None:
            # one update with the learning rate zero writes the checkpoint of an untrained model
            extra += "--lr-scheduler fixed --lr 0 --max-update 1".split()
        # the rate is halved in this epoch and in every one after it
        schedule = ["--lr-scheduler", "fixed", "--force-anneal", str(epochs - epochs // 4), "--lr-shrink", "0.5"]
        groups = replace(
            self.experiment.corpus.training,
            optimizer=["--optimizer", "adam", "--lr", kind.rate or "0"],
            schedule=schedule,
            other=[*other, *settings.arch_options],
        )
        return Training(
            folder=self.folder(system),
            options=groups.options(kind.arch, self.experiment.settings.seed, extra),
            dictionaries=self.experiment.dictionaries,
            lasting_files=lasting,
            languages=self.experiment.language_options,
        )

    def train_command(self, system: str) -> List[str]:
        """The words of the fairseq-train command of a system."""
        cpu = self.shell.cpu_options(self.experiment.settings.device)
        return train_command(self.training(system), self.experiment.data_bin, cpu)

    def train_teacher(self) -> None:
        """The teacher stage: trains it, or takes the given checkpoint."""
        given = self.settings.teacher
        if given is None:
            train(self.shell, self.training("teacher"), self.experiment.data)
            return
        folder = self.folder("teacher")
        if (folder / "train.options").is_file():
            raise OptionError(
                f"TEACHER={given}: {folder} holds a teacher that was trained; choose another OUT, or remove that folder"
            )
        self.shell.say(f"teacher: {given}")
        self.shell.make_folder(folder)
        # an unchanged copy keeps its time
        if self.shell.dry_run or not (self.teacher.is_file() and filecmp.cmp(given, self.teacher, shallow=False)):
            self.shell.copy(given, self.teacher)

    def train_student(self, system: str) -> None:
        """The stage of a student."""
        self.needs("teacher", self.teacher)
        self.needs("election", self.election)
        if SYSTEMS[system].reads_words:
            self.needs("agent", self.words)
        if system in self.settings.systems:
            train(self.shell, self.training(system), self.experiment.data)

    def derive(self, file: Path, source: Path, command: Sequence[str]) -> None:
        """Runs the command that makes ``file``, unless it has made it from the same ``source``."""
        done = file.with_name(file.name + ".done")
        stamp = ""
        if not self.shell.dry_run:
            stamp = f"{' '.join(command)} {checksum(source)}"
            if file.is_file() and read_stamp(done) == stamp:
                self.shell.say(f"{file.name}: done before ({file})")
                return
            remove_stamp(done)
        self.shell.say(f"{file.name}: from {source}")
        self.shell.make_folder(file.parent)
        self.shell.run(*command, failure=f"{file} could not be made")
        if not self.shell.dry_run:
            write_stamp(done, stamp)

    def picture(self, path: Path) -> List[str]:
        """The option for a picture, if matplotlib is installed."""
        return ["--plot", str(path)] if self.shell.dry_run or find_spec("matplotlib") else []

    def hold_election(self) -> None:
        """The election stage: the rule, sigma and satisfaction on the validation set."""
        self.needs("prepare", self.experiment.data.done)
        self.needs("teacher", self.teacher)
        cpu = self.shell.cpu_options(self.experiment.settings.device)
        command = [*ELECTION, str(self.experiment.data_bin), "--path", str(self.teacher), "--gen-subset", "valid"]
        command += ["--out", str(self.election), *self.picture(self.folder("teacher") / "offsets.png")]
        self.derive(self.election, self.teacher, [*command, *self.settings.election_options, *cpu])

    def train_agent(self) -> None:
        """The agent stage: the table of source words for a target word."""
        self.needs("prepare", self.experiment.data.done)
        corpus = self.experiment.settings
        command = [*AGENT, str(self.experiment.data_bin), *self.experiment.language_options]
        if self.settings.embeddings:
            source, target = self.settings.embeddings
            command += ["--embeddings-source", source, "--embeddings-target", target]
        command += ["--out", str(self.words), *self.picture(self.folder("agent") / "rewards.png")]
        # the paper trains the agent on the validation set
        command += ["--start-split", "valid", "--seed", str(corpus.seed), *self.settings.agent_options]
        self.derive(self.words, self.experiment.data_bin / f"dict.{corpus.target}.txt", command)

    def system(self, name: str) -> System:
        """A trained system that translates."""
        folder = self.folder(name)
        return System(folder / "checkpoint_best.pt", folder / f"beam{self.settings.beam}", name)

    def each_system(self, stage: Callable[[Experiment, System], None]) -> None:
        for name in self.settings.systems:
            stage(self.experiment, self.system(name))

    def make_table(self) -> None:
        """The table stage."""
        corpus, settings = self.experiment.settings, self.settings
        files = {name: self.system(name).file(corpus.split, "tokenized.json") for name in settings.systems}
        for file in files.values():
            self.needs("score", file)
        election = self.election if self.shell.dry_run or self.election.is_file() else None
        pairs, to = self.experiment.corpus.tag, self.experiment.work / f"table.seed{corpus.seed}.md"
        direction = f"{corpus.source}-{corpus.target}"
        title = f"{direction}, PAIRS={pairs}, {corpus.split}, beam {settings.beam}, seed {corpus.seed}"
        inputs = " ".join(str(file) for file in [*files.values(), *([election] if election else [])])
        self.shell.step(f"table of {inputs} > {to}", self._write_table, title, files, election, to)

    def _write_table(self, title: str, files: Mapping[str, Path], election: Optional[Path], to: Path) -> None:
        """Writes the table; a part of the step, since the versions need torch and fairseq, which a dry run does not."""
        # a teacher that was given has no log
        logs = {name: log for name in files if (log := self.folder(name) / "train.log").is_file()}
        options = {name: " ".join(self.training(name).options) for name in logs}
        about = {
            "options": {name: text.replace(f"{self.experiment.work}/", "") for name, text in options.items()},
            "versions": versions_of("fairseq_attn_plugin", "fairseq", "torch", "sacrebleu"),
        }
        write_table(title, files, election, to, logs, about)


class ElectionRecipe(Recipe):
    """The election recipe."""

    stages = STAGES
    common = DEFAULTS

    def open(self, variables: Variables, extra: Sequence[str], shell: Shell) -> ElectionRun:
        corpus = self.corpus(variables)
        settings = read_election_settings(variables, extra)
        experiment = Experiment(corpus, read_corpus_settings(variables, corpus), shell)
        return ElectionRun(experiment, settings, extra)
