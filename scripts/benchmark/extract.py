"""Extraction of attention: the section ``extract`` of the benchmark, in processes of its own.

The memory of ``fairseq-attn extract`` should not depend on the number of sentences. The section compares it with
``fairseq-generate --score-reference --print-alignment soft``, which gives the same weights.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import torch

from fairseq_attn_plugin.errors import OptionError

Tick = Callable[[str], Any]
USER_DIR = Path(__file__).resolve().parents[2] / "fairseq_attn_plugin"
SYSTEMS = ("fairseq-attn extract", "fairseq-generate")
WORDS = 10, 25  # of a sentence


def extract_section(settings: Mapping[str, Any], device: Any, tick: Tick) -> dict[str, Any]:
    """Peak memory and processor time in seconds of both commands, for every number of sentences."""
    counts, sizes = settings["extract_sentences"], settings["sizes"]
    result: dict[str, Any] = {"sentences": counts, "systems": {name: [] for name in SYSTEMS}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _train(folder, max(counts), sizes, settings["seed"])
        for count in counts:
            data = folder / f"bin{count}"
            _binarize(folder, data, count)
            common = [data, "--path", folder / "checkpoint_last.pt", "--max-tokens", 4000]
            common += [] if device.type == "cuda" else ["--cpu"]
            extract = ["extract", *common, "--out", folder / f"{count}.jsonl"]
            generate = [*common, "--user-dir", USER_DIR, "--score-reference", "--print-alignment", "soft"]
            for system, arguments in zip(SYSTEMS, (extract, generate)):
                tick(f"extract {system} {count}")
                command = [system.split()[0], *arguments]
                result["systems"][system].append(_measured(command, folder / "out"))
            lines = (folder / f"{count}.jsonl").read_bytes().count(b"\n")
            if lines != count + 1:
                raise AssertionError(f"fairseq-attn extract wrote {lines - 1} sentences instead of {count}")
    return result


def _train(folder: Path, count: int, sizes: Mapping[str, Any], seed: int) -> None:
    """A model after one update, and sentences for it."""
    draw = random.Random(seed)
    for language in ("xx", "yy"):
        with open(folder / f"text.{language}", "w") as stream:
            for _ in range(count):
                words = (f"w{draw.randrange(sizes['vocab'])}" for _ in range(draw.randint(*WORDS)))
                stream.write(" ".join(words) + "\n")
    with open(folder / "dict", "w") as stream:
        stream.writelines(f"w{number} 1\n" for number in range(sizes["vocab"]))
    _binarize(folder, folder / "bin", 20, "train", "valid")
    _run(
        ["fairseq-train", folder / "bin", "--user-dir", USER_DIR, "--save-dir", folder, "--arch", "lstm_soft", "--cpu"]
        + ["--encoder-embed-dim", sizes["embed"], "--decoder-embed-dim", sizes["embed"]]
        + ["--encoder-hidden-size", sizes["hidden"], "--decoder-hidden-size", sizes["hidden"]]
        + ["--encoder-layers", sizes["layers"], "--decoder-layers", sizes["layers"]]
        + ["--decoder-out-embed-dim", sizes["hidden"]]
        + "--optimizer adam --lr 1e-3 --max-tokens 1000 --max-update 1 --no-epoch-checkpoints".split(),
        folder / "out",
    )


def _binarize(folder: Path, out: Path, count: int, *splits: str) -> None:
    for language in ("xx", "yy"):
        lines = (folder / f"text.{language}").read_text().splitlines(keepends=True)
        (folder / f"part.{language}").write_text("".join(lines[:count]))
    options = [f"--{split}pref" for split in splits or ("test",)]
    prefixes = [item for option in options for item in (option, folder / "part")]
    _run(
        ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--destdir", out, *prefixes]
        + ["--srcdict", folder / "dict", "--tgtdict", folder / "dict"],
        folder / "out",
    )


def process_of(command: Sequence[Any]) -> tuple[list[str], dict[str, str]]:
    """The words and the environment of the process of a console script."""
    script = Path(sysconfig.get_path("scripts")) / str(command[0])
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(USER_DIR.parent), environment.get("PYTHONPATH", "")])
    environment["OMP_NUM_THREADS"] = str(torch.get_num_threads())
    return [sys.executable, str(script), *(str(item) for item in command[1:])], environment


def _start(command: Sequence[Any], out: Path) -> subprocess.Popen[bytes]:
    words, environment = process_of(command)
    with open(out, "wb") as stream:
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=environment
        )


def _measured(command: Sequence[Any], out: Path) -> dict[str, float]:
    begin = time.perf_counter()
    process = _start(command, out)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    _check(process.returncode, command, out)
    return {
        "wall": time.perf_counter() - begin,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak_memory_bytes": 1024 * usage.ru_maxrss,
    }


def _run(command: Sequence[Any], out: Path) -> None:
    _check(_start(command, out).wait(), command, out)


def _check(status: int, command: Sequence[Any], out: Path) -> None:
    if status:
        last = out.read_text(errors="replace").strip().split("\n")[-1]
        raise OptionError(f"{command[0]} ended with status {status}: {last}")
