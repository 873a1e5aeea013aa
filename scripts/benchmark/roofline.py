"""How far from the machine's limit: the section ``roofline`` of the benchmark.

The limit of a step is the time that its matrix products take at the rates at which this machine multiplies matrices of
their shapes, with the best kernel of the precision. A backward pass has twice the products of a forward pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from benchmark.kernels import KERNELS, other_rates, product_seconds
from benchmark.measure import Sample, interleave, summary
from benchmark.sections import Tick, decode, train_step
from benchmark.shares import SHARES, model_regions, shares
from benchmark.systems import MemoryTask, Sizes, Spec, System, make_batch
from benchmark.tables import table
from benchmark.targets import SOFT, SOFT_FAST, STOCK
from benchmark.work import Product, decoding_products, operations, training_products
from fairseq_attn_plugin.decoding.packed import PackedStepper
from fairseq_attn_plugin.decoding.stepper import ModelStepper

SHAPES = ((80, 512, 1024), (2000, 512, 1024), (2000, 256, 8000), (10, 256, 8000), (1, 512, 1024))
SYSTEMS = (STOCK, SOFT, f"{SOFT_FAST},decoding_precision=bfloat16", f"{SOFT_FAST},decoding_precision=int8")
PRECISION = {"train": "matmul_precision", "decode": "decoding_precision"}  # options that choose it
# the parts of the plugin's search that compute the model
STEPPERS = [(stepper, part) for stepper in (ModelStepper, PackedStepper) for part in ("begin", "step")]
QUICK = {"roofline_archs": [STOCK, SOFT], "roofline_shapes": [(3, 8, 16)], "roofline_seconds": 1e-4}


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("roofline").add_argument
    add(
        "--roofline-archs",
        nargs="+",
        metavar="ARCH[:opt=value,...]",
        default=list(SYSTEMS),
        help=f"systems of the roofline section ({' '.join(SYSTEMS)})",
    )
    add("--roofline-seconds", type=float, default=0.03, help="least seconds of a series of products (0.03)")
    parser.set_defaults(roofline_shapes=list(SHAPES))


def turns(settings: Mapping[str, Any]) -> int:
    rounds = settings["rounds"] + settings["warmup"]
    return 2 + (2 * rounds + 2) * len(settings["roofline_archs"])


def measure(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    sizes, clock, least = Sizes(**settings["sizes"]), settings["clock"], settings["roofline_seconds"]
    task = MemoryTask(sizes.vocab)
    length = settings["lengths"][len(settings["lengths"]) // 2]
    known: dict[tuple[int, int, int], dict[str, float]] = {}

    def seconds_of(shape: tuple[int, int, int]) -> dict[str, float]:
        if shape not in known:
            known[shape] = product_seconds(*shape, device, clock, least)
        return known[shape]

    tick("roofline: products")
    rates = []
    for shape in map(tuple, settings["roofline_shapes"]):
        work = Product("", *shape, times=1).operations()
        rates.append({"shape": list(shape), **{name: work / s for name, s in seconds_of(shape).items()}})
    section: dict[str, Any] = {"rates": rates, "others": other_rates(device, clock, least, 1 << 24), "paths": {}}
    batches = {
        path: make_batch(task, length, settings[tokens], settings["seed"], device)
        for path, tokens in (("train", "tokens"), ("decode", "decode_tokens"))
    }
    counts = {path: batch["net_input"]["src_tokens"].size(0) for path, batch in batches.items()}
    products = {
        "train": training_products(sizes, counts["train"], length, length),
        "decode": decoding_products(sizes, counts["decode"], settings["beam"], length, length + 1),
    }
    systems = {
        str(spec): System(spec, sizes, task, device, settings["seed"], settings["optimizer"])
        for spec in map(Spec.parse, settings["roofline_archs"])
    }
    jobs: dict[str, Callable[[System], Sample]] = {
        "train": lambda system: train_step(system, batches["train"], device),
        "decode": lambda system: decode(system, batches["decode"], settings["beam"], length, device),
    }
    tick("roofline: limits")
    for path, found in products.items():
        factor = 3 if path == "train" else 1  # forward and backward
        limits = {
            precision: factor * sum(_best(seconds_of(product.shape()), kernels) * product.times for product in found)
            for precision, kernels in KERNELS.items()
            if path == "decode" or precision != "int8"
        }
        raw = interleave(
            {name: (lambda system=system, path=path: jobs[path](system)) for name, system in systems.items()},
            settings["rounds"],
            settings["warmup"],
            lambda name, path=path: tick(f"roofline {path} {name}"),
        )
        section["paths"][path] = {
            "sentences": counts[path],
            "length": length,
            "operations": factor * operations(found),
            "parts": {
                name: factor * operations([p for p in found if p.name == name])
                for name in dict.fromkeys(p.name for p in found)
            },
            "limit_seconds": limits,
            "systems": {},
        }
        for name, system in systems.items():
            tick(f"roofline: profile of {path} {name}")
            model = system.decoding_model
            with model_regions(*STEPPERS, model.encoder, model.decoder):
                share = shares(lambda system=system, path=path: jobs[path](system), device, path == "decode")
            section["paths"][path]["systems"][name] = {
                "precision": dict(system.spec.options).get(PRECISION[path], "float32"),
                "seconds": summary([sample[clock] for sample in raw[name]]),
                "shares": share,
            }
    return {"roofline": section}


def _best(seconds: Mapping[str, float], kernels: Sequence[str]) -> float:
    return min(seconds[name] for name in kernels if name in seconds)


def tables(report: Mapping[str, Any]) -> list[str]:
    section = report["sections"]["roofline"]
    kernels = list(dict.fromkeys(name for rate in section["rates"] for name in rate if name != "shape"))
    rates = [
        [" x ".join(map(str, rate["shape"])), *(f"{rate[name] / 1e9:,.0f}" if name in rate else "" for name in kernels)]
        for rate in section["rates"]
    ]
    others = section["others"]
    parts = [
        "## Limits of the machine",
        f"Matrix products, GFLOP/s. Copies move {others['bytes'] / 1e9:.1f} GB/s (read and written); "
        f"{others['exponentials'] / 1e9:.2f} billion exponentials a second.",
        table(["rows x in x out", *kernels], rates),
    ]
    titles = {"train": "A training step", "decode": f"Beam search, beam {report['settings']['beam']}"}
    for path, measured in section["paths"].items():
        limits = measured["limit_seconds"]
        total = measured["operations"]
        work = ", ".join(f"{name} {100 * part / total:.0f} %" for name, part in measured["parts"].items())
        rows = []
        for name, figures in measured["systems"].items():
            seconds, limit = figures["seconds"]["median"], limits[figures["precision"]]
            rows.append(
                [
                    f"`{name}`",
                    f"{1e3 * seconds:,.1f}",
                    f"{1e3 * limit:,.1f}",
                    f"{100 * limit / seconds:.0f} %",
                    *(f"{100 * figures['shares'][share]:.0f} %" for share in SHARES),
                ]
            )
        parts += [
            f"### {titles[path]}",
            f"{measured['sentences']} sentences of {measured['length']} words: {total / 1e9:,.1f} GFLOP ({work}). "
            "Limits at the rates of these shapes: "
            + ", ".join(f"{1e3 * seconds:,.1f} ms in {precision}" for precision, seconds in limits.items())
            + ". Shares are those of a profile.",
            table(["system", "ms", "limit, ms", "reached", *SHARES], rows),
        ]
    return parts
