"""One training with fairseq-train: its options in groups, its stamps, its continuation after an interruption."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from .commands import USER_DIR, Shell
from .data_folder import DataFolder
from .errors import OptionError
from .settings import given, last_value
from .stamps import differences, lasting_options, read_stamp, remove_stamp, write_stamp

__all__ = ["OptionGroups", "Training", "train", "train_command"]

# flags of a recipe for the score of the architecture, which other scores refuse
SCORE_FLAGS = ("--attention-score-gain", "--attention-score-no-bias")
# one optimizer: the same options, updates and checkpoints
ADAM = ("adam", "fused_adam")
# stock fairseq's LSTM in the default sizes of the plugin's architectures
STOCK_SIZES = (
    "--encoder-embed-dim 256 --encoder-hidden-size 256 --encoder-layers 2 --encoder-bidirectional "
    "--decoder-embed-dim 256 --decoder-hidden-size 256 --decoder-layers 2 --decoder-out-embed-dim 256"
).split()


@dataclass(frozen=True)
class OptionGroups:
    """The options of a recipe for fairseq-train.

    fairseq refuses, for example, ``--label-smoothing`` with ``--criterion cross_entropy``. Therefore a whole group is
    dropped if the user gives its leading option after ``--``, and ``SCORE_FLAGS`` are dropped with another
    ``--attention-score``. ``--optimizer fused_adam`` is Adam and keeps Adam's options.
    """

    optimizer: Sequence[str]
    schedule: Sequence[str]
    criterion: Sequence[str]
    batch: Sequence[str]
    other: Sequence[str]

    def options(self, arch: str, seed: int, extra: Sequence[str]) -> List[str]:
        """All options of a training; those of the user come last and win."""
        chosen = ["--arch", arch, *(STOCK_SIZES if arch == "lstm" else ())]
        same_optimizer = last_value(extra, "--optimizer") in ADAM and last_value(self.optimizer, "--optimizer") in ADAM
        for group, leading in (
            (self.optimizer, () if same_optimizer else ("--optimizer",)),
            (self.schedule, ("--lr-scheduler",)),
            (self.criterion, ("--criterion",)),
            (self.batch, ("--batch-size", "--max-sentences", "--max-tokens")),
        ):
            if not given(extra, *leading):
                chosen += group
        dropped = SCORE_FLAGS if given(extra, "--attention-score") else ()
        other = [option for option in self.other if option not in dropped]
        return [*chosen, *other, "--seed", str(seed), "--no-epoch-checkpoints", *extra]


@dataclass(frozen=True)
class Training:
    """The inputs of one call of fairseq-train.

    Attributes:
        folder: for checkpoints, the log and stamps
        options: of :meth:`OptionGroups.options`
        dictionaries: below ``WORK/data/bin``; these must not change when the training continues
        lasting_files: other files that must not change when the training continues
        languages: options for the languages
        user_dir: code that fairseq-train imports
    """

    folder: Path
    options: Sequence[str]
    dictionaries: Sequence[str]
    lasting_files: Sequence[Path] = ()
    languages: Sequence[str] = ()
    user_dir: Path = USER_DIR

    @property
    def best(self) -> Path:
        return self.folder / "checkpoint_best.pt"

    @property
    def last(self) -> Path:
        return self.folder / "checkpoint_last.pt"


def train_command(training: Training, data_bin: Path, cpu: Sequence[str] = ()) -> List[str]:
    """The words of the command."""
    command = ["fairseq-train", str(data_bin), "--user-dir", str(training.user_dir), *training.languages]
    command += ["--save-dir", str(training.folder), "--log-file", str(training.folder / "train.log")]
    return [*command, *training.options, *cpu]


def train(
    shell: Shell,
    training: Training,
    data: DataFolder,
    guide: Optional[Callable[[Sequence[str]], Path]] = None,
) -> None:
    """Trains, unless the training is finished; an interrupted one continues from its last checkpoint.

    Args:
        shell: runs the command
        training: the training
        data: its data
        guide: makes a binarised folder with alignments, given ``--cpu`` or nothing, and returns it

    Raises:
        OptionError: the data are missing, the folder holds a training with other options, or fairseq-train failed
    """
    folder = training.folder
    done, options_file = folder / "train.done", folder / "train.options"
    stamp = " ".join(training.options)
    lasting = ""
    data.check_prepared()
    if not shell.dry_run:
        files = [data.path / "bin" / name for name in training.dictionaries]
        lasting = lasting_options(training.options, [*files, *training.lasting_files])
        if training.last.is_file() and options_file.is_file():
            different = differences(read_stamp(options_file) or "", lasting)
            if different:
                raise OptionError(
                    f"{folder} holds a training with other options ({different}): choose another OUT, or remove that "
                    "folder"
                )
        if read_stamp(done) == stamp:
            shell.say(f"train: done before ({folder})")
            return
    shell.make_folder(folder)
    if not shell.dry_run:
        remove_stamp(done)
        write_stamp(options_file, lasting)
    cpu = shell.cpu_options(data.settings.device)
    data_bin = data.path / "bin" if guide is None else guide(cpu)
    shell.say(f"train: continuing {training.last}" if training.last.is_file() else f"train: {folder}")
    shell.run(
        *train_command(training, data_bin, cpu),
        failure=f"fairseq-train failed; the same command continues from the last checkpoint in {folder}",
    )
    if shell.dry_run:
        return
    if not training.best.is_file():
        raise OptionError(
            f"fairseq-train left no checkpoint_best.pt in {folder}: leave out --no-save, --disable-validation and "
            "--no-best-checkpoints"
        )
    write_stamp(done, stamp)
