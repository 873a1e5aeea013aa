"""A recipe of translation with its settings: the stages prepare, train, generate, score."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from ..commands import USER_DIR, Shell
from ..recipe import Recipe
from ..settings import Variables, last_value
from ..training import Training, train, train_command
from . import model as models
from .model import ModelSettings, choose_groups, read_model_settings
from .preparation import prepare
from .recipe import DEFAULTS, Experiment, read_corpus_settings
from .results import System, score, translate
from .teacher import guide

__all__ = ["TranslationRecipe", "TranslationRun"]


@dataclass(frozen=True)
class TranslationRun:
    """One model on one corpus.

    Attributes:
        experiment: the corpus and its settings
        model: settings of the model
        extra: options of fairseq-train after ``--``
        name: of the folder, without the seed (default: of the model)
    """

    experiment: Experiment
    model: ModelSettings
    extra: Sequence[str]
    name: str = ""

    @property
    def folder(self) -> Path:
        return self.experiment.work / f"{self.name or self.model.name}.seed{self.experiment.settings.seed}"

    @property
    def training(self) -> Training:
        groups = choose_groups(self.experiment.corpus, self.model)
        return Training(
            folder=self.folder,
            options=groups.options(self.model.arch, self.experiment.settings.seed, self.extra),
            dictionaries=self.experiment.dictionaries,
            lasting_files=[self.model.teacher] if self.model.teacher else [],
            languages=self.experiment.language_options,
            user_dir=self.model.user_dir or USER_DIR,
        )

    @property
    def system(self) -> System:
        topk = self.model.topk
        # --latent-topk-feed is for models that feed a context
        further = [] if last_value(self.extra, "--input-feeding") == "none" else self.experiment.corpus.topk
        return System(
            checkpoint=self.training.best,
            results=self.folder / f"top{topk}" if topk else self.folder,
            options=["--latent-topk", str(topk), *further] if topk else [],
            user_dir=self.model.user_dir or USER_DIR,
        )

    def stages(self) -> Dict[str, Callable[[], None]]:
        """The stages by name, in their order."""
        return {
            "prepare": lambda: prepare(self.experiment),
            "train": self.train,
            "generate": lambda: translate(self.experiment, self.system),
            "score": lambda: score(self.experiment, self.system),
        }

    def train(self) -> None:
        """The train stage."""
        shell, data, teacher = self.experiment.shell, self.experiment.data, self.model.teacher
        if teacher is None:
            train(shell, self.training, data)
        else:
            method = self.model.teacher_method
            train(shell, self.training, data, lambda cpu: guide(shell, data, self.folder, teacher, method, cpu))

    def train_command(self) -> List[str]:
        """The words of the fairseq-train command."""
        cpu = self.experiment.shell.cpu_options(self.experiment.settings.device)
        data_bin = self.folder / "bin" if self.model.teacher else self.experiment.data_bin
        return train_command(self.training, data_bin, cpu)


class TranslationRecipe(Recipe):
    """A recipe of translation."""

    stages = ("prepare", "train", "generate", "score")
    common = {**DEFAULTS, **models.DEFAULTS}

    def open(self, variables: Variables, extra: Sequence[str], shell: Shell) -> TranslationRun:
        corpus = self.corpus(variables)
        settings = read_corpus_settings(variables, corpus)
        return TranslationRun(Experiment(corpus, settings, shell), read_model_settings(variables, extra), extra)
