"""What each optimisation is worth: the time that training and translation take without it, divided by that with it.

    python scripts/rent.py --data DATA --json rent.json

Every optimisation is switched off alone, in the process that measures it. All variants take turns on the same batches,
and a figure is the median over rounds of a ratio of processor times, on one thread. 1.10 in a column means that the
work takes ten per cent more time without the optimisation. Losses stay the same, and so do best hypotheses in float32,
which the script checks. Where the processor has instructions for bfloat16, training is measured in bfloat16, too.
"""

import argparse
import functools
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from benchmark.corpus import batches_of, open_task
from benchmark.measure import Clock, Sample, environment, interleave, round_ratios, sum_of, summary, table
from benchmark.models import train_step
from benchmark.systems import Sizes, Spec, System, build_generator

from fairseq_attn_plugin.decoding import generator, search, stepper
from fairseq_attn_plugin.modules import recurrence
from fairseq_attn_plugin.modules.decoder import LSTMDecoder
from fairseq_attn_plugin.ops import deferred, lstm, packed, precision
from fairseq_attn_plugin.ops import products as training_products
from fairseq_attn_plugin.ops.likelihoods import vocabulary_loss
from fairseq_attn_plugin.ops.pairs import pair_pooling

CPU = torch.device("cpu")
TRAINED = ("lstm_soft", "lstm_adm", "lstm_adm_aqt")
SEARCHES = {  # beam, sentences, precision
    "batch": (5, 50, "float32"),
    "beam 10": (10, 50, "float32"),
    "sentence": (5, 1, "float32"),
    "greedy, int8": (1, 1, "int8"),
    "400, int8": (5, 400, "int8"),
}
SEARCHED = "lstm_soft:output_layer=tanh"


class Change(NamedTuple):
    """A function, in all modules that have imported it, and what takes its place."""

    of: Any
    by: Any


class Attribute(NamedTuple):
    """An attribute of a module or class, and its value without the optimisation."""

    of: Any
    name: str
    by: Any


def plain_pairs(x: torch.Tensor, degree: int, pad_mask: Any) -> torch.Tensor:
    return pair_pooling.sums_of_pairs(x, pair_pooling.words_in(x, pad_mask), degree)


def no(*arguments: Any) -> bool:
    return False


def not_there(*arguments: Any) -> Any:
    raise RuntimeError


OF_TRAINING: dict[str, Any] = {
    "deferred gradients": Change(deferred.share, lambda matrix, dtype=None: matrix),
    "one weight for a whole pass": Change(precision.kept_in_pass, lambda tensor, function: function(tensor)),
    "oneDNN's products": Change(training_products._by_onednn, no),
    "loss in blocks": Attribute(LSTMDecoder, "sums_losses", False),
    "copied narrow operands": Attribute(training_products, "_WIDE", 1 << 30),
    "blocks of 512 rows": Attribute(vocabulary_loss, "MIN_ROWS", 256),
    "LSTM layers of its own": Change(lstm.computed_by_layers, no),
    "pairs in blocks": Change(pair_pooling._by_one_expression, plain_pairs),
    "fused Adam": "adam",
}
IN_BFLOAT16 = {"LSTM layers of its own", "copied narrow operands"}  # not in float32
OF_TRANSLATION: dict[str, Any] = {
    "packed products and traced steps": Change(stepper.is_fixed, no),
    "traced steps": Attribute(stepper, "UNTRACED", 1 << 30),
    "LSTM layers packed": Change(packed.packed_lstm, not_there),
    "gates of words": Attribute(recurrence, "MOST_GATES", 0),
    "greedy search": Attribute(search.Search, "_greedy", search.Search._search),
    "maxima of blocks": Attribute(search, "SIZE", 1 << 30),
    "parts of a batch": Attribute(generator, "ROWS", 1 << 30),
}


@contextmanager
def without(change: Any) -> Iterator[None]:
    """A context in which an optimisation is off; None: all are on."""
    with ExitStack() as stack:
        if isinstance(change, Attribute):
            stack.enter_context(mock.patch.object(change.of, change.name, change.by))
        elif isinstance(change, Change):
            for module in [*sys.modules.values()]:
                if getattr(module, "__name__", "").startswith("fairseq_attn_plugin"):
                    for name in [name for name, value in vars(module).items() if value is change.of]:
                        stack.enter_context(mock.patch.object(module, name, change.by))
        yield


def training(arch: str, settings: Mapping[str, Any], task: Any, batches: list[Any]) -> dict[str, list[Sample]]:
    variants = {"": None, **OF_TRAINING}
    if not arch.startswith("lstm_adm"):
        variants = {name: change for name, change in variants.items() if "pairs" not in name}
    if "bfloat16" not in arch:
        variants = {name: change for name, change in variants.items() if name not in IN_BFLOAT16}
    systems, turns = {}, dict.fromkeys(variants, 0)
    for name, change in variants.items():
        optimizer = change if isinstance(change, str) else "fused_adam"
        systems[name] = System(Spec.parse(arch), Sizes(**settings["sizes"]), task, CPU, 1, optimizer)

    def run(name: str) -> Sample:
        start = turns[name] * settings["group"] % len(batches)
        turns[name] += 1
        torch.manual_seed(turns[name])  # of the dropout
        with without(variants[name]):
            return sum_of([train_step(systems[name], batch, CPU) for batch in batches[start:][: settings["group"]]])

    runs = {name: functools.partial(run, name) for name in variants}
    found = interleave(
        runs, settings["rounds"], 1, lambda name: print(f"{arch} without {name or 'nothing'}", flush=True)
    )
    for name, samples in found.items():
        difference = abs(samples[0]["loss"] / found[""][0]["loss"] - 1)
        if difference > 0.01:
            raise AssertionError(f"{arch} without {name}: the loss differs by {difference:.1%}")
    return found


def translation(
    beam: int, numbers: str, batches: list[Any], settings: Mapping[str, Any], task: Any
) -> dict[str, list[Sample]]:
    variants = {"": None, **OF_TRANSLATION}
    system = System(Spec.parse(SEARCHED), Sizes(**settings["sizes"]), task, CPU, 1, "none")
    model, generators, best = system.decoding_model, {}, {}
    for name, change in variants.items():
        with without(change):
            options = {"beam": beam, "decoding_precision": numbers, "max_len_a": 1, "max_len_b": 0}
            generators[name] = build_generator(task, model, Spec.parse(SEARCHED), **options)

    def run(name: str) -> Sample:
        with without(OF_TRANSLATION.get(name)):
            clock = Clock(CPU)
            found = [task.inference_step(generators[name], [model], batch) for batch in batches]
            sample = clock.seconds()
        best[name] = [hypotheses[0]["score"].item() for part in found for hypotheses in part]
        return sample

    runs = {name: functools.partial(run, name) for name in variants}
    found = interleave(
        runs, settings["rounds"], 1, lambda name: print(f"search without {name or 'nothing'}", flush=True)
    )
    for name, scores in best.items():
        differs = max(abs(one - other) for one, other in zip(scores, best[""])) > 1e-3
        if differs and numbers == "float32":  # int8 rounds by the numbers of a whole batch
            raise AssertionError(f"search without {name}: other hypotheses")
    return found


def measured(found: Mapping[str, list[Sample]]) -> dict[str, Any]:
    ratios = {name: round_ratios(samples, found[""], "cpu") for name, samples in found.items() if name}
    seconds = summary([sample["cpu"] for sample in found[""]])
    return {"seconds": seconds, "without": {name: summary(values) for name, values in ratios.items()}}


def markdown(works: Mapping[str, Any]) -> str:
    def cell(work: Mapping[str, Any], name: str) -> str:
        return f"{work['without'][name]['median']:.2f}" if name in work["without"] else ""

    names = dict.fromkeys((*OF_TRAINING, *OF_TRANSLATION))
    rows = [[name, *(cell(work, name) for work in works.values())] for name in names]
    return table(["without", *works], [row for row in rows if any(row[1:])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of fairseq-preprocess (default: a random corpus)")
    parser.add_argument("--archs", nargs="*", default=TRAINED, help="systems, written as for scripts/bench.py")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--group", type=int, default=8, help="batches of a round of training (8)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to test the script")
    args = parser.parse_args()
    torch.set_num_threads(1)
    side = 8 if args.quick else 256
    sizes = {"vocab": 60 if args.quick else 8000, "embed": side, "hidden": side, "layers": 2, "dropout": 0.2}
    settings = {"data": args.data, "seed": 1, "sizes": sizes, "corpus_sentences": 200 if args.quick else 4000}
    settings |= {"rounds": 2 if args.quick else args.rounds, "group": 1 if args.quick else args.group}
    task = open_task(settings, "train")
    batches = batches_of(task, "train", settings, True, max_tokens=100 if args.quick else 2000)
    archs = list(args.archs)
    if precision.has_bfloat16("cpu"):
        archs += [f"{arch}{',' if ':' in arch else ':'}matmul_precision=bfloat16" for arch in args.archs]
    works = {arch: measured(training(arch, settings, task, batches)) for arch in archs}
    test = open_task(settings, "test") if args.data else task
    for name, (beam, sentences, numbers) in SEARCHES.items():
        split = batches_of(test, "test" if args.data else "train", settings, False, max_sentences=sentences)
        step = max(1, len(split) // (2 if args.quick else 4 if sentences > 1 else 40))
        works[name] = measured(translation(beam, numbers, split[step // 2 :: step], settings, test))
    print(markdown(works))
    if args.json:
        found = {"environment": environment(CPU), "rounds": settings["rounds"], "works": works}
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
