"""Training guided by a teacher: a folder with links to the data and the teacher's alignments."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from ..commands import Shell
from ..data_folder import DataFolder
from ..stamps import checksum, read_stamp, remove_stamp, write_stamp

__all__ = ["guide"]

COMMAND = ("fairseq-attn", "teacher-alignments")


def guide(shell: Shell, data: DataFolder, folder: Path, teacher: Path, method: str, cpu: Sequence[str]) -> Path:
    """The binarised data with alignments of the training and validation split.

    Args:
        shell: runs the command
        data: the data of the training
        folder: of the training; its ``bin`` gets the links and the alignments
        teacher: checkpoint
        method: of ``fairseq-attn align``, which reads the alignments
        cpu: ``--cpu`` or nothing

    Returns:
        the folder ``bin``

    Raises:
        OptionError: the alignments could not be made
    """
    data_bin = folder / "bin"
    done = data_bin / "done"
    chosen = ["--method", method] if method != "attention" else []  # none: stamps of before name no method
    stamp = ""
    if not shell.dry_run:
        # changes with the parameters of the teacher, with the method and with the data
        stamp = "\n".join([checksum(teacher), *chosen[1:], str(read_stamp(data.done))])
        if read_stamp(done) == stamp:
            return data_bin
        remove_stamp(done)
    shell.make_folder(data_bin)
    shell.step(f"link {data.path / 'bin'}/* into {data_bin}", _link_files, data.path / "bin", data_bin)
    for split in ("train", "valid"):
        shell.say(f"alignments of {split} by {teacher}")
        shell.run(
            *(*COMMAND, data_bin, "--path", teacher, "--gen-subset", split, "--into-data", "--overwrite"),
            *chosen,
            *cpu,
            failure="the teacher's alignments could not be made",
        )
    if not shell.dry_run:
        write_stamp(done, stamp)
    return data_bin


def _link_files(source: Path, target: Path) -> None:
    for file in sorted(source.iterdir()):
        link = target / file.name
        if link.is_symlink() or link.exists():
            link.unlink()
        link.symlink_to(file)
