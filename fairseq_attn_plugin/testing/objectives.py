"""The contract of objectives of latent alignment (:mod:`fairseq_attn_plugin.criterions.objectives`)."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from ..attention import options_of
from ..attention.normalizers import log_softmax
from ..criterions.objectives import OBJECTIVES, Batch, MovingAverage, Settings, Terms
from ..errors import OptionError
from ..modules.latent.latent_alignments import LatentAlignments
from .mechanisms import equal, require

__all__ = ["check_objective"]

PAD, VOCABULARY, WIDTH = 1, 7, 3
SOURCES, TARGETS = (4, 2), (3, 2)


def check_objective(name: str, **options: Any) -> None:
    """Checks that a registered objective keeps the contract, on a small batch in float64.

    The checks are: finite scalars; a gradient that reaches the decoder and no padding; logged terms without a gradient;
    no gradient in validation; no posterior network where it declares none.

    Args:
        name: the registered name
        options: options of its own, by full name or by field name

    Raises:
        AssertionError: the objective breaks a rule
        OptionError: an unknown name or option
    """
    if name not in OBJECTIVES:
        raise OptionError(f"--objective {name}: unknown; choose from {', '.join(OBJECTIVES)}")
    own = options_of(OBJECTIVES[name].Config)
    fields = {full: option.field.name for full, option in own.items()}
    unknown = [key for key in options if key not in fields and key not in fields.values()]
    if unknown:
        raise OptionError(f"objective {name} has no option {unknown[0]!r}; it has {', '.join(own) or 'none'}")
    config = OBJECTIVES[name].Config(**{fields.get(key, key): value for key, value in options.items()})
    settings = Settings(num_samples=OBJECTIVES[name].samples, own=config)

    def run(batch: Batch) -> Terms:
        torch.manual_seed(1)
        return OBJECTIVES[name](batch, settings, MovingAverage())

    def rule(text: str) -> str:
        return f"objective {name}: {text}"

    leaves = _leaves()
    terms = run(_batch(leaves, OBJECTIVES[name].posterior))
    for term, value in zip(Terms._fields, terms):
        if value is not None:
            finite = value.dim() == 0 and bool(torch.isfinite(value))
            require(finite, rule(f"{term} must be a finite scalar, is of shape {tuple(value.shape)}"))
    require(terms.loss.requires_grad, rule("the loss must be differentiable"))
    for term in ("reconstruction", "marginal", "prior_correct", "posterior_correct"):
        value = getattr(terms, term)
        require(value is None or not value.requires_grad, rule(f"{term} is logged only: detach it"))
    terms.loss.backward()
    grads = {key: leaf.grad if leaf.grad is not None else torch.zeros_like(leaf) for key, leaf in leaves.items()}
    require(all(bool(grad.isfinite().all()) for grad in grads.values()), rule("gradients must be finite"))
    reached = all(bool(grads[key].abs().sum() > 0) for key in ("memory", "query", "weight"))
    require(reached, rule("encodings, states and vocabulary projection must have a gradient"))
    for row, (n, t) in enumerate(zip(SOURCES, TARGETS)):
        equal(grads["memory"][row].abs().sum(), grads["memory"][row, -n:].abs().sum(), rule("padding is not a word"))
        for key in ("prior_scores", "posterior_scores"):
            inside = grads[key][row, :t, max(SOURCES) - n :].abs().sum()
            equal(grads[key][row].abs().sum(), inside, rule(f"padding must have no gradient ({key})"))
        equal(grads["query"][row].abs().sum(), grads["query"][row, :t].abs().sum(), rule("padded steps are not words"))
    with torch.no_grad():
        require(not run(_batch(leaves, OBJECTIVES[name].posterior)).loss.requires_grad, rule("no gradient, none asked"))


def _leaves() -> Dict[str, Tensor]:
    """The tensors from which a batch is made."""
    draw = torch.Generator().manual_seed(0)
    rows, steps, width = len(SOURCES), max(TARGETS), max(SOURCES)
    shapes: Dict[str, Tuple[int, ...]] = {
        "prior_scores": (rows, steps, width),
        "posterior_scores": (rows, steps, width),
        "memory": (rows, width, WIDTH),
        "query": (rows, steps, WIDTH),
        "weight": (VOCABULARY, WIDTH),
        "bias": (VOCABULARY,),
    }
    return {
        key: torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_() for key, shape in shapes.items()
    }


def _batch(leaves: Dict[str, Tensor], posterior: bool) -> Batch:
    """Sentences of ``SOURCES`` and ``TARGETS`` words, padded on the left of the source and the right of the target."""
    pad_mask = torch.stack([torch.arange(max(SOURCES)) < max(SOURCES) - n for n in SOURCES])
    draw = torch.Generator().manual_seed(3)
    target = torch.randint(2, VOCABULARY, (len(TARGETS), max(TARGETS)), generator=draw)
    for row, n in enumerate(TARGETS):
        target[row, n:] = PAD
    log_prior = log_softmax(leaves["prior_scores"], pad_mask[:, None])
    latent = LatentAlignments(
        leaves["memory"],
        leaves["query"],
        leaves["weight"],
        leaves["bias"],
        None,
        pad_mask,
        log_prior.exp(),
        log_prior,
        leaves["prior_scores"],
    )
    if posterior:
        scores = leaves["posterior_scores"]
        latent = latent._replace(log_posterior=log_softmax(scores, pad_mask[:, None]), posterior_scores=scores)
    return Batch(latent, target, PAD)
