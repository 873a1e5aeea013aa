"""The stages of ``fairseq-attn train``: those of a recipe of translation, in ``FOLDER/training``, and the model folder.

A stage that has ended is not run again, and an interrupted training continues.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Sequence

from fairseq_attn_plugin.corpora.files import read_lines, write_lines

from ... import __version__
from ...model_folder import SETTINGS, Text, open_model_folder, read_settings, write_model_folder
from ...text.normalization import build_normalizer
from ..errors import OptionError
from ..stamps import checksum
from ..translation.model import ModelSettings
from ..translation.preparation import prepare
from ..translation.reading import CorpusReader, Treatment
from ..translation.recipe import Corpus, CorpusSettings, Experiment
from ..translation.results import translate
from ..translation.run import TranslationRun
from .reading import Pair
from .settings import groups
from .shell import LoggingShell

__all__ = ["Plan", "is_complete", "run_stages"]

SCORED_BY = {"zh": "zh", "ja": "char", "th": "char", "km": "char", "lo": "char", "my": "char"}  # sacrebleu's tokenisers


@dataclass(frozen=True)
class Plan:
    """What the user asked for.

    Attributes:
        folder: the model folder
        settings: of the corpus; its ``out`` is ``FOLDER/training``
        model: the architecture
        tokenizer: moses or none
        max_epoch, patience: ends of the training
        extra: further options of fairseq-train
        stamp: of the input files and the options that read them
        request: all that the user gave
    """

    folder: Path
    settings: CorpusSettings
    model: ModelSettings
    tokenizer: str
    max_epoch: int
    patience: int
    extra: Sequence[str]
    stamp: str
    request: str


class _Experiment(Experiment):
    """Everything lies directly in the output folder, which is of one model."""

    @property
    def work(self) -> Path:
        return self.settings.out


class _Run(TranslationRun):
    @property
    def folder(self) -> Path:
        return self.experiment.work / "checkpoints"


def run_stages(plan: Plan, shell: LoggingShell, splits: Dict[str, List[Pair]]) -> Dict[str, Any]:
    """Prepares, trains, translates and scores the test set, and writes the model folder; returns the scores.

    Args:
        plan: what to do
        shell: runs the commands
        splits: the pairs

    Raises:
        OptionError: a stage fails, fairseq-train does not know an option, or the folder holds a model of other settings
            or another corpus
    """
    settings = plan.settings
    corpus = Corpus(
        name="own",
        languages=(settings.source, settings.target),
        at_home="",
        read=lambda reader: _read(reader, plan.tokenizer, splits),
        training=groups(len(splits["train"]), plan.max_epoch, plan.patience),
        stamp=plan.stamp,
        epoch_updates=200,
    )
    run = _Run(_Experiment(corpus, settings, shell), plan.model, plan.extra)
    if plan.extra:
        check_command(run.train_command()[1:], plan.extra)
    prepare(run.experiment)
    run.train()
    translate(run.experiment, run.system)
    return _finish(plan, run, {name: len(pairs) for name, pairs in splits.items()})


def check_command(words: Sequence[str], extra: Sequence[str]) -> None:
    """Parses the words of a command as fairseq-train will, so that a mistake is found before the preparation.

    Raises:
        OptionError: what fairseq-train would say, with the option that may be meant
    """
    from fairseq import options

    parser = options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        wrong = next((word for word in message.split() if word.startswith("--") and word in extra), "")
        close = difflib.get_close_matches(wrong, parser._option_string_actions, 1)
        meant = "".join(f"; did you mean {name}?" for name in close)
        raise OptionError(f"options after --: fairseq-train says: {message}{meant}")

    parser.error = refuse  # type: ignore[method-assign]
    options.parse_args_and_arch(parser, input_args=list(words))


def _read(reader: CorpusReader, tokenizer: str, splits: Dict[str, List[Pair]]) -> None:
    """Writes the splits as they are (``original/``) and normalised (``clean/``), and tokenises them into ``text/``."""
    for split, pairs in splits.items():
        for side, language in enumerate(reader.languages):
            lines = [pair[side] for pair in pairs]
            clean = map(build_normalizer("moses", language), lines)
            for name, content in (("original", lines), ("clean", clean)):
                (reader.partial / name).mkdir(exist_ok=True)
                write_lines(reader.partial / name / f"{split}.{language}", content)
        moses = tokenizer == "moses"
        treatment = Treatment(tokenize=moses, keep_punctuation=True, keep_characters=True, raw=moses)
        first, second = reader.languages
        names = (f"{split}.{first}", f"{split}.{second}")
        reader.read_split(split, names, 1, treatment, folder=reader.partial / "clean")
    reader.shell.say("prepare: " + ", ".join(f"{name} {len(pairs):,}" for name, pairs in splits.items()) + " pairs")


def _finish(plan: Plan, run: _Run, pairs: Dict[str, int]) -> Dict[str, Any]:
    """Scores the translation of the test set, and writes the model folder."""
    folder, settings = plan.folder, plan.settings
    stamp = f"{plan.stamp} {checksum(run.system.checkpoint)}"
    done = read_settings(folder)
    if done.get("stamp") == stamp and done.get("request") == plan.request and is_complete(folder):
        return dict(done["scores"])
    data = run.experiment.data.path
    detokenized = run.system.file("test", "detok.hyp")
    hypotheses = read_lines(detokenized if detokenized.is_file() else run.system.file("test", "hyp"))
    languages = [settings.source, settings.target]
    for language in languages:
        run.experiment.shell.copy(data / "original" / f"test.{language}", folder / f"test.{language}")
    write_lines(folder / f"test.hyp.{settings.target}", hypotheses)
    scores = _scores(hypotheses, read_lines(folder / f"test.{settings.target}"), settings.target)
    codes, pieces, moses = data / "codes", data / "spm.model", plan.tokenizer == "moses"
    text = Text(
        lowercase=not any(line != line.lower() for line in read_lines(data / "text" / f"train.{settings.source}")),
        subwords={"subword-nmt": "bpe"}.get(settings.bpe, settings.bpe),
        bpe_codes=str(codes) if codes.is_file() else None,
        sentencepiece_model=str(pieces) if pieces.is_file() else None,
        tokenizer={"languages": languages, "dash_splits": False, "escape": False} if moses else None,
        normalizer="moses",
    )
    import torch

    content = {
        "languages": languages,
        "architecture": plan.model.arch,
        "pairs": pairs,
        "scores": scores,
        "data": "training/data/bin",
        "log": "training/checkpoints/train.log",
        "command": run.train_command(),
        "versions": {"fairseq_attn_plugin": __version__, "torch": torch.__version__},
        "stamp": stamp,
        "request": plan.request,
    }
    (folder / SETTINGS).unlink(missing_ok=True)
    write_model_folder(folder, run.system.checkpoint, run.experiment.data_bin, text, content)
    return scores


def is_complete(folder: Path) -> bool:
    """Whether a model folder has all its files."""
    try:
        return open_model_folder(folder) is not None
    except OptionError:
        return False  # a file was lost: all of them are written again


def _scores(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Dict[str, Any]:
    from sacrebleu.metrics import BLEU, CHRF, TER

    found: Dict[str, Any] = {}
    tokenizer = SCORED_BY.get(language, "13a")
    for name, metric in (("bleu", BLEU(tokenize=tokenizer)), ("chrf", CHRF()), ("ter", TER())):
        score = metric.corpus_score(list(hypotheses), [list(references)]).score
        found[name] = {"score": round(score, 2), "signature": str(metric.get_signature())}
    return found
