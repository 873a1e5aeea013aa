"""The benchmark's report: Markdown tables of the measured sections."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from benchmark.command_line import OWN
from benchmark.tables import MIB, speed, table, time
from benchmark.targets import PAPER_LATENCY, PAPER_SYSTEMS


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    parts = [_heading(report)]
    sections = report["sections"]
    for name, section in OWN.items():
        if name in sections:
            parts += [part if part[0] in "#|-" else fill(part) for part in section.tables(report)]
    beam = report["settings"]["beam"]
    for name, title in (("train", "Training step"), ("decode", f"Beam-{beam} decoding")):
        if name in sections:
            parts += [f"## {title}", _compared(sections[name], report["settings"]["baselines"])]
    for name, title in (
        ("latent", "Latent alignment: training step"),
        ("latent_decode", f"Latent alignment: beam-{beam} decoding"),
    ):
        if name in sections:
            baselines = next(iter(next(iter(sections[name].values()))["systems"].values()))["time_ratio"]
            parts += [f"## {title}", _compared(sections[name], list(baselines))]
    if "latency" in sections:
        parts += ["## Latency of one sentence", _latency(report)]
        parts += ["## Attention of one sentence", _latency_attention(sections["latency_attention"])]
    if "aqt" in sections:
        parts += ["## aqt: pooled against direct pairing", _aqt(sections["aqt"])]
    if "chain" in sections:
        parts += ["## Marginals of two-state chains, forward and backward", _chain(sections["chain"])]
    if "documents" in sections:
        parts += ["## Classification of documents: training step", _documents(report)]
    if "extract" in sections:
        parts += ["## Extraction of attention", _extract(sections["extract"])]
    if report["targets"]:
        parts += ["## Targets", _verdicts(report["targets"])]
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
        f"{how['clock']} clock.\n"
        f"Sizes: {sizes['layers']} layers, hidden {sizes['hidden']}, embeddings "
        f"{sizes['embed']}, vocabulary {sizes['vocab']}, dropout {sizes['dropout']}; "
        f"{how['tokens']} tokens per training batch, {how['decode_tokens']} source tokens per decoding batch; "
        f"optimizer {how['optimizer']}.\n"
        "Ratios are medians over rounds of (baseline's time / system's time): above 1 is faster than the "
        "baseline; lowest and highest round in brackets."
    )


def _compared(section: Mapping[str, Any], baselines: Sequence[str]) -> str:
    present = [b for b in baselines if any(b in measured["systems"] for measured in section.values())]
    rows = []
    for length, measured in section.items():
        for name, figures in measured["systems"].items():
            speeds = [speed(figures["time_ratio"][base]["rounds"]) for base in present]
            rows.append(
                [
                    f"N={length}",
                    f"`{name}`",
                    f"{figures['seconds']['median']:.3f}",
                    f"{figures['tokens_per_second']:,.0f}",
                    f"{figures['sentences_per_second']:,.1f}",
                    f"{figures['peak_memory_bytes'] / MIB:,.0f}",
                    *speeds,
                ]
            )
    header = [
        "length",
        "system",
        "s",
        "tokens/s",
        "sentences/s",
        "peak MiB",
        *(f"× {base}" for base in present),
    ]
    return table(header, rows)


def _latency(report: Mapping[str, Any]) -> str:
    how = report["settings"]
    rows = []
    for label, measured in report["sections"]["latency"].items():
        for name, figures in measured["systems"].items():
            seconds = figures["seconds"]
            (ratio,) = figures["time_ratio"].values()
            row = [label, f"`{name}`", f"{1e3 * seconds['median']:.2f}", f"{1e3 * seconds['p90']:.2f}"]
            rows.append([*row, time(ratio["rounds"]), _paper_latency(name, label)])
    return (
        f"{how['latency_sentences']} sentences of each length class, one at a time, {how['latency_threads']} "
        f"thread(s), {how['latency_clock']} clock; beam 1 unless noted. Here ratios are the system's time over the "
        "first one's, for the same sentences: below 1 is faster. Paper: Bal and Sinha, table 1.\n\n"
        + table(["source words", "system", "median ms", "p90 ms", "time ratio", "paper"], rows)
    )


def _paper_latency(name: str, label: str) -> str:
    times = PAPER_LATENCY.get(label)
    if times is None or name not in PAPER_SYSTEMS:
        return ""
    time = times[PAPER_SYSTEMS.index(name)]
    return f"{time / times[0]:.2f} ({time:.2f}/{times[0]:.2f})"


def _latency_attention(section: Mapping[str, Any]) -> str:
    parts = ("precompute_", "step_", "")
    rows = [
        [
            label,
            f"`{name}`",
            *(f"{1e6 * figures[part + 'seconds']['median']:.0f}" for part in parts),
            *(time(next(iter(figures[part + "ratio"].values()))["rounds"]) for part in ("step_", "time_")),
        ]
        for label, measured in section.items()
        for name, figures in measured["systems"].items()
    ]
    header = ["source words", "system", "once, µs", "step, µs", "sentence, µs", "step ratio", "sentence ratio"]
    return (
        "The attention of the same models alone, in greedy search: the work once per sentence, one step, and the "
        "whole sentence. Ratios as in the table above.\n\n" + table(header, rows)
    )


def _aqt(section: Mapping[str, Any]) -> str:
    seconds, speedup = section["seconds"], section["speedup"]
    rows = [[name, f"{seconds[name]['median']:.3f}"] for name in ("direct", "pooled")]
    worst = sorted(section["relative_difference"].items(), key=lambda pair: -pair[1])
    sizes = f"N = T = {section['positions']}, B = {section['batch']}, D = {section['width']}"
    return (
        f"{sizes}, forward and backward.\n\n{table(['pairing', 's'], rows)}\n\n"
        f"Speed-up {speedup['median']:.1f} ({speedup['min']:.1f}–{speedup['max']:.1f}). "
        f"Largest relative difference: {', '.join(f'{name} {value:.1e}' for name, value in worst)}"
    )


def _chain(section: Mapping[str, Any]) -> str:
    others = list(next(iter(section.values()))["time_ratio"])
    rows = [
        [
            shape,
            *(f"{1000 * seconds['median']:.2f}" for seconds in measured["seconds"].values()),
            *(speed(measured["time_ratio"][name]["rounds"]) for name in others),
        ]
        for shape, measured in section.items()
    ]
    names = next(iter(section.values()))["seconds"]
    return table(["chains x length", *(f"{name}, ms" for name in names), *(f"× {name}" for name in others)], rows)


def _documents(report: Mapping[str, Any]) -> str:
    how, measured = report["settings"], report["sections"]["documents"]["ragged"]
    rows = []
    for name, figures in measured["systems"].items():
        ratios = figures["time_ratio"]
        rows.append(
            [
                f"`{name}`",
                f"{figures['seconds']['median']:.3f}",
                f"{figures['sentences_per_second']:,.1f}",
                f"{figures['tokens_per_second']:,.0f}",
                f"{figures['peak_memory_bytes'] / MIB:,.0f}",
                *(speed(ratio["rounds"]) for ratio in ratios.values()),
            ]
        )
    header = ["system", "s", "documents/s", "words/s", "peak MiB", *(f"× {base}" for base in ratios)]
    return (
        f"{measured['sentences']} documents of {measured['target_tokens']:,} words, {measured['padded_words']:,} with "
        f"padding; embeddings {how['document_embed']}, LSTMs of {how['document_hidden']} units per direction.\n\n"
        + table(header, rows)
    )


def _extract(section: Mapping[str, Any]) -> str:
    ours, stock = section["systems"].values()
    rows = [
        [
            f"{count:,}",
            f"{one['peak_memory_bytes'] / MIB:.0f} / {other['peak_memory_bytes'] / MIB:.0f}",
            *(f"{one[clock]:.1f} / {other[clock]:.1f}" for clock in ("cpu", "wall")),
            f"{other['cpu'] / one['cpu']:.2f}",
        ]
        for count, one, other in zip(section["sentences"], ours, stock)
    ]
    names = " / ".join(f"`{name}`" for name in section["systems"])
    header = ["sentences", "peak, MiB", "processor time, s", "wall, s", "time, times faster"]
    return f"Whole processes, start included: {names}.\n\n" + table(header, rows)


def _verdicts(verdicts: Sequence[Mapping[str, Any]]) -> str:
    words = {True: "met", False: "**not met**", None: "not measured"}
    rows = []
    for v in verdicts:
        length = v["length"]
        at = "" if length is None else f", N={length}" if isinstance(length, int) else f", {length}"
        what = f"{v['section']}{at}: `{v['system']}` against `{v['baseline']}`, {v['quantity']}"
        value = "" if v["value"] is None else f"{v['value']:.3g}"
        rows.append([what, f"{v['sense']} {v['bound']:g}", value, words[v["met"]]])
    return table(["target", "bound", "measured", "verdict"], rows)
