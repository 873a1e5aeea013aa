"""A recipe of document classification with its settings: from the corpus to the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from fairseq_attn_plugin.corpora.locks import locked

from ..commands import Shell
from ..data_folder import DataFolder, Preparation
from ..errors import OptionError
from ..recipe import Recipe
from ..settings import Variables
from ..stamps import checksum, read_stamp, write_stamp
from ..training import Training, train, train_command
from .baseline import write_baseline
from .recipe import DEFAULTS, DocumentCorpus, DocumentSettings, read_document_settings
from .table import write_table

__all__ = ["DocumentRecipe", "DocumentRun"]

CLASSIFY = ("fairseq-attn", "classify")
DICTIONARIES = ("input0/dict.txt", "label/dict.txt")


@dataclass(frozen=True)
class DocumentRun:
    """All models on all parts of a corpus.

    Attributes:
        corpus: the description
        settings: of the user
        shell: runs the commands
        extra: options of fairseq-train after ``--``
    """

    corpus: DocumentCorpus
    settings: DocumentSettings
    shell: Shell
    extra: Sequence[str]

    def stages(self) -> Dict[str, Callable[[], None]]:
        """The stages by name, in their order."""
        return {
            "prepare": self.prepare,
            "train": self.train,
            "evaluate": self.evaluate,
            "baseline": self.baseline,
            "table": self.make_table,
        }

    def data(self, part: str) -> DataFolder:
        return DataFolder(self.settings.out / part, self.shell, self.settings)

    def folder(self, part: str, model: str) -> Path:
        pretrained = ".pretrained" if self.settings.embeddings else ""
        return self.settings.out / part / f"{model}{pretrained}.seed{self.settings.seed}"

    def baseline_file(self, part: str) -> Path:
        return self.settings.out / part / f"tfidf.{self.settings.split}.json"

    def each_model(self) -> Iterator[Tuple[str, str]]:
        """Parts and models."""
        return ((part, model) for part in self.corpus.parts for model in self.settings.models)

    def training(self, part: str, model: str) -> Training:
        other = list(self.corpus.training.other)
        if self.settings.embeddings:
            other += ["--word-embeddings", str(self.settings.embeddings)]
        other += ["--max-epoch", str(self.corpus.epochs[model])]
        groups = replace(self.corpus.training, other=other)
        return Training(
            folder=self.folder(part, model),
            options=groups.options(model, self.settings.seed, self.extra),
            dictionaries=DICTIONARIES,
        )

    def train_command(self, part: str, model: str) -> List[str]:
        """The words of the fairseq-train command of a model."""
        cpu = self.shell.cpu_options(self.settings.device)
        return train_command(self.training(part, model), self.data(part).path / "bin", cpu)

    def prepare(self) -> None:
        """The prepare stage."""
        for part in self.corpus.parts:
            stamp = f"recipe {self.corpus.name} {part} threshold {self.settings.threshold}"
            data = self.data(part)

            def build(preparation: Preparation, part: str = part) -> None:
                self._build(preparation, part)

            if data.prepare(stamp, ("text", "bin"), build) and not self.shell.dry_run:
                with open(data.path / "bin" / DICTIONARIES[0], "rb") as stream:
                    self.shell.say(f"prepare: {sum(1 for _ in stream)} types in {data.path}")

    def _build(self, preparation: Preparation, part: str) -> None:
        self.shell.say(f"prepare: {part}, from {preparation.corpus}")
        self.corpus.read(preparation, part)
        text = preparation.partial / "text"
        for side, threshold in (("input0", self.settings.threshold), ("label", 1)):
            self.shell.run_quietly(
                self.settings.out / part / f"preprocess.{side}.log",
                *("fairseq-preprocess", "--only-source", "--trainpref", text / f"train.{side}"),
                *("--validpref", text / f"valid.{side}", "--testpref", text / f"test.{side}"),
                *("--destdir", preparation.partial / "bin" / side, "--workers", self.settings.jobs),
                *("--thresholdsrc", threshold),
            )

    def train(self) -> None:
        """The train stage; it skips a model that another process is training."""
        for part, model in self.each_model():
            training = self.training(part, model)
            if self.shell.dry_run:
                train(self.shell, training, self.data(part))
                continue
            with locked(training.folder / "train.lock", wait=False) as held:
                if held:
                    train(self.shell, training, self.data(part))
                else:
                    self.shell.say(f"train: {training.folder} is being trained by another process")

    def evaluate(self) -> None:
        """The evaluate stage: classes, scores and pictures of the split."""
        split = self.settings.split
        cpu = self.shell.cpu_options(self.settings.device)
        for part, model in self.each_model():
            folder = self.folder(part, model)
            checkpoint, done = folder / "checkpoint_best.pt", folder / f"{split}.done"
            stamp = ""
            if not self.shell.dry_run:
                if not checkpoint.is_file():
                    raise OptionError(f"{checkpoint} is missing: run the train stage first")
                stamp = checksum(checkpoint)
                if read_stamp(done) == stamp:
                    self.shell.say(f"evaluate: done before ({folder / split}.json)")
                    continue
            self.shell.say(f"evaluate: {split} of {part} with {checkpoint}")
            self.shell.run(
                *(*CLASSIFY, self.data(part).path / "bin", "--path", checkpoint, "--gen-subset", split),
                *("--out", folder / f"{split}.jsonl", "--scores", folder / f"{split}.json"),
                *("--plot", folder / f"{split}.html", *cpu),
                failure=f"classification failed with {checkpoint}",
            )
            if not self.shell.dry_run:
                write_stamp(done, stamp)

    def baseline(self) -> None:
        """The baseline stage."""
        for part in self.corpus.parts:
            data, file = self.data(part), self.baseline_file(part)
            data.check_prepared()
            if not self.shell.dry_run and file.is_file() and file.stat().st_mtime > data.done.stat().st_mtime:
                self.shell.say(f"baseline: done before ({file})")
                continue
            self.shell.say(f"baseline: TF-IDF and logistic regression on {part}")
            text = data.path / "text"
            description = f"TF-IDF and logistic regression on {text} > {file}"
            self.shell.step(description, write_baseline, text, self.settings.split, file)

    def make_table(self) -> None:
        """The table stage."""
        runs: List[Tuple[str, Path]] = []
        for part in self.corpus.parts:
            runs += [(model, self.folder(part, model)) for model in self.settings.models]
            runs.append(("tfidf", self.baseline_file(part)))
        out, title = self.settings.out, self.corpus.title
        description = f"table of {' '.join(str(place) for _, place in runs)} > {out / 'table.md'}"
        self.shell.step(
            description, write_table, title, self.settings.split, runs, out / "table.md", out / "table.json"
        )


class DocumentRecipe(Recipe):
    """A recipe of document classification."""

    stages = ("prepare", "train", "evaluate", "baseline", "table")
    common = DEFAULTS

    def open(self, variables: Variables, extra: Sequence[str], shell: Shell) -> DocumentRun:
        corpus = self.corpus(variables)
        return DocumentRun(corpus, read_document_settings(variables, corpus, extra), shell, extra)
