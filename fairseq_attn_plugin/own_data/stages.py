"""The stages of ``fairseq-attn train`` in ``FOLDER/training``: data, training, translation; and the model folder.

A stage that has ended is not run again, and an interrupted training continues.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Sequence

from fairseq_attn_plugin import __version__
from fairseq_attn_plugin.corpora.errors import CorpusError, OptionError
from fairseq_attn_plugin.corpora.files import read_lines, read_text, split_lines, write_lines
from fairseq_attn_plugin.corpora.parallel import Treatment, import_split
from fairseq_attn_plugin.corpora.subwords import segment
from fairseq_attn_plugin.corpora.tokens import detokenize
from fairseq_attn_plugin.corpora.tools import PACKAGE
from fairseq_attn_plugin.errors import did_you_mean
from fairseq_attn_plugin.model_folder import SETTINGS, Text, open_model_folder, read_settings, write_model_folder
from fairseq_attn_plugin.text.normalization import build_normalizer
from fairseq_attn_plugin.writing import whole_text

from .card import CARD, model_card
from .reading import Pair
from .settings import PER_ROOT, Model, fitting_size
from .shell import LoggingShell
from .stamps import checksum, differences, lasting_options, read_stamp, remove_stamp, write_stamp

__all__ = ["Plan", "is_complete", "read_hypotheses", "run_stages"]

SCORED_BY = {"zh": "zh", "ja": "char", "th": "char", "km": "char", "lo": "char", "my": "char"}  # sacrebleu's tokenisers
REMEDY = "choose another --out, or remove that folder"
REMOVAL = {"subword-nmt": ["--remove-bpe"], "sentencepiece": ["--remove-bpe", "sentencepiece"], "none": []}


@dataclass(frozen=True)
class Plan:
    """What the user asked for.

    Attributes:
        folder: the model folder
        training: folder of everything else
        languages: source and target
        tokenizer: moses or none
        subwords: kind of subwords
        subword_size: number of merges or pieces; 0: as many as fit the corpus
        model: the architecture
        max_epoch, patience: ends of the training
        cpu: whether a GPU is not used
        jobs: processes of the preparation
        stamp: of the input files and the options that read them
        request: all that the user gave
    """

    folder: Path
    training: Path
    languages: Sequence[str]
    tokenizer: str
    subwords: str
    subword_size: int
    model: Model
    max_epoch: int
    patience: int
    cpu: bool
    jobs: int
    stamp: str
    request: str

    @property
    def data(self) -> Path:
        return self.training / "data"

    @property
    def checkpoints(self) -> Path:
        return self.training / "checkpoints"

    @property
    def best(self) -> Path:
        return self.checkpoints / "checkpoint_best.pt"

    @property
    def common_options(self) -> List[str]:
        """Options of fairseq-train and fairseq-generate alike."""
        source, target = self.languages
        user_dir = self.model.user_dir or str(PACKAGE)
        return ["--user-dir", user_dir, "--source-lang", source, "--target-lang", target]

    def cpu_options(self) -> List[str]:
        import torch

        return ["--cpu"] if self.cpu or not torch.cuda.is_available() else []

    def train_command(self, pairs: int) -> List[str]:
        """The words of the command that trains on so many pairs."""
        command = ["fairseq-train", str(self.data / "bin"), *self.common_options, "--save-dir", str(self.checkpoints)]
        command += ["--log-file", str(self.checkpoints / "train.log")]
        return [*command, *self.model.options(pairs, self.max_epoch, self.patience), *self.cpu_options()]


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
    command = plan.train_command(len(splits["train"]))
    if plan.model.extra:
        check_command(command[1:], plan.model.extra)
    _prepare(plan, shell, splits)
    _train(plan, shell, command, len(splits["train"]))
    _translate(plan, shell)
    return _finish(plan, command, {name: len(pairs) for name, pairs in splits.items()})


def check_command(words: Sequence[str], extra: Sequence[str]) -> None:
    """Parses the words of a command as fairseq-train will, so that a mistake is found before the preparation.

    Raises:
        OptionError: what fairseq-train would say, with the option that may be meant
    """
    from fairseq import options

    parser = options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        wrong = next((word for word in message.split() if word.startswith("--") and word in extra), "")
        meant = did_you_mean(wrong, parser._option_string_actions)
        raise OptionError("; ".join(filter(None, [f"options after --: fairseq-train says: {message}", meant])))

    parser.error = refuse  # type: ignore[method-assign]
    options.parse_args_and_arch(parser, input_args=list(words))


def _prepare(plan: Plan, shell: LoggingShell, splits: Dict[str, List[Pair]]) -> None:
    """Makes the data folder, complete or not at all."""
    tag = plan.subwords if plan.subwords == "none" else f"{plan.subwords}{plan.subword_size}"
    stamp = f"recipe own {'-'.join(plan.languages)} {tag} cut 0 {plan.stamp}"
    before = (read_stamp(plan.data / "done") or "").partition("\n")[0]
    if before and before != stamp:
        changed = [pair for pair in zip(before.split(), stamp.split()) if pair[0] != pair[1]]
        if all(word.isdigit() for pair in changed for word in pair):  # checksums and sizes
            raise OptionError(f"{plan.data} was prepared from other sentence pairs; a file has changed since: {REMEDY}")
        raise OptionError(f"{plan.data} was prepared with other settings ('{before}', now '{stamp}'): {REMEDY}")
    if before:
        shell.say(f"prepare: done before ({plan.data})")
        return
    if plan.data.is_dir() and any(plan.data.iterdir()):
        raise OptionError(f"{plan.data}: exists, and fairseq-attn train has not prepared it; choose another --out")
    partial = plan.data.with_name("data.partial")
    shutil.rmtree(partial, ignore_errors=True)
    _read(plan, partial, splits)
    shell.say("prepare: " + ", ".join(f"{name} {len(pairs):,}" for name, pairs in splits.items()) + " pairs")
    size, segmented = plan.subword_size, partial / "segmented"
    if plan.subwords != "none" and not size:
        texts = [read_lines(partial / "text" / f"train.{language}") for language in plan.languages]
        words = sum(len(line.split()) for lines in texts for line in lines)
        size = fitting_size(words)
        shell.say(f"{size:,} subwords: {PER_ROOT} times the square root of the {words:,} words of train")
    segment(partial, plan.languages, plan.subwords, size, shell.run, plan.jobs, known=True)
    shell.run(
        *("fairseq-preprocess", "--source-lang", plan.languages[0], "--target-lang", plan.languages[1]),
        *("--trainpref", segmented / "train", "--validpref", segmented / "valid", "--testpref", segmented / "test"),
        *("--destdir", partial / "bin", "--workers", plan.jobs),
    )
    write_stamp(partial / "done", stamp)
    shutil.rmtree(plan.data, ignore_errors=True)
    partial.replace(plan.data)


def _read(plan: Plan, folder: Path, splits: Dict[str, List[Pair]]) -> None:
    """Writes the splits as they are (``original/``) and normalised (``clean/``), and tokenises them into ``text/``."""
    for name in ("original", "clean", "text"):
        (folder / name).mkdir(parents=True)
    moses = plan.tokenizer == "moses"
    treatment = Treatment(tokenize=moses, keep_punctuation=True, keep_characters=True, raw=moses)
    for split, pairs in splits.items():
        names = [f"{split}.{language}" for language in plan.languages]
        for side, (language, name) in enumerate(zip(plan.languages, names)):
            lines = [pair[side] for pair in pairs]
            write_lines(folder / "original" / name, lines)
            write_lines(folder / "clean" / name, map(build_normalizer("moses", language), lines))
        to = folder / "text" / split
        import_split(folder / "clean", names, plan.languages, to, treatment=treatment, jobs=plan.jobs)


def _train(plan: Plan, shell: LoggingShell, command: Sequence[str], pairs: int) -> None:
    """Trains, unless the training is finished; an interrupted one continues from its last checkpoint."""
    folder, options = plan.checkpoints, plan.model.options(pairs, plan.max_epoch, plan.patience)
    done, options_file, last = folder / "train.done", folder / "train.options", folder / "checkpoint_last.pt"
    dictionaries = [plan.data / "bin" / f"dict.{language}.txt" for language in plan.languages]
    stamp, lasting = " ".join(options), lasting_options(options, dictionaries)
    if last.is_file() and options_file.is_file():
        different = differences(read_stamp(options_file) or "", lasting)
        if different:
            raise OptionError(f"{folder} holds a training with other options ({different}): {REMEDY}")
    if read_stamp(done) == stamp:
        shell.say(f"train: done before ({folder})")
        return
    folder.mkdir(parents=True, exist_ok=True)
    remove_stamp(done)
    write_stamp(options_file, lasting)
    shell.say(f"train: continuing {last}" if last.is_file() else f"train: {folder}")
    shell.run(
        *command, failure=f"fairseq-train failed; the same command continues from the last checkpoint in {folder}"
    )
    if not plan.best.is_file():
        raise OptionError(
            f"fairseq-train left no checkpoint_best.pt in {folder}: leave out --no-save, --disable-validation and "
            "--no-best-checkpoints"
        )
    write_stamp(done, stamp)


def _translate(plan: Plan, shell: LoggingShell) -> None:
    """Translates the test set, unless the same model has done so."""
    folder, text, target = plan.checkpoints, plan.data / "text", plan.languages[1]
    options = ["--beam", "10", "--batch-size", "64", *REMOVAL[plan.subwords]]
    done = folder / "test.generate.done"
    stamp = f"{' '.join(options)} {checksum(plan.best)}"
    if read_stamp(done) == stamp:
        return
    remove_stamp(done)
    shell.run(
        *("fairseq-generate", plan.data / "bin", *plan.common_options, "--path", plan.best, "--gen-subset", "test"),
        *("--results-path", folder, *options, *plan.cpu_options()),
    )
    lines = read_hypotheses(folder / "generate-test.txt", len(read_lines(text / f"test.{target}")))
    if (text / f"test.raw.{target}").is_file():
        lines = detokenize(lines, target)
    write_lines(folder / "test.hyp", lines)
    write_stamp(done, stamp)


def read_hypotheses(path: Path, expected: int) -> List[str]:
    """The best translations of fairseq-generate by sentence number.

    A missing sentence is an error, because all later lines would be scored against the wrong references.

    Args:
        path: ``generate-SPLIT.txt``, with lines ``D-NUMBER TAB score TAB translation``
        expected: number of sentences

    Raises:
        CorpusError: there are fewer or more
    """
    best: Dict[int, str] = {}
    for line in split_lines(read_text(path)):
        if line.startswith("D-"):
            name, _, sentence = line.split("\t", 2)
            # with --nbest the best translation comes first
            best.setdefault(int(name[2:]), " ".join(sentence.split()))
    missing = [number for number in range(expected) if number not in best]
    if missing or len(best) != expected:
        detail = f" (number {missing[0]} is missing)" if missing else ""
        raise CorpusError(f"{path} holds {len(best)} translations for {expected} sentences{detail}: remove it")
    return [best[number] for number in range(expected)]


def _finish(plan: Plan, command: List[str], pairs: Dict[str, int]) -> Dict[str, Any]:
    """Scores the translation of the test set, and writes the model folder."""
    folder, data, (source, target) = plan.folder, plan.data, plan.languages
    stamp = f"{plan.stamp} {checksum(plan.best)}"
    done = read_settings(folder)
    if done.get("stamp") == stamp and done.get("request") == plan.request and is_complete(folder):
        return dict(done["scores"])
    hypotheses = read_lines(plan.checkpoints / "test.hyp")
    for language in plan.languages:
        write_lines(folder / f"test.{language}", split_lines(read_text(data / "original" / f"test.{language}")))
    write_lines(folder / f"test.hyp.{target}", hypotheses)
    scores = _scores(hypotheses, read_lines(folder / f"test.{target}"), target)
    codes, pieces, moses = data / "codes", data / "spm.model", plan.tokenizer == "moses"
    text = Text(
        lowercase=not any(line != line.lower() for line in read_lines(data / "text" / f"train.{source}")),
        subwords={"subword-nmt": "bpe"}.get(plan.subwords, plan.subwords),
        bpe_codes=str(codes) if codes.is_file() else None,
        sentencepiece_model=str(pieces) if pieces.is_file() else None,
        tokenizer={"languages": list(plan.languages), "dash_splits": False, "escape": False} if moses else None,
        normalizer="moses",
    )
    import torch

    content = {
        "languages": list(plan.languages),
        "architecture": plan.model.arch,
        "pairs": pairs,
        "scores": scores,
        "data": "training/data/bin",
        "command": command,
        "versions": {"fairseq_attn_plugin": __version__, "torch": torch.__version__},
        "stamp": stamp,
        "request": plan.request,
    }
    (folder / SETTINGS).unlink(missing_ok=True)
    card = model_card(folder.resolve().name, content, plan.subwords, plan.tokenizer, text.lowercase)
    with whole_text(folder / CARD, f"{folder / CARD}: cannot be written") as stream:
        stream.write(card)
    write_model_folder(folder, plan.best, data / "bin", text, content)
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
