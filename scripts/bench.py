#!/usr/bin/env python3
"""Compares speed and memory of the plugin's models with fairseq's stock LSTM, as ratios.

    python scripts/bench.py                                     everything, on the CPU
    python scripts/bench.py --device cuda --sections train,decode --json bench.json
    python scripts/bench.py --archs lstm lstm_soft:attention_normalizer=entmax15 --lengths 25
    python scripts/bench.py --sections epochs,translate,sentence --data FOLDER --checkpoint FILE

Without --data and --checkpoint, sentences and models are random. benchmarks/README.md says how to read the tables.
"""

import argparse
import json
import logging
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # silences the profiler, which every memory measurement starts
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from benchmark.command_line import parse
from benchmark.measure import environment
from benchmark.sections import markdown, measure
from benchmark.systems import MemoryTask, Sizes, Spec, System

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.errors import OptionError

FILES = ("data", "checkpoint", "shortlist")  # of which a report has the names alone


def open_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"--device {name}: not a device; use cpu or cuda") from None
    if device.type not in ("cpu", "cuda"):
        raise OptionError(f"--device {name}: only cpu and cuda can be measured")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"--device {name}: torch sees no GPU here; use cpu")
    return device


def build_systems(texts: Sequence[str], args: argparse.Namespace, device: torch.device) -> dict[str, System]:
    specs = [Spec.parse(text) for text in texts]
    sizes = Sizes(args.vocab, args.embed, args.hidden, args.layers, args.dropout)
    task = MemoryTask(args.vocab)
    return {str(spec): System(spec, sizes, task, device, args.seed, args.optimizer) for spec in specs}


def settings_of(args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    settings = dict(vars(args))
    for name in ("json", "report"):
        del settings[name]
    settings["sizes"] = {name: settings.pop(name) for name in ("vocab", "embed", "hidden", "layers", "dropout")}
    if args.clock == "auto":
        settings["clock"] = "cpu" if device.type == "cpu" and torch.get_num_threads() == 1 else "wall"
    return settings


def written(path: Path) -> str:
    """The Markdown of a file that ``--json`` wrote.

    Raises:
        OptionError: it is no such file
    """
    try:
        return markdown(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        raise OptionError(f"--report {path}: not a file that --json wrote") from None


def main(argv: Optional[Sequence[str]] = None) -> None:
    args = parse(argv, __doc__)
    for name in ("hydra", "fairseq"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for path in args.report:
        path.with_suffix(".md").write_text(written(path) + "\n", encoding="utf-8")
    if args.report:
        return
    if args.threads:
        torch.set_num_threads(args.threads)
    device = open_device(args.device)
    settings = settings_of(args, device)
    wanted = args.archs if {"train", "decode"} & set(args.sections) else []
    systems = build_systems(wanted, args, device)
    sections = measure(systems, settings, device)
    named = {str(settings[name]): Path(settings[name]).name for name in FILES if settings[name]}
    words = [named.get(word, word) for word in (sys.argv[1:] if argv is None else argv)]
    report = {
        "command": shlex.join(["python", "scripts/bench.py", *words]),
        "environment": environment(device),
        "settings": {name: named.get(value, value) if name in FILES else value for name, value in settings.items()},
        "parameters": {name: system.size() for name, system in systems.items()},
        "sections": sections,
    }
    print(markdown(report))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
