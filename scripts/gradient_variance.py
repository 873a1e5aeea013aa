#!/usr/bin/env python3
"""Measures variance and cost of the gradients of the objectives of latent alignment, on a trained model.

    python scripts/gradient_variance.py DATA --path checkpoint_best.pt [--json FILE]

The model belongs to the lstm_latent family and has a posterior network. The gradient of each estimator is computed
many times on one batch of real sentences, without dropout. Its relative variance is

    sum_i Var(g_i) / sum_i (exact g_i)^2

over the parameters i of the posterior network, and over all other parameters (the model). The exact gradient is that of
the enumeration of all positions: elbo-enum, the same with the sparse posterior that sparsemax makes of its scores, or
marginal. Bias is the squared distance of the mean gradient from the exact one on the same scale. The table compares it
with the value that sampling alone explains (variance / repeats). Times are those of forward and backward pass of the
objective, relative to this enumeration, as medians over interleaved rounds.
"""

import argparse
import json
import logging
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Optional, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from fairseq import checkpoint_utils
from tabulate import tabulate
from tqdm import tqdm

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.attention import NORMALIZERS
from fairseq_attn_plugin.criterions.objectives import OBJECTIVES, Batch, MovingAverage, Settings
from fairseq_attn_plugin.criterions.objectives.support import TopKConfig
from fairseq_attn_plugin.errors import OptionError

ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {  # objective and settings; SPARSE: with the sparse posterior
    "reinforce, no baseline": ("elbo-reinforce", {"baseline": "none"}),
    "reinforce, moving average": ("elbo-reinforce", {"baseline": "average"}),
    "reinforce, soft baseline": ("elbo-reinforce", {}),
    "reinforce, soft baseline, 5 samples": ("elbo-reinforce", {"num_samples": 5}),
    "sum and sample, K = 1": ("elbo-sum-and-sample", {"exact_positions": 1}),
    "sum and sample, K = 2": ("elbo-sum-and-sample", {"exact_positions": 2}),
    "sum and sample, K = 4": ("elbo-sum-and-sample", {"exact_positions": 4}),
    "sum and sample, K = 8": ("elbo-sum-and-sample", {"exact_positions": 8}),
    "enumeration": ("elbo-enum", {}),
    "sparse ELBO, support of q": ("sparse-elbo", {}),
    "sparse ELBO, enumeration": ("elbo-enum", {}),
    **{f"top-K marginal, K = {k}": ("topk-marginal", {"own": TopKConfig(k)}) for k in (1, 2, 4, 8)},
    "top-K marginal, K = 4, renormalised": ("topk-marginal", {"own": TopKConfig(4, True)}),
    "marginal, enumeration": ("marginal", {}),
}
SPARSE = "sparse ELBO"


def exact(name: str) -> str:
    """The enumeration that an estimator approximates."""
    family = name.partition(",")[0]
    return {SPARSE: "sparse ELBO, enumeration", "top-K marginal": "marginal, enumeration"}.get(
        family, name if name.endswith("enumeration") else "enumeration"
    )


def load(data: str, path: str, split: str, sentences: int, seed: int) -> tuple[Any, Any, dict[str, int]]:
    """The model, a fairseq batch of some sentences of ``split``, and its numbers of sentences and words."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path], arg_overrides={"data": data})
    if getattr(model, "posterior", None) is None:
        raise OptionError(
            f"--path {path}: the model has no posterior network; train lstm_latent with an elbo objective"
        )
    task.load_dataset(split)
    dataset = task.dataset(split)
    if not 1 <= sentences <= len(dataset):
        raise OptionError(f"--sentences {sentences}: must lie between 1 and the {len(dataset)} of the split {split}")
    draw = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(dataset), generator=draw)[:sentences].tolist()
    sample = dataset.collater([dataset[i] for i in chosen])
    model.eval()  # no dropout, so that all variance comes from the estimators
    return model, sample, {"sentences": sentences, "target_words": int(sample["ntokens"])}


def gradient(model: Any, sample: Any, name: str, average: MovingAverage) -> tuple[torch.Tensor, torch.Tensor, float]:
    """The gradients per word of posterior and model, and their processor time in seconds."""
    objective, options = ESTIMATORS[name]
    if not OBJECTIVES[objective].posterior:
        parameters = [p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("posterior.")]
    else:
        parameters = [p for p in model.parameters() if p.requires_grad]
    model.posterior.normalize = NORMALIZERS.build("sparsemax" if name.startswith(SPARSE) else "softmax")
    start = time.process_time()
    target = sample["target"]
    latent = model(**sample["net_input"], target=target, posterior=OBJECTIVES[objective].posterior)
    terms = OBJECTIVES[objective](Batch(latent, target, model.decoder.dictionary.pad()), Settings(**options), average)
    values = torch.autograd.grad(terms.loss / sample["ntokens"], parameters, allow_unused=True)
    seconds = time.process_time() - start
    own = {id(p) for n, p in model.posterior.named_parameters() if "embed_tokens" not in n}
    parts: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for parameter, value in zip(parameters, values):
        value = torch.zeros_like(parameter) if value is None else value
        parts[id(parameter) not in own].append(value.flatten())
    return torch.cat([torch.zeros(0), *parts[0]]), torch.cat(parts[1]), seconds


class Moments:
    """Running mean and summed variance of a vector (Welford 1962)."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, torch.zeros(()), 0.0

    def add(self, value: torch.Tensor) -> None:
        value = value.double()
        self.count += 1
        difference = value - self.mean
        self.mean = self.mean + difference / self.count
        self.squares += float((difference * (value - self.mean)).sum())

    @property
    def variance(self) -> float:
        return self.squares / max(1, self.count - 1)


def measure(model: Any, sample: Any, repeats: int) -> dict[str, dict[str, float]]:
    averages = {name: MovingAverage() for name in ESTIMATORS}
    for name in ESTIMATORS:  # warm-up, and a baseline for the moving average
        gradient(model, sample, name, averages[name])
    exact_ones = {name: gradient(model, sample, name, averages[name])[:2] for name in {exact(n) for n in ESTIMATORS}}
    moments = {name: (Moments(), Moments()) for name in ESTIMATORS}
    seconds: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for _ in tqdm(range(repeats), unit="round"):
        for name in ESTIMATORS:
            *values, taken = gradient(model, sample, name, averages[name])
            seconds[name].append(taken)
            for moment, value in zip(moments[name], values):
                moment.add(value)
    result = {}
    for name in ESTIMATORS:
        figures = {"relative_time": statistics.median(a / b for a, b in zip(seconds[name], seconds[exact(name)]))}
        for part, moment, reference in zip(("posterior", "model"), moments[name], exact_ones[exact(name)]):
            if not len(reference):
                continue  # the objective has no posterior
            # A sparse posterior that has come down to single positions has no gradient: its figures are absolute, and 0
            # for estimators without one.
            scale = float(reference.double().square().sum()) or 1.0
            figures[f"{part}_variance"] = moment.variance / scale
            figures[f"{part}_bias"] = float((moment.mean - reference.double()).square().sum()) / scale
            figures[f"{part}_bias_expected"] = moment.variance / scale / repeats
        result[name] = figures
    return result


def table(result: dict[str, dict[str, float]]) -> str:
    headers = {
        "relative_time": "time / enumeration",
        "posterior_variance": "relative variance, posterior",
        "model_variance": "relative variance, model",
        "posterior_bias": "squared bias, posterior",
        "posterior_bias_expected": "expected from sampling",
        "model_bias": "squared bias, model",
        "model_bias_expected": "expected",
    }
    rows = [[name, *(figures.get(key) for key in headers)] for name, figures in result.items()]
    return tabulate(rows, ["estimator", *headers.values()], "github", floatfmt=".2g")


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="data folder of fairseq-preprocess")
    parser.add_argument("--path", required=True, help="checkpoint of a model with a posterior network")
    parser.add_argument("--split", default="valid")
    parser.add_argument("--sentences", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=100, help="gradients per estimator (100)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    if args.repeats < 2:
        raise OptionError(f"--repeats {args.repeats}: must be at least 2, to compute a variance")
    torch.set_num_threads(args.threads)
    model, sample, sizes = load(args.data, args.path, args.split, args.sentences, args.seed)
    torch.manual_seed(args.seed)
    result = measure(model, sample, args.repeats)
    print(table(result))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        command = shlex.join(["python", "scripts/gradient_variance.py", *(sys.argv[1:] if argv is None else argv)])
        about = {"command": command, **sizes, "repeats": args.repeats, "torch": torch.__version__}
        args.json.write_text(json.dumps({**about, "estimators": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
