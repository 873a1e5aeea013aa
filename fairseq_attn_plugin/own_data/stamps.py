"""Stamps: small files with the settings of a finished stage, so that it runs again only with other settings."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence

from fairseq_attn_plugin.writing import whole_text

__all__ = ["checksum", "differences", "lasting_options", "read_stamp", "remove_stamp", "write_stamp"]

_CHUNK = 1 << 20
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

# options that change only the length of a training, its output and its device
PASSING = (
    "--max-epoch", "--max-update", "--stop-time-hours", "--patience", "--log-interval", "--log-format", "--num-workers",
    "--save-interval", "--save-interval-updates", "--keep-interval-updates", "--validate-interval", "--cpu",
    "--no-progress-bar", "--keep-best-checkpoints", "--keep-last-epochs", "--no-epoch-checkpoints",
)  # fmt: skip


def checksum(*files: Path) -> str:
    """``CRC SIZE`` of the concatenated files, as POSIX ``cksum`` prints it.

    The CRC of ``cksum`` reads the bits of a byte in the reverse order of zlib's, starts at zero, and ends with the
    size: zlib's CRC of the reversed bytes is the reversed result.
    """
    crc, size = 0xFFFFFFFF, 0
    for file in files:
        with open(file, "rb") as stream:
            for chunk in iter(lambda: stream.read(_CHUNK), b""):
                crc = zlib.crc32(chunk.translate(_REVERSED), crc)
                size += len(chunk)
    length = size.to_bytes((size.bit_length() + 7) // 8, "little")
    crc = zlib.crc32(length.translate(_REVERSED), crc)
    return f"{int(f'{crc:032b}'[::-1], 2)} {size}"


def read_stamp(path: Path) -> Optional[str]:
    """Content of a stamp without the newline at its end; None if there is none."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\n")
    except OSError:
        return None


def write_stamp(path: Path, text: str) -> None:
    with whole_text(path, f"{path} cannot be written") as stream:
        stream.write(text + "\n")


def remove_stamp(path: Path) -> None:
    if path.exists():
        path.unlink()


def lasting_options(options: Sequence[str], files: Iterable[Path]) -> str:
    """What must not change when a training continues: an option per line, then the checksum and name of each file."""
    lines: List[str] = [""]
    kept = True
    for word in options:
        if word.startswith("--"):
            kept = word.partition("=")[0] not in PASSING
            if kept:
                lines.append(word)
        elif kept:
            lines[-1] += " " + word
    return "\n".join(lines + [f"{checksum(file)} {file.name}" for file in files])


def differences(before: str, now: str) -> str:
    """``was: LINE; now: LINE`` for what differs between two results of :func:`lasting_options`.

    Of an option that is given several times the last one counts, as it does for fairseq. The order of different options
    does not matter.
    """
    old, new = _by_name(before), _by_name(now)
    found = []
    for name in [*old, *(name for name in new if name not in old)]:
        if old.get(name) != new.get(name):
            found += [f"{when}: {lines[name]}" for when, lines in (("was", old), ("now", new)) if name in lines]
    return "; ".join(found)


def _by_name(text: str) -> Dict[str, str]:
    """The lines of :func:`lasting_options` by the option, or by the file."""
    lines = {}
    for line in filter(None, text.split("\n")):
        line = re.sub("^(--[^ =]+)=", r"\1 ", line)
        words = line.split()
        lines[words[0] if line.startswith("--") else words[-1]] = line
    return lines
