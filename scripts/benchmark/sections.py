"""The sections of the benchmark, and the report: Markdown tables of those that were measured."""

import sys
import textwrap
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from benchmark import epochs, gradients, launches, models, translation
from benchmark.systems import System
from tqdm import tqdm

# Of each section: what measures it (settings, device, tick), and what writes its tables (the report).
OWN = {
    "epochs": (epochs.measure, epochs.tables),
    "translate": (translation.measure_batches, translation.batch_tables),
    "sentence": (translation.measure_sentences, translation.sentence_tables),
    "gradients": (gradients.measure, gradients.tables),
    "launches": (launches.measure, launches.tables),
}
SECTIONS = (*OWN, "train", "decode")


def measure(systems: Mapping[str, System], settings: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """The sections of ``settings``; ``systems`` are those of train and decode."""
    runs = {
        **{name: run for name, (run, _) in OWN.items()},
        "train": partial(models.measure, "train", systems),
        "decode": partial(models.measure, "decode", systems),
    }
    with tqdm(unit="run", file=sys.stderr) as bar:

        def tick(name: str) -> None:
            bar.update()
            bar.set_description(name)

        return {name: runs[name](settings, device, tick) for name in SECTIONS if name in settings["sections"]}


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    parts, sections = [_heading(report)], report["sections"]
    for name, (_, tables) in OWN.items():
        if name in sections:
            parts += [part if part[0] in "#|-" else fill(part) for part in tables(report)]
    titles = {"train": "Training step", "decode": f"Beam-{report['settings']['beam']} decoding"}
    for name, title in titles.items():
        if name in sections:
            parts += [f"## {title}", models.table_of(sections[name], report["settings"]["baselines"])]
    return "\n\n".join(parts) + "\n"


def fill(text: str) -> str:
    """Prose in lines of at most 120 characters."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _heading(report: Mapping[str, Any]) -> str:
    where, how = report["environment"], report["settings"]
    sizes = how["sizes"]
    return (
        f"# Benchmark\n\n{where['device_name']}, {where['threads']} thread(s), torch {where['torch']}, "
        f"fairseq {where['fairseq']}, Python {where['python']}; {how['rounds']} interleaved rounds, "
        f"{how['clock']} clock.\nSizes: {sizes['layers']} layers, hidden {sizes['hidden']}, embeddings "
        f"{sizes['embed']}, vocabulary {sizes['vocab']}, dropout {sizes['dropout']}; {how['tokens']} "
        f"tokens per training batch, {how['decode_tokens']} source tokens per decoding batch; "
        f"optimizer {how['optimizer']}.\n"
        "Ratios are medians over rounds of (baseline's time / system's time): above 1 is faster than the "
        "baseline; lowest and highest round in brackets."
    )
