"""The benchmark's targets and its report: Markdown tables from the measured sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Iterator, Optional

from _bench_measure import grows_at_most_linearly

MIB = float(1 << 20)


@dataclass(frozen=True)
class Target:
    """``quantity`` of ``system`` against ``baseline`` in a section is ``at least`` or ``at most`` ``bound``.

    ``throughput`` is the baseline's time over the system's, ``time`` the system's over the baseline's, ``memory`` the
    system's peak over the baseline's.
    ``length`` None asks for it at every measured length.
    """

    section: str
    system: str
    baseline: str
    quantity: str
    sense: str
    bound: float
    length: Optional[int] = None

    def holds(self, value: float) -> bool:
        return value >= self.bound if self.sense == "at least" else value <= self.bound


STOCK = "lstm"
SOFT = "lstm_soft"
UNFED = "lstm_soft:input_feeding=none"
TARGETS = (
    Target("train", SOFT, STOCK, "throughput", "at least", 1.10),
    Target("decode", SOFT, STOCK, "throughput", "at least", 1.10),
    Target("train", UNFED, STOCK, "throughput", "at least", 1.30),
    Target("train", "lstm_adm", SOFT, "time", "at most", 1.10, length=25),
    Target("decode", "lstm_adm", SOFT, "time", "at most", 1.02, length=25),
    Target("train", "lstm_adm_aqt", SOFT, "time", "at most", 1.50, length=25),
    Target("decode", "lstm_adm_aqt", SOFT, "time", "at most", 1.15, length=25),
    Target("latent", "marginal", "soft", "memory", "at most", 1.5),
    Target("latent", "elbo-enum", "soft", "memory", "at most", 1.5),
    Target("latent", "marginal", "marginal (all logits)", "time", "at most", 1.0),
    Target("latent", "elbo-enum", "elbo-enum (all logits)", "time", "at most", 1.0),
    Target("latent", "elbo-reinforce", "soft", "time", "at most", 2.5),
    Target("latent", "elbo-sum-and-sample", "elbo-enum", "time", "at most", 0.35),
    Target("latent_decode", "top-5", "soft", "time", "at most", 2.0),
    Target("aqt", "pooled", "direct", "throughput", "at least", 30.0),
    Target("aqt", "pooled", "direct", "difference", "at most", 1e-5),
    Target("chain", "chain_log_odds", "loop", "throughput", "at least", 1.0),
    Target("chain", "chain_log_odds", "torch-struct", "throughput", "at least", 1.0),
    Target("memory", "soft", "N", "growth", "at most", 1.0),
    Target("memory", "mqt", "N", "growth", "at most", 1.0),
    Target("memory", "aqt", "N", "growth", "at most", 1.0),
    Target("memory", "mqt:chunk_size=8", "N", "growth", "at most", 1.0),
    Target("memory", "aqt:chunk_size=8", "N", "growth", "at most", 1.0),
)


def judge(sections: Mapping[str, Any], targets: Sequence[Target] = TARGETS) -> list[dict[str, Any]]:
    """Each target with what was measured for it and ``met`` (None: not measured)."""
    verdicts = []
    for target in targets:
        found = list(_measured(target, sections))
        for length, value, met in found or [(target.length, None, None)]:
            verdicts.append({**asdict(target), "length": length, "value": value, "met": met})
    return verdicts


def _measured(target: Target, sections: Mapping[str, Any]) -> Iterator[tuple[Optional[int], float, bool]]:
    section = sections.get(target.section)
    if section is None:
        return
    if target.section == "aqt":
        value = section["max_relative_difference" if target.quantity == "difference" else "speedup"]
        value = value if target.quantity == "difference" else value["median"]
        yield None, value, target.holds(value)
    elif target.section == "chain":
        for measured in section.values():
            ratio = measured["time_ratio"].get(target.baseline)
            if ratio is not None:
                value = _ratio(ratio["rounds"], target.quantity)
                yield None, value, target.holds(value)
    elif target.section == "memory":
        mechanism = section["mechanisms"].get(target.system)
        if mechanism is not None:
            linear = grows_at_most_linearly(section["positions"], mechanism["peak_memory_bytes"])
            yield None, mechanism["exponent"], linear
    else:
        for length, measured in section.items():
            if target.quantity == "memory":
                if not {target.system, target.baseline} <= set(measured["systems"]):
                    continue
                peaks = [measured["systems"][name]["peak_memory_bytes"] for name in (target.system, target.baseline)]
                yield int(length), peaks[0] / peaks[1], target.holds(peaks[0] / peaks[1])
                continue
            ratio = measured["systems"].get(target.system, {}).get("time_ratio", {}).get(target.baseline)
            if ratio is not None and target.length in (None, int(length)):
                value = _ratio(ratio["rounds"], target.quantity)
                yield int(length), value, target.holds(value)


def _ratio(time_ratios: Sequence[float], quantity: str) -> float:
    """Median over rounds; of the inverse for a throughput, since medians of inverses are taken as such."""
    ordered = sorted(1 / r if quantity == "throughput" else r for r in time_ratios)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: first column left, the others right."""
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    parts = [_heading(report)]
    sections = report["sections"]
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
    if "aqt" in sections:
        parts += ["## aqt: pooled against direct pairing", _aqt(sections["aqt"])]
    if "chain" in sections:
        parts += ["## Marginals of two-state chains, forward and backward", _chain(sections["chain"])]
    if "memory" in sections:
        parts += ["## Peak memory of attention, forward and backward", _memory(sections["memory"])]
    parts += ["## Targets", _verdicts(report["targets"])]
    return "\n\n".join(parts) + "\n"


def _heading(report: Mapping[str, Any]) -> str:
    where, how = report["environment"], report["settings"]
    sizes = how["sizes"]
    return (
        f"# Benchmark\n\n{where['device_name']}, {where['threads']} thread(s), torch {where['torch']}, "
        f"fairseq {where['fairseq']}, Python {where['python']}; {how['rounds']} interleaved rounds, "
        f"{how['clock']} clock.\n"
        f"Sizes: {sizes['layers']} layers, hidden {sizes['hidden']}, embeddings "
        f"{sizes['embed']}, vocabulary {sizes['vocab']}, dropout {sizes['dropout']}; "
        f"{how['tokens']} tokens a training batch, {how['decode_tokens']} source tokens a decoding batch; "
        f"optimizer {how['optimizer']}.\n"
        "Ratios are medians over rounds of (baseline's time / system's time): above 1 is faster than the "
        "baseline; lowest and highest round in brackets."
    )


def _compared(section: Mapping[str, Any], baselines: Sequence[str]) -> str:
    present = [b for b in baselines if any(b in measured["systems"] for measured in section.values())]
    rows = []
    for length, measured in section.items():
        for name, figures in measured["systems"].items():
            speeds = [_speed(figures["time_ratio"][base]["rounds"]) for base in present]
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


def _speed(time_ratios: Sequence[float]) -> str:
    speeds = [1 / r for r in time_ratios]
    return f"{_ratio(time_ratios, 'throughput'):.2f} ({min(speeds):.2f}–{max(speeds):.2f})"


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
            *(_speed(measured["time_ratio"][name]["rounds"]) for name in others),
        ]
        for shape, measured in section.items()
    ]
    names = next(iter(section.values()))["seconds"]
    return table(["chains x length", *(f"{name}, ms" for name in names), *(f"× {name}" for name in others)], rows)


def _memory(section: Mapping[str, Any]) -> str:
    rows = [
        [name, *(f"{peak / MIB:.2f}" for peak in figures["peak_memory_bytes"]), f"{figures['exponent']:.2f}"]
        for name, figures in section["mechanisms"].items()
    ]
    header = ["mechanism", *(f"N={n}, MiB" for n in section["positions"]), "growth ~ N^"]
    return f"B = 1, T = {section['steps']}, D = {section['width']}.\n\n" + table(header, rows)


def _verdicts(verdicts: Sequence[Mapping[str, Any]]) -> str:
    words = {True: "met", False: "**not met**", None: "not measured"}
    rows = []
    for v in verdicts:
        at = "" if v["length"] is None else f", N={v['length']}"
        what = f"{v['section']}{at}: `{v['system']}` against `{v['baseline']}`, {v['quantity']}"
        value = "" if v["value"] is None else f"{v['value']:.3g}"
        rows.append([what, f"{v['sense']} {v['bound']:g}", value, words[v["met"]]])
    return table(["target", "bound", "measured", "verdict"], rows)
