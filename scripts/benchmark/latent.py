"""Latent alignment: training steps of the objectives, and decoding with all, some or the mean of the alignments.

All systems are ``lstm_latent`` with the same sizes, or ``lstm_posterior``. The objective ``soft`` has one vocabulary
projection per word. It is compared with objectives that need several projections, and these with their direct
computation, which holds the logits of all alignments. With a linear output layer all alignments of a sentence share its
projections.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any, Callable, Mapping, Optional
from unittest.mock import patch

import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from omegaconf import OmegaConf
from torch import Tensor

from benchmark.sections import Tick, compare, decode, train_step
from benchmark.systems import MemoryTask, Sizes, Spec, System, make_batch
from fairseq_attn_plugin.criterions.latent_alignment import LatentAlignmentCriterion
from fairseq_attn_plugin.criterions.objectives import OBJECTIVES as KNOWN
from fairseq_attn_plugin.criterions.objectives import enumerated
from fairseq_attn_plugin.ops.alignment_blocks import Alignments
from fairseq_attn_plugin.ops.mixture_nll import NLL

ALL_LOGITS = " (all logits)"
LINEAR = " (linear)"
POSTERIOR = "posterior attention"  # under the objective marginal
OBJECTIVES = (
    "soft",
    "marginal",
    "marginal" + ALL_LOGITS,
    "elbo-enum",
    "elbo-enum" + ALL_LOGITS,
    "elbo-reinforce",
    "elbo-sum-and-sample",
    "soft" + LINEAR,
    "marginal" + LINEAR,
    "elbo-enum" + LINEAR,
    POSTERIOR,
    POSTERIOR + LINEAR,
)
TRAIN_BASELINES = ("soft", "elbo-enum", "marginal" + ALL_LOGITS, "elbo-enum" + ALL_LOGITS, "soft" + LINEAR, POSTERIOR)
PREDICTIONS: dict[str, dict[str, Any]] = {
    "soft": {"prediction": "soft"},
    "top-5": {"prediction": "marginal", "topk": 5},
    "marginal": {"prediction": "marginal"},
    "soft" + LINEAR: {"prediction": "soft"},
    "top-5" + LINEAR: {"prediction": "marginal", "topk": 5},
    "marginal" + LINEAR: {"prediction": "marginal"},
    POSTERIOR: {},
    POSTERIOR + LINEAR: {},
}


def objective(text: str) -> str:
    """A value of ``--objectives``."""
    name = text.split(" ")[0]
    if text in (POSTERIOR, POSTERIOR + LINEAR):
        return text
    if name not in KNOWN or text not in (name, name + ALL_LOGITS, name + LINEAR):
        raise argparse.ArgumentTypeError(
            f"unknown objective {text!r}, choose '{POSTERIOR}', '{POSTERIOR}{LINEAR}', NAME, 'NAME{ALL_LOGITS}' or "
            f"'NAME{LINEAR}' with a NAME of " + ", ".join(KNOWN)
        )
    return text


def direct_nll(
    alignments: Alignments, weights: Tensor, smoothing: float, mixtures: Optional[Tensor], mixture: bool
) -> NLL:
    """The sums of ops/mixture_nll.py by autograd from all logits at once, ``[B, T, N, V]``."""
    memory, query = alignments.memory, alignments.query.unsqueeze(2)
    hidden = query if memory is None else memory.unsqueeze(1) + query
    features = torch.tanh(hidden)
    if alignments.keep is not None:
        features = features * alignments.keep.unsqueeze(2)
    log_probs = torch.nn.functional.linear(features, alignments.weight, alignments.bias).log_softmax(-1)
    target = alignments.target[:, :, None, None].expand(*log_probs.shape[:3], 1)
    gold = log_probs.gather(-1, target).squeeze(-1)
    words = (weights + gold).logsumexp(-1) if mixture else (weights * gold).sum(-1)
    total = -words.masked_fill(alignments.target_mask, 0.0).sum()
    correct = None
    if mixtures is not None:
        with torch.no_grad():
            best = torch.einsum("cbtk,btkv->cbtv", mixtures.to(gold.dtype), log_probs.exp()).argmax(-1)
            correct = best.eq(alignments.target) & ~alignments.target_mask
    return NLL(total, gold.detach(), gold.detach(), correct)


class LatentSystem(System):
    """``lstm_latent`` under one objective, or predicting in one way; or ``lstm_posterior``."""

    def __init__(self, sizes: Sizes, task: MemoryTask, device: torch.device, seed: int, optimizer: str, objective: str):
        name, direct, arch = objective.split(" ")[0], objective.endswith(ALL_LOGITS), "lstm_latent"
        if objective.startswith(POSTERIOR):
            name, arch = "marginal", "lstm_posterior"
        options = {"attention_hidden_dim": str(sizes.hidden)}
        if objective.endswith(LINEAR):
            options["output_layer"] = "linear"
        if not KNOWN[name].posterior:
            options["latent_posterior"] = "False"
        super().__init__(Spec(arch, tuple(options.items())), sizes, task, device, seed, optimizer)
        config = OmegaConf.structured(CRITERION_DATACLASS_REGISTRY["latent_alignment"]())
        config = OmegaConf.merge(config, {"objective": name, "sentence_avg": False})
        criterion = LatentAlignmentCriterion(config, _WithTarget(task))
        self.criterion = _all_logits(criterion) if direct else criterion


class _WithTarget:
    def __init__(self, task: MemoryTask):
        self.target_dictionary = task.target_dictionary


def _all_logits(criterion: Callable[..., Any]) -> Callable[..., Any]:
    """The criterion with direct computation instead of blocks."""

    def run(*args: Any) -> Any:
        with ExitStack() as stack:
            for name, mixture in (("mixture_nll", True), ("expected_nll", False)):

                def nll(alignments, weights, smoothing=0.0, mixtures=None, mixture=mixture):
                    return direct_nll(alignments, weights, smoothing, mixtures, mixture)

                stack.enter_context(patch.object(enumerated, name, nll))
            return criterion(*args)

    return run


def latent_sections(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    """Sections ``latent`` (training) and ``latent_decode``, at one source length."""
    sizes, length = Sizes(**settings["sizes"]), settings["latent_length"]
    task = MemoryTask(sizes.vocab)
    batch = make_batch(task, length, settings["latent_batch"] * length, settings["seed"], device)

    def build(objective: str) -> LatentSystem:
        return LatentSystem(sizes, task, device, settings["seed"], settings["optimizer"], objective)

    train = compare(
        {name: build(name) for name in settings["objectives"]},
        lambda system, batch: train_step(system, batch, device),
        batch,
        int(batch["ntokens"]),
        {**settings, "baselines": TRAIN_BASELINES},
        device,
        lambda name: tick(f"latent {name}"),
    )
    decoders = {}
    for name, options in PREDICTIONS.items():
        of_kind = POSTERIOR if name.startswith(POSTERIOR) else "marginal"
        decoders[name] = build(of_kind + (LINEAR if name.endswith(LINEAR) else ""))
        for option, value in options.items():
            setattr(decoders[name].decoding_model.decoder, option, value)
    decoding = compare(
        decoders,
        lambda system, batch: decode(system, batch, settings["beam"], length, device),
        batch,
        int(batch["net_input"]["src_tokens"].size(0)) * (length + 1),
        {**settings, "baselines": ("soft", "soft" + LINEAR, POSTERIOR)},
        device,
        lambda name: tick(f"latent decode {name}"),
    )
    return {"latent": {str(length): train}, "latent_decode": {str(length): decoding}}
