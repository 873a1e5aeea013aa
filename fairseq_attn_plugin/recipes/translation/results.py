"""The generate and score stages: translations of a split and their BLEU, chrF and TER."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import List, Sequence

from ..commands import USER_DIR
from ..errors import OptionError
from ..stamps import checksum, read_stamp, remove_stamp, write_stamp
from .hypotheses import write_hypotheses
from .recipe import Experiment
from .segmentation import removal

__all__ = ["System", "score", "translate"]

METRICS = ("bleu", "chrf", "ter")


@dataclass(frozen=True)
class System:
    """A trained model that translates.

    Attributes:
        checkpoint: of the model
        results: folder for translations and scores
        stage: that trains the model, for messages
        options: more options of fairseq-generate
        user_dir: code that fairseq-generate imports
    """

    checkpoint: Path
    results: Path
    stage: str = "train"
    options: Sequence[str] = ()
    user_dir: Path = USER_DIR

    def file(self, split: str, ending: str) -> Path:
        return self.results / f"{split}.{ending}"


def generate_options(experiment: Experiment, system: System) -> List[str]:
    """Options of fairseq-generate; those of GENERATE_OPTIONS come last and win."""
    settings = experiment.settings
    own = ["--beam", "10", "--batch-size", "64", *experiment.corpus.generate, *system.options]
    return [*own, *removal(settings.bpe), *settings.generate_options]


def translate(experiment: Experiment, system: System) -> None:
    """Translates the split, unless the same model has done so with the same options.

    Raises:
        OptionError: the data or the checkpoint is missing, or fairseq-generate failed
    """
    settings, shell, split = experiment.settings, experiment.shell, experiment.settings.split
    options = generate_options(experiment, system)
    done, hypotheses = system.file(split, "generate.done"), system.file(split, "hyp")
    stamp = ""
    experiment.data.check_prepared()
    if not shell.dry_run:
        if not system.checkpoint.is_file():
            raise OptionError(f"{system.checkpoint} is missing: run the {system.stage} stage first")
        stamp = f"{' '.join(options)} {checksum(system.checkpoint)}"
        if read_stamp(done) == stamp:
            shell.say(f"generate: done before ({hypotheses})")
            return
        remove_stamp(done)
    cpu = shell.cpu_options(settings.device)
    shell.say(f"generate: {split} with {system.checkpoint}")
    shell.run(
        *("fairseq-generate", experiment.data_bin, "--user-dir", system.user_dir, *experiment.language_options),
        *("--path", system.checkpoint, "--gen-subset", split, "--results-path", system.results, *options, *cpu),
        failure=f"fairseq-generate failed with {system.checkpoint}",
    )
    text = experiment.data.path / "text"
    has_raw = shell.dry_run or (text / f"{split}.raw.{settings.target}").is_file()
    detokenized = (settings.target, system.file(split, "detok.hyp")) if has_raw else None
    generated = system.results / f"generate-{split}.txt"
    description = f"translations of {generated}, in order, into {hypotheses}"
    if detokenized:
        description += f", and detokenised into {detokenized[1]}"
    shell.step(description, write_hypotheses, generated, text / f"{split}.{settings.target}", hypotheses, detokenized)
    if not shell.dry_run:
        write_stamp(done, stamp)


def score(experiment: Experiment, system: System) -> None:
    """Computes BLEU, chrF and TER of the translations, unless they were scored before; prints them in both cases.

    The tokenised text is scored without further tokenisation, as in the papers. If the original references exist, the
    detokenised text is also scored with sacreBLEU's own tokeniser.

    Raises:
        OptionError: the translations are missing, or sacrebleu failed
    """
    settings, shell, split = experiment.settings, experiment.shell, experiment.settings.split
    text, target = experiment.data.path / "text", settings.target
    reference, hypotheses = text / f"{split}.{target}", system.file(split, "hyp")
    done = system.file(split, "score.done")
    stamp = ""
    if not shell.dry_run:
        if not system.file(split, "generate.done").is_file():
            raise OptionError(f"{hypotheses} is missing: run the generate stage first")
        stamp = f"{' '.join(METRICS)} {checksum(hypotheses, reference)}"
        if read_stamp(done) == stamp:
            shell.say("score: done before")
            for file in sorted(system.results.glob(f"{split}.*tokenized.json")):
                print(file)
                print(file.read_text(encoding="utf-8"), end="", flush=True)
            return
    folding = ["--lowercase", "--chrf-lowercase"] if experiment.corpus.lowercase else []
    # --force: the text is tokenised on purpose
    _score(experiment, system, "tokenized", reference, hypotheses, ["--tokenize", "none", "--force", *folding])
    detokenized = system.file(split, "detok.hyp")
    if shell.dry_run or detokenized.is_file():
        _score(experiment, system, "detokenized", text / f"{split}.raw.{target}", detokenized, folding)
    if not shell.dry_run:
        write_stamp(done, stamp)


def _score(
    experiment: Experiment, system: System, name: str, reference: Path, hypotheses: Path, options: Sequence[str]
) -> None:
    """Scores with their signatures, into ``RESULTS/SPLIT.NAME.json`` and onto the screen."""
    shell, split = experiment.shell, experiment.settings.split
    file = system.file(split, f"{name}.json")
    command = ["sacrebleu", str(reference), "--input", str(hypotheses), "--metrics", *METRICS, "--format", "json"]
    shell.run_into(file, *command, *options)
    if not shell.dry_run:
        shell.say(f"{split} scores, {name}:")
        print(file.read_text(encoding="utf-8"), end="", flush=True)
