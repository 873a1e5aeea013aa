"""What bfloat16 does to gradients: the section ``gradients`` of the benchmark.

Perplexities of two trainings differ by chance: any rounding error sends a training another way. The gradients of one
model on the same batches do not. Without dropout, with a and b the gradients of one batch in float32 and bfloat16,

    error     |b - a| / |a|,  the median over batches
    scale     <a, b> / <a, a>,  of the sums over all batches: 1 if the error has no direction
    noise     |a - m| / |m|,  the median over batches, m their mean: what stochastic gradient descent lives with
"""

from collections.abc import Mapping
from statistics import median
from typing import Any

import torch
from benchmark.corpus import batches_of, open_task
from benchmark.measure import table
from benchmark.models import Tick
from benchmark.systems import SOFT, Sizes, Spec, System, to_device
from benchmark.translation import read_checkpoint
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

PRECISIONS = (torch.float32, torch.bfloat16)
PARTS = {  # by the beginning of a parameter's name; the first that fits
    "words of the source": "encoder.embed",
    "encoder": "encoder",
    "words of the target": "decoder.embed",
    "attention": "decoder.attention",
    "vocabulary projection": "decoder.fc_out",
    "decoder": "decoder",
    "all": "",
}


def measure(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    task = open_task(settings, "train")
    system = System(Spec(SOFT), Sizes(**settings["sizes"]), task, device, settings["seed"], "none")
    if settings["checkpoint"] is not None:
        system.model = read_checkpoint(settings["checkpoint"], task)[0].to(device).train()
    for module in system.model.modules():
        if isinstance(module, FairseqDropout):
            module.p = 0.0
        elif isinstance(module, nn.LSTM):
            module.dropout = 0.0
    system.model.decoder.init_dropout = 0.0
    batches = batches_of(task, "train", settings, True, max_tokens=settings["max_tokens"])
    gradients: dict[torch.dtype, list[dict[str, Tensor]]] = {precision: [] for precision in PRECISIONS}
    for batch in batches[: settings["gradient_batches"]]:
        tick("gradients")
        for precision in PRECISIONS:
            gradients[precision].append(_gradients(system, to_device(batch, device), precision))
    exact, rounded = gradients.values()
    return {"all": {part: _compare(exact, rounded, part) for part in PARTS if part in exact[0]}}


def _gradients(system: System, batch: dict[str, Any], precision: torch.dtype) -> dict[str, Tensor]:
    """The gradient per word of each part of the model, as one vector."""
    system.model.matmul_precision = precision
    system.model.zero_grad()
    loss, words, _ = system.criterion(system.model, batch)
    (loss / words).backward()
    return {part: torch.cat(found) for part in PARTS if (found := _vectors(system.model, part))}


def _vectors(model: nn.Module, part: str) -> list[Tensor]:
    found = []
    for name, parameter in model.named_parameters():
        owner = next(other for other, beginning in PARTS.items() if name.startswith(beginning))
        if parameter.grad is not None and part in (owner, "all"):
            found.append(parameter.grad.flatten().clone())
    return found


def _compare(exact: list[dict[str, Tensor]], rounded: list[dict[str, Tensor]], part: str) -> dict[str, float]:
    pairs = [(a[part], b[part]) for a, b in zip(exact, rounded)]
    mean, rounded_mean = (torch.stack(side).mean(0) for side in zip(*pairs))
    return {
        "error": median(float((b - a).norm() / a.norm()) for a, b in pairs),
        "error_of_mean": float((rounded_mean - mean).norm() / mean.norm()),
        "scale": float(torch.dot(mean, rounded_mean) / torch.dot(mean, mean)),
        "noise": median(float((a - mean).norm() / mean.norm()) for a, _ in pairs),
    }


def tables(report: Mapping[str, Any]) -> list[str]:
    rows = [
        [part, f"{row['error']:.4f}", f"{row['error_of_mean']:.4f}", f"{row['scale']:.4f}", f"{row['noise']:.2f}"]
        for part, row in report["sections"]["gradients"]["all"].items()
    ]
    batches = report["settings"]["gradient_batches"]
    return [
        "## Gradients in bfloat16",
        f"Gradients of {batches} batches in bfloat16 against float32, one model without dropout. The error of a batch "
        "and the noise are medians over the batches, relative to the norm of a gradient; the scale is the part of the "
        "float32 gradient that the mean in bfloat16 has.",
        table(["parameters", "error", "error of the mean", "scale", "noise of a batch"], rows),
    ]
