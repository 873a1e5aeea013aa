"""The steps of ``fairseq-attn train`` in ``FOLDER/training``: text, subwords, fairseq-preprocess, fairseq-train,
fairseq-generate; then the scores and the model folder.

A step that has ended is not done again, and an interrupted training continues. Small JSON files tell what a step was
done with: ``data/prepared.json`` the text, ``checkpoints/options.json`` the options that must not change in a training,
``checkpoints/trained.json`` all options of a finished one.
"""

import functools
import os
import shlex
import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, NoReturn, Sequence

from fairseq_attn_plugin import __version__
from fairseq_attn_plugin.corpora import tools
from fairseq_attn_plugin.corpora.downloads import checksum
from fairseq_attn_plugin.corpora.files import read_lines, read_text, split_lines, write_lines
from fairseq_attn_plugin.corpora.parallel import SPLITS, Pair, in_processes, tokenize, write_sides
from fairseq_attn_plugin.corpora.subwords import segment
from fairseq_attn_plugin.errors import OptionError, did_you_mean
from fairseq_attn_plugin.model_folder import SETTINGS, Text, write_model_folder
from fairseq_attn_plugin.text.reading import build_normalizer, is_lowercase, scored_by
from fairseq_attn_plugin.writing import read_json, whole_text, write_json

from .card import CARD, model_card
from .progress import follow
from .settings import PER_ROOT, fitting_size, parsed, words_in

# options that change only the length of a training, its output and its device
PASSING = (
    "--max-epoch", "--max-update", "--stop-time-hours", "--patience", "--log-interval", "--log-format", "--num-workers",
    "--save-interval", "--save-interval-updates", "--keep-interval-updates", "--validate-interval", "--cpu",
    "--no-progress-bar", "--keep-best-checkpoints", "--keep-last-epochs", "--no-epoch-checkpoints", "--log-file",
)  # fmt: skip


class Plan(NamedTuple):
    """What the user asked for.

    Attributes:
        folder: the model folder
        languages: source and target
        text: what determines the text: ``tokenizer``, ``subwords``, ``subword_size`` (0: as many as fit the corpus),
            ``columns``, and the checksums of the files of ``train``, ``valid`` and ``test``
        user_dir: code that fairseq imports
        options: of fairseq-train, without the folders and languages
        device: ``--cpu`` or nothing
        request: all that the user gave
        lock: descriptor of the lock of the folder
    """

    folder: Path
    languages: Sequence[str]
    text: Dict[str, Any]
    user_dir: str
    options: List[str]
    device: List[str]
    request: str
    lock: int = -1

    @property
    def training(self) -> Path:
        return self.folder.absolute() / "training"

    @property
    def data(self) -> Path:
        return self.training / "data"

    @property
    def checkpoints(self) -> Path:
        return self.training / "checkpoints"

    def command(self, tool: str, *options: object) -> List[str]:
        """The words of fairseq-train or fairseq-generate."""
        languages = ("--source-lang", self.languages[0], "--target-lang", self.languages[1])
        words = (tool, self.data / "bin", "--user-dir", self.user_dir, *languages, *options, *self.device)
        return [str(word) for word in words]

    def train_command(self) -> List[str]:
        folder = self.checkpoints
        return self.command("fairseq-train", "--save-dir", folder, "--log-file", folder / "train.log", *self.options)


def say(text: str) -> None:
    print(f"[train] {text}", flush=True)


def run(logs: Path, lock: int, *command: object) -> None:
    """Prints a command, so that a user can go on with it, and runs it with its output in ``LOGS/TOOL.log``.

    Raises:
        OptionError: the command failed
    """
    words = [str(word) for word in command]
    # the data folder gets its name when it is complete
    print("$ " + shlex.join(words).replace("/data.partial/", "/data/"), flush=True)
    read = tools.keep
    if words[0] == "fairseq-train":
        read = functools.partial(follow, max_epoch=int(parsed(words).get("--max-epoch", 0)))
    tools.run_quietly(logs / f"{words[0]}.log", *words, lock=lock, read=read)


def run_steps(plan: Plan, splits: Dict[str, List[Pair]]) -> Dict[str, Any]:
    """Prepares, trains, translates and scores the test set, and writes the model folder; returns the scores.

    Raises:
        OptionError: a step fails, or the folder holds a model of other settings or another corpus
    """
    _prepare(plan, splits)
    _train(plan)
    _translate(plan)
    return _finish(plan, {name: len(pairs) for name, pairs in splits.items()})


def check_command(words: Sequence[str], extra: Sequence[str]) -> None:
    """Parses the words of a command as fairseq-train will, so that a mistake is found before the preparation.

    Raises:
        OptionError: what fairseq-train would say, with the option that may be meant
    """
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from fairseq_attn_plugin.patches.numbers import check_configuration

    parser = options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        wrong = next((word for word in message.split() if word.startswith("--") and word in extra), "")
        meant = did_you_mean(wrong, parser._option_string_actions)
        raise OptionError("; ".join(filter(None, [f"options after --: fairseq-train says: {message}", meant])))

    parser.error = refuse  # type: ignore[method-assign]
    args = options.parse_args_and_arch(parser, input_args=list(words))
    with warnings.catch_warnings(action="ignore"):  # of hydra
        check_configuration(convert_namespace_to_omegaconf(args))


def _differences(before: Dict[str, Any], now: Dict[str, Any]) -> str:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name} {before.get(name, 'not given')}, now {now.get(name, 'not given')}" for name in names)


def _normalized(line: str, language: str) -> str:
    return " ".join(build_normalizer("moses", language)(line).split())


def _prepare(plan: Plan, splits: Dict[str, List[Pair]]) -> None:
    """Makes the data folder, complete or not at all."""
    before, remedy = tools.stamp_of(plan.data), f"choose another --out, or remove {plan.training}"
    changed = [name for name in splits if len(before.get(name, ())) == len(plan.text[name]) != 0]
    if before and any(before[name] != plan.text[name] for name in changed):
        raise OptionError(f"{plan.data} was prepared from other sentence pairs; a file has changed since: {remedy}")
    if before and before != plan.text:
        raise OptionError(f"{plan.data} was prepared with other settings ({_differences(before, plan.text)}): {remedy}")
    if before:
        say(f"prepare: done before ({plan.data})")
        return
    say("prepare: " + ", ".join(f"{name} {len(pairs):,}" for name, pairs in splits.items()) + " pairs")
    size, jobs, shell = plan.text["subword_size"], os.cpu_count() or 1, functools.partial(run, plan.training, plan.lock)
    train: List[List[str]] = []
    with tools.whole_folder(plan.data, plan.text) as partial:
        (partial / "original").mkdir()
        for split, pairs in splits.items():
            write_sides(partial / "original" / split, plan.languages, zip(*pairs))
            sides = [
                in_processes(functools.partial(_normalized, language=language), side, jobs, f"normalise {language}")
                for language, side in zip(plan.languages, zip(*pairs))
            ]
            if plan.text["tokenizer"] == "moses":
                both = zip(sides, plan.languages)
                sides = [tokenize(side, language, jobs, normalize=False, escape=False) for side, language in both]
            write_sides(partial / "text" / split, plan.languages, sides)
            train = sides if split == "train" else train
        if plan.text["subwords"] != "none" and not size:
            count = sum(map(words_in, train, plan.languages))
            size = fitting_size(count)
            said = f"{size:,} subwords: {PER_ROOT} times the square root of the {count:,} words of train"
            if plan.text["subwords"] == "sentencepiece":  # its pieces include the characters, and merges do not
                characters = {character for side in train for line in side for character in line} - {" "}
                size += len(characters)
                said += f"; and its {len(characters):,} characters"
            say(said)
        segment(partial, plan.languages, plan.text["subwords"], size, shell, jobs, known=True)
        prefixes = [word for name in SPLITS for word in (f"--{name}pref", partial / "segmented" / name)]
        command = ["fairseq-preprocess", "--source-lang", plan.languages[0], "--target-lang", plan.languages[1]]
        shell(*command, *prefixes, "--destdir", partial / "bin", "--workers", jobs)


def _train(plan: Plan) -> None:
    """Trains, unless the training is finished; an interrupted one continues from its last checkpoint."""
    folder, last, done = plan.checkpoints, plan.checkpoints / "checkpoint_last.pt", plan.checkpoints / "trained.json"
    lasting = {name: value for name, value in parsed(plan.options).items() if name not in PASSING}
    for language in plan.languages:  # a checkpoint has the numbers of words, which other data number otherwise
        lasting[f"dict.{language}.txt"] = checksum(plan.data / "bin" / f"dict.{language}.txt")
    different = _differences(read_json(folder / "options.json"), lasting) if last.is_file() or done.is_file() else ""
    if different:
        raise OptionError(
            f"{folder} holds a training with other options or words ({different}): choose another --out, or remove it"
        )
    if read_json(done) == {"options": plan.options}:
        say(f"train: done before ({folder})")
        return
    folder.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    write_json("--out", folder / "options.json", lasting)
    say(f"train: continuing {last}" if last.is_file() else f"train: {folder}")
    run(plan.training, plan.lock, *plan.train_command())
    if not (folder / "checkpoint_best.pt").is_file():
        raise OptionError(
            f"fairseq-train left no checkpoint_best.pt in {folder}: it has not validated; leave out "
            "--validate-after-updates"
        )
    write_json("--out", done, {"options": plan.options})


def _translate(plan: Plan) -> None:
    """Translates the test set, unless the translation is newer than the best checkpoint and the data."""
    folder, best, written = plan.checkpoints, plan.checkpoints / "checkpoint_best.pt", plan.checkpoints / "test.hyp"
    newest = max(path.stat().st_mtime_ns for path in (best, plan.data / "prepared.json"))
    if written.is_file() and written.stat().st_mtime_ns > newest:
        return
    options = ["--path", best, "--gen-subset", "test", "--results-path", folder, "--beam", "10", "--batch-size", "64"]
    options += {"subword-nmt": ["--remove-bpe"], "sentencepiece": ["--remove-bpe", "sentencepiece"]}.get(
        plan.text["subwords"], []
    )
    options += ["--tokenizer", "moses"] if plan.text["tokenizer"] == "moses" else []
    run(plan.training, plan.lock, *plan.command("fairseq-generate", *options))
    expected = len(read_lines(plan.data / "text" / f"test.{plan.languages[1]}"))
    write_lines(written, read_hypotheses(folder / "generate-test.txt", expected))


def read_hypotheses(path: Path, expected: int) -> List[str]:
    """The best translations of fairseq-generate by sentence number, from lines ``D-NUMBER TAB score TAB translation``.

    Raises:
        OptionError: there are not as many as expected; later lines would be scored against the wrong references
    """
    best: Dict[int, str] = {}
    for line in split_lines(read_text(path)):
        if line.startswith("D-"):
            name, _, sentence = line.split("\t", 2)
            best.setdefault(int(name[2:]), " ".join(sentence.split()))  # with --nbest the best translation comes first
    if sorted(best) != list(range(expected)):
        raise OptionError(f"{path} holds {len(best)} translations for {expected} sentences: remove it")
    return [best[number] for number in range(expected)]


def _finish(plan: Plan, pairs: Dict[str, int]) -> Dict[str, Any]:
    """Scores the translation of the test set, and writes the model folder."""
    import torch
    from sacrebleu.metrics import BLEU, CHRF, TER

    folder, data, (source, target) = plan.folder, plan.data, plan.languages
    hypotheses = read_lines(plan.checkpoints / "test.hyp")
    for language in plan.languages:
        write_lines(folder / f"test.{language}", split_lines(read_text(data / "original" / f"test.{language}")))
    write_lines(folder / f"test.hyp.{target}", hypotheses)
    scores: Dict[str, Any] = {}
    bleu = BLEU(tokenize=scored_by(target) or "13a")
    for name, metric in (("bleu", bleu), ("chrf", CHRF()), ("ter", TER())):
        score = metric.corpus_score(hypotheses, [read_lines(folder / f"test.{target}")]).score
        scores[name] = {"score": round(score, 2), "signature": str(metric.get_signature())}
    codes, pieces, moses = data / "codes", data / "spm.model", plan.text["tokenizer"] == "moses"
    text = Text(
        lowercase=is_lowercase(read_lines(data / "text" / f"train.{source}")),
        subwords={"subword-nmt": "bpe"}.get(plan.text["subwords"], plan.text["subwords"]),
        bpe_codes=str(codes) if codes.is_file() else None,
        sentencepiece_model=str(pieces) if pieces.is_file() else None,
        tokenizer={"languages": list(plan.languages), "dash_splits": False, "escape": False} if moses else None,
        normalizer="moses",
    )
    content = {
        "languages": list(plan.languages),
        "architecture": parsed(plan.options)["--arch"],
        "pairs": pairs,
        "scores": scores,
        "data": "training/data/bin",
        "command": plan.train_command(),
        "versions": {"fairseq_attn_plugin": __version__, "torch": torch.__version__},
        "request": plan.request,
    }
    (folder / SETTINGS).unlink(missing_ok=True)
    card = model_card(folder.resolve().name, content, plan.text["subwords"], plan.text["tokenizer"], text.lowercase)
    with whole_text(folder / CARD, f"{folder / CARD}: cannot be written") as stream:
        stream.write(card)
    write_model_folder(folder, plan.checkpoints / "checkpoint_best.pt", data / "bin", text, content)
    return scores
