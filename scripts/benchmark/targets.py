"""The project's targets for speed and memory, and whether a benchmark meets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Iterator, Optional, Union


@dataclass(frozen=True)
class Target:
    """``quantity`` of ``system`` against ``baseline`` in a section is ``at least`` or ``at most`` ``bound``.

    ``throughput`` is the baseline's time divided by the system's, ``time`` the system's divided by the baseline's,
    ``step`` the same for one step, ``memory`` the system's peak divided by the baseline's. ``median`` and ``p99`` are
    the baseline's latency divided by the system's, ``time growth`` and ``memory growth`` exponents. ``different without
    ties`` and ``BLEU lost`` compare translations. With the ``length`` None the target holds for every measured length.
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
# Exact: float32 throughout. Fast: products in bfloat16. Both with torch's fused Adam.
FUSED = "optimizer=fused_adam"
SOFT_EXACT = f"lstm_soft:{FUSED}"
SOFT_FAST = f"lstm_soft:matmul_precision=bfloat16,{FUSED}"
UNFED_FAST = f"lstm_soft:input_feeding=none,matmul_precision=bfloat16,{FUSED}"
ADM_FAST = f"lstm_adm:matmul_precision=bfloat16,{FUSED}"
# Searches of one checkpoint.
STOCK_SEARCH, PLUGIN = "stock", "plugin"
SHORTLIST = "plugin:decoding_precision=int8,shortlist_size=100"
TEACHER = "lstm_soft:attention_score=additive"
# Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning", table 1: milliseconds with
# attention, with the mask, and with mask and agent.
PAPER_LATENCY = {"4-7": (1.46, 1.13, 1.33), "8-11": (2.32, 1.96, 2.12), "12-15": (2.86, 2.43, 2.61)}
PAPER_SYSTEMS = (TEACHER, "lstm_gaussian", "lstm_election")
TARGETS = (
    Target("epochs", SOFT_FAST, STOCK, "throughput", "at least", 3.0),
    Target("epochs", UNFED_FAST, STOCK, "throughput", "at least", 4.0),
    Target("epochs", ADM_FAST, SOFT_FAST, "time", "at most", 1.10),
    Target("epochs", SOFT_EXACT, STOCK, "throughput", "at least", 1.3),
    Target("epochs", SOFT_FAST, STOCK, "memory", "at most", 1.0),
    Target("epochs", SOFT_EXACT, STOCK, "memory", "at most", 1.0),
    Target("translate", PLUGIN, STOCK_SEARCH, "throughput", "at least", 2.0),
    Target("translate", PLUGIN, STOCK_SEARCH, "different without ties", "at most", 0),
    Target("translate", SHORTLIST, STOCK_SEARCH, "throughput", "at least", 5.0),
    Target("translate", SHORTLIST, STOCK_SEARCH, "BLEU lost", "at most", 0.2),
    Target("sentence", PLUGIN, STOCK_SEARCH, "median", "at least", 3.5),
    Target("sentence", PLUGIN, STOCK_SEARCH, "p99", "at least", 3.5),
    Target("sentence", SHORTLIST, STOCK_SEARCH, "median", "at least", 8.0),
    Target("sentence", SHORTLIST, STOCK_SEARCH, "p99", "at least", 8.0),
    Target("decode", "lstm_adm", SOFT, "time", "at most", 1.02, length=25),
    Target("train", "lstm_adm_aqt", SOFT, "time", "at most", 1.20, length=25),
    Target("decode", "lstm_adm_aqt", SOFT, "time", "at most", 1.05, length=25),
    Target("latency", "lstm_gaussian", TEACHER, "time", "at most", 0.85),
    Target("latency", "lstm_election", TEACHER, "time", "at most", 0.9),
    Target("latency_attention", "lstm_gaussian", TEACHER, "step", "at most", 0.5),
    Target("latency_attention", "lstm_election", TEACHER, "step", "at most", 0.6),
    Target("latency_attention", "lstm_gaussian", TEACHER, "time", "at most", 0.5),
    Target("latency_attention", "lstm_election", TEACHER, "time", "at most", 0.6),
    Target("latent", "marginal", "soft", "memory", "at most", 1.5),
    Target("latent", "elbo-enum", "soft", "memory", "at most", 1.5),
    Target("latent", "marginal", "marginal (all logits)", "time", "at most", 1.0),
    Target("latent", "elbo-enum", "elbo-enum (all logits)", "time", "at most", 1.0),
    Target("latent", "elbo-reinforce", "soft", "time", "at most", 2.5),
    Target("latent", "elbo-sum-and-sample", "elbo-enum", "time", "at most", 0.25),
    Target("latent", "marginal (linear)", "soft (linear)", "time", "at most", 1.5),
    Target("latent_decode", "top-5", "soft", "time", "at most", 1.5),
    Target("latent_decode", "marginal (linear)", "soft", "time", "at most", 1.5),
    Target("aqt", "pooled", "direct", "throughput", "at least", 30.0),
    Target("aqt", "pooled", "direct", "difference", "at most", 1e-5),
    Target("chain", "chain_log_odds", "loop", "throughput", "at least", 1.0),
    Target("chain", "chain_log_odds", "torch-struct", "throughput", "at least", 1.0),
    Target("documents", "han", "padded", "throughput", "at least", 2.0),
    Target("documents", "han", "packed", "throughput", "at least", 2.0),
    Target("extract", "fairseq-attn extract", "fewest sentences", "memory", "at most", 1.05),
    *(
        Target("growth", name, "N", f"{what} growth", "at most", bound)
        for name in ("soft", "mqt", "aqt")
        for what, bound in (("time", 1.1), ("memory", 1.02))
    ),
    *(Target("growth", name, STOCK, "memory", "at most", 1.0) for name in (SOFT, SOFT_FAST)),
)


def judge(sections: Mapping[str, Any], targets: Sequence[Target] = TARGETS) -> list[dict[str, Any]]:
    """Each target with its measured value and ``met`` (None: not measured)."""
    verdicts = []
    for target in targets:
        found = list(_measured(target, sections))
        for length, value, met in found or [(target.length, None, None)]:
            verdicts.append({**asdict(target), "length": length, "value": value, "met": met})
    return verdicts


def _measured(target: Target, sections: Mapping[str, Any]) -> Iterator[tuple[Union[int, str, None], float, bool]]:
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
                value = median_ratio(ratio["rounds"], target.quantity)
                yield None, value, target.holds(value)
    elif target.section == "growth":
        mechanism = section["attention"]["mechanisms"].get(target.system)
        if target.quantity != "memory" and mechanism is not None:
            value = mechanism[target.quantity]
            yield None, value, target.holds(value)
        systems = section["vocabulary"]["systems"]
        if target.quantity == "memory" and {target.system, target.baseline} <= set(systems):
            peaks = (systems[name]["peak_memory_bytes"] for name in (target.system, target.baseline))
            for vocab, ours, stock in zip(section["vocabulary"]["sizes"], *peaks):
                if ours is not None and stock is not None:
                    yield f"V={vocab:,}", ours / stock, target.holds(ours / stock)
    elif target.section == "extract":
        peaks = [run["peak_memory_bytes"] for run in section["systems"][target.system]]
        for count, peak in list(zip(section["sentences"], peaks))[1:]:
            yield count, peak / peaks[0], target.holds(peak / peaks[0])
    else:
        for key, measured in section.items():
            # an epoch has all lengths, and classes of lengths have names
            length = int(key) if key.isdigit() else None if key == "all" else key
            if target.quantity == "memory":
                if not {target.system, target.baseline} <= set(measured["systems"]):
                    continue
                peaks = [measured["systems"][name]["peak_memory_bytes"] for name in (target.system, target.baseline)]
                yield length, peaks[0] / peaks[1], target.holds(peaks[0] / peaks[1])
                continue
            value = measured["systems"].get(target.system, {}).get(target.quantity)
            if value is not None:  # a figure of the system that needs no rounds
                yield length, value, target.holds(value)
                continue
            kind = "step_ratio" if target.quantity == "step" else "time_ratio"
            ratio = measured["systems"].get(target.system, {}).get(kind, {}).get(target.baseline)
            if ratio is not None and target.length in (None, length):
                value = median_ratio(ratio["rounds"], target.quantity)
                yield length, value, target.holds(value)


def median_ratio(time_ratios: Sequence[float], quantity: str) -> float:
    """Median over rounds of the ratios, or of their inverses for a throughput."""
    ordered = sorted(1 / r if quantity == "throughput" else r for r in time_ratios)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
