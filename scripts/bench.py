#!/usr/bin/env python3
"""Compares speed and memory of the plugin's models with fairseq's stock LSTM, as ratios.

    python scripts/bench.py                                     everything, on the CPU
    python scripts/bench.py --device cuda --sections train,decode --json bench.json
    python scripts/bench.py --archs lstm lstm_soft:attention_normalizer=entmax15 --lengths 25
    python scripts/bench.py --sections epochs,translate,sentence --data FOLDER --checkpoint FILE
    python scripts/bench.py --profile lstm_adm --sections train

Without --data and --checkpoint, sentences and models are random. benchmarks/README.md says how to read the tables.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any, Optional, Sequence

os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # silences the profiler, which every memory measurement starts
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from benchmark.attention import aqt_section
from benchmark.chain import chain_section
from benchmark.chain import systems as systems_of_chains
from benchmark.command_line import OWN, parse
from benchmark.documents import BASELINES as DOCUMENT_BASELINES
from benchmark.documents import documents_section
from benchmark.extract import SYSTEMS as EXTRACTORS
from benchmark.extract import extract_section
from benchmark.latency import LatencyRun
from benchmark.latent import PREDICTIONS, latent_sections
from benchmark.measure import environment
from benchmark.report import markdown
from benchmark.sections import decode_section, profile, train_section
from benchmark.systems import MemoryTask, Sizes, Spec, System
from benchmark.targets import judge
from tqdm import tqdm

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
    for name in ("json", "profile", "profile_rows", "report"):
        del settings[name]
    settings["sizes"] = {name: settings.pop(name) for name in ("vocab", "embed", "hidden", "layers", "dropout")}
    # a single sentence does not profit from more threads
    settings["latency_threads"] = args.threads or 1
    for clock, threads in (("latency_clock", settings["latency_threads"]), ("clock", torch.get_num_threads())):
        settings[clock] = args.clock
        if args.clock == "auto":
            settings[clock] = "cpu" if device.type == "cpu" and threads == 1 else "wall"
    return settings


def measure(
    settings: dict[str, Any], systems: dict[str, System], latency: Optional[LatencyRun], device: torch.device
) -> dict[str, Any]:
    turns = (settings["rounds"] + settings["warmup"]) * len(systems) * len(settings["lengths"])
    ticks = {
        **{name: section.turns(settings) for name, section in OWN.items()},
        "train": turns,
        "decode": turns,
        "latency": latency.ticks() if latency else 0,
        "latent": (settings["rounds"] + settings["warmup"]) * (len(settings["objectives"]) + len(PREDICTIONS)),
        "aqt": 2 * settings["aqt_rounds"],
        "chain": (settings["rounds"] + max(1, settings["warmup"]))
        * len(systems_of_chains())
        * len(settings["chain_rows"])
        * len(settings["chain_lengths"]),
        "documents": (settings["rounds"] + settings["warmup"]) * (1 + len(DOCUMENT_BASELINES)),
        "extract": len(EXTRACTORS) * len(settings["extract_sentences"]),
    }
    sections: dict[str, Any] = {}
    with tqdm(total=sum(ticks[name] for name in settings["sections"]), unit="run", file=sys.stderr) as bar:
        started = False

        def tick(name: str) -> None:  # called when a run begins, so that the previous run has ended
            nonlocal started
            bar.update(int(started))
            started = True
            bar.set_description(name)

        for name, section in OWN.items():
            if name in settings["sections"]:
                sections.update(section.measure(settings, device, tick))
        for name, run in (("train", train_section), ("decode", decode_section)):
            if name in settings["sections"]:
                sections[name] = run(systems, settings, device, tick)
        if latency:
            sections.update(latency.sections(tick))
        if "latent" in settings["sections"]:
            sections.update(latent_sections(settings, device, tick))
        others = {
            "aqt": aqt_section,
            "chain": chain_section,
            "documents": documents_section,
            "extract": extract_section,
        }
        for name, alone in others.items():
            if name in settings["sections"]:
                sections[name] = alone(settings, device, tick)
        bar.update(int(started))
    return sections


def verdicts(sections: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets of the sections that were measured."""
    return [verdict for verdict in judge(sections) if verdict["section"] in sections]


def read_report(path: Path) -> dict[str, Any]:
    """What ``--json`` wrote, judged by today's targets.

    Raises:
        OptionError: it is no such file
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return {**report, "targets": verdicts(report["sections"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise OptionError(f"--report {path}: not a file that --json wrote") from None


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parse(argv, __doc__)
    for name in ("hydra", "fairseq"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for about in (
        {"module": r"hydra\.|fairseq\."},
        {"message": r"\n'config' is validated"},
        {"message": "'pin_memory' argument"},
    ):
        warnings.filterwarnings("ignore", **about)  # fairseq's own use of hydra
    try:
        for path in args.report:
            path.with_suffix(".md").write_text(markdown(read_report(path)) + "\n", encoding="utf-8")
        if args.report:
            return 0
        if args.threads:
            torch.set_num_threads(args.threads)
        device = open_device(args.device)
        settings = settings_of(args, device)
        if args.profile:
            (system,) = build_systems([args.profile], args, device).values()
            print(profile(system, settings, args.sections, device, args.profile_rows))
            return 0
        wanted = args.archs if {"train", "decode"} & set(args.sections) else []
        systems = build_systems(wanted, args, device)
        latency = LatencyRun(settings, device) if "latency" in args.sections else None
        sections = measure(settings, systems, latency, device)
    except OptionError as error:
        print(f"bench.py: error: {error}", file=sys.stderr)
        return 2
    named = {str(settings[name]): Path(settings[name]).name for name in FILES if settings[name]}
    words = [named.get(word, word) for word in (sys.argv[1:] if argv is None else argv)]
    report = {
        "command": shlex.join(["python", "scripts/bench.py", *words]),
        "environment": environment(device),
        "settings": {name: named.get(value, value) if name in FILES else value for name, value in settings.items()},
        "parameters": {name: system.size() for name, system in systems.items()},
        "sections": sections,
        "targets": verdicts(sections),
    }
    print(markdown(report))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
