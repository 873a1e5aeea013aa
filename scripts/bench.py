#!/usr/bin/env python3
"""Compares speed and memory of the plugin's models with fairseq's stock LSTM, as ratios.

    python scripts/bench.py                                     everything, on the CPU
    python scripts/bench.py --device cuda --sections train,decode --json bench.json
    python scripts/bench.py --archs lstm lstm_soft:attention_normalizer=entmax15 --lengths 25
    python scripts/bench.py --profile lstm_adm --sections train

No data is needed: batches are random. benchmarks/README.md says how to read the tables.
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
from benchmark.attention import aqt_section, memory_section
from benchmark.chain import chain_section
from benchmark.chain import systems as systems_of_chains
from benchmark.documents import BASELINES as DOCUMENT_BASELINES
from benchmark.documents import documents_section
from benchmark.extract import SYSTEMS as EXTRACTORS
from benchmark.extract import extract_section
from benchmark.latency import CLASSES, LatencyRun
from benchmark.latency import SYSTEMS as LATENCY_ARCHS
from benchmark.latent import OBJECTIVES, PREDICTIONS, latent_sections
from benchmark.measure import environment
from benchmark.report import markdown
from benchmark.sections import decode_section, profile, train_section
from benchmark.systems import MemoryTask, Sizes, Spec, System
from benchmark.targets import SOFT, STOCK, UNFED, judge
from tqdm import tqdm

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.errors import OptionError

SECTIONS = ("train", "decode", "latency", "latent", "aqt", "chain", "documents", "memory", "extract")
FED_CONTEXT = "lstm_soft:input_feeding=context"
MECHANISMS = ["soft", "mqt", "aqt", "mqt:chunk_size=8", "aqt:chunk_size=8"]
DEFAULT_ARCHS = (STOCK, SOFT, FED_CONTEXT, UNFED, "lstm_adm", "lstm_adm_aqt")
QUICK = {
    "rounds": 2,
    "aqt_rounds": 2,
    "warmup": 1,
    "lengths": [4, 6],
    "tokens": 24,
    "decode_tokens": 12,
    "beam": 3,
    "vocab": 60,
    "embed": 8,
    "hidden": 8,
    "layers": 1,
    "aqt_positions": 12,
    "aqt_batch": 2,
    "attention_width": 8,
    "memory_lengths": [16, 32],
    "memory_steps": 2,
    "latency_classes": [(1, 2), (3, 5)],
    "latency_sentences": 3,
    "latency_repeats": 2,
    "latent_batch": 3,
    "latent_length": 5,
    "chain_rows": [3],
    "chain_lengths": [1, 5],
    "extract_sentences": [20, 40],
    "document_batch": 3,
    "document_embed": 4,
    "document_hidden": 3,
    "document_scale": 0.15,
}


def number_list(text: str) -> list[int]:
    return [positive(item) for item in text.split(",")]


def class_list(text: str) -> list[tuple[int, int]]:
    classes = []
    for item in text.split(","):
        shortest, _, longest = item.partition("-")
        if not (shortest.isdigit() and longest.isdigit() and 1 <= int(shortest) <= int(longest)):
            raise argparse.ArgumentTypeError(f"{item!r} must be a class of lengths: two numbers, as in 4-7,8-11")
        classes.append((int(shortest), int(longest)))
    return classes


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} must be at least 1")
    return value


def section_list(text: str) -> list[str]:
    unknown = [name for name in text.split(",") if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown section {unknown[0]!r}, choose from {','.join(SECTIONS)}")
    return text.split(",")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    add(
        "--archs",
        nargs="+",
        metavar="ARCH[:opt=value,...]",
        default=list(DEFAULT_ARCHS),
        help="systems to compare",
    )
    add("--baselines", nargs="+", default=[STOCK, SOFT], help="systems that the ratios refer to (lstm lstm_soft)")
    add("--sections", type=section_list, default=list(SECTIONS), help=f"comma list of {','.join(SECTIONS)}")
    add("--lengths", type=number_list, default=[10, 25, 50], help="source lengths (default: 10,25,50)")
    add("--tokens", type=positive, default=2000, help="tokens per training batch (2000)")
    add("--decode-tokens", type=positive, default=500, help="source tokens per decoding batch (500)")
    add("--beam", type=positive, default=10)
    add("--vocab", type=positive, default=8000)
    add("--embed", type=positive, default=256)
    add("--hidden", type=positive, default=256)
    add("--layers", type=positive, default=2)
    add("--dropout", type=float, default=0.2)
    add("--optimizer", choices=["adam", "none"], default="adam", help="none: training steps without update")
    add(
        "--objectives",
        nargs="+",
        default=list(OBJECTIVES),
        help="objectives of the latent section; ' (all logits)' after a name: direct computation",
    )
    add("--latent-batch", type=positive, default=16, help="sentences of the latent section (16)")
    add("--latent-length", type=positive, default=25, help="source and target length of the latent section (25)")
    add(
        "--latency-archs",
        nargs="+",
        metavar="ARCH[:opt=value,...]",
        default=list(LATENCY_ARCHS),
        help=f"systems of the latency section; ratios are against the first ({' '.join(LATENCY_ARCHS)})",
    )
    add(
        "--latency-classes",
        type=class_list,
        default=list(CLASSES),
        help="classes of source words (4-7,8-11,12-15,16-25)",
    )
    add("--latency-sentences", type=positive, default=20, help="sentences of each class (20)")
    add("--latency-beam", type=number_list, default=[1], help="beams of the latency section, as in 1,5 (1: greedy)")
    add("--latency-repeats", type=positive, default=5, help="number of timings of a sentence's attention (5)")
    add("--aqt-positions", type=positive, default=200, help="N and T of the aqt section (200)")
    add("--aqt-batch", type=positive, default=4)
    add("--chain-rows", type=number_list, default=[80, 2000], help="chains of the chain section (80,2000)")
    add("--chain-lengths", type=number_list, default=[10, 25, 50, 100, 200], help="their lengths (10,25,50,100,200)")
    add("--document-batch", type=positive, default=16, help="documents in a batch of the documents section (16)")
    add("--document-embed", type=positive, default=100, help="their word embeddings (100)")
    add("--document-hidden", type=positive, default=50, help="units of their LSTMs, per direction (50)")
    add(
        "--document-scale",
        type=float,
        default=1.0,
        help="factor of the lengths of documents and sentences (1.0: film reviews)",
    )
    add("--attention-width", type=positive, default=256, help="D of the aqt and memory sections (256)")
    add("--aqt-rounds", type=positive, default=2, help="rounds of the aqt section (2)")
    add("--mechanisms", nargs="+", default=MECHANISMS, help="mechanisms of the memory section")
    add("--memory-lengths", type=number_list, default=[250, 500, 1000, 2000])
    add("--memory-steps", type=positive, default=10, help="decoder steps in the memory section (10)")
    add(
        "--extract-sentences",
        type=number_list,
        default=[1000, 10000],
        help="numbers of sentences of the extract section (1000,10000)",
    )
    add("--rounds", type=positive, default=7)
    add("--warmup", type=int, default=1, help="first rounds, which are not counted (1)")
    add(
        "--clock",
        choices=["auto", "wall", "cpu"],
        default="auto",
        help="cpu: processor time, which depends least on other programs; auto: cpu for one thread on the CPU, "
        "otherwise wall",
    )
    add("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    add("--threads", type=positive, help="torch's CPU threads (default: torch's own choice)")
    add("--seed", type=int, default=1)
    add("--json", type=Path, metavar="PATH", help="file for all measurements")
    add("--profile", metavar="ARCH", help="print torch.profiler's table of ARCH instead of measuring")
    add("--profile-rows", type=positive, default=25)
    add("--quick", action="store_true", help="tiny sizes and two rounds, to test the script")
    return parser


def parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = make_parser()
    if parser.parse_args(argv).quick:
        parser.set_defaults(**QUICK)
    return parser.parse_args(argv)


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
    for name in ("json", "profile", "profile_rows"):
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
        "memory": len(settings["mechanisms"]) * len(settings["memory_lengths"]),
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
            "memory": memory_section,
            "extract": extract_section,
        }
        for name, alone in others.items():
            if name in settings["sections"]:
                sections[name] = alone(settings, device, tick)
        bar.update(int(started))
    return sections


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parse(argv)
    logging.getLogger("hydra").setLevel(logging.WARNING)
    for about in ({"module": r"hydra\.|fairseq\."}, {"message": r"\n'config' is validated"}):
        warnings.filterwarnings("ignore", **about)  # fairseq's own use of hydra
    try:
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
    report = {
        "command": shlex.join(["python", "scripts/bench.py", *(sys.argv[1:] if argv is None else argv)]),
        "environment": environment(device),
        "settings": settings,
        "parameters": {name: system.size() for name, system in systems.items()},
        "sections": sections,
        "targets": judge(sections),
    }
    print(markdown(report))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
