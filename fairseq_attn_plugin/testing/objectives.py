"""The contract of objectives of latent alignment (:mod:`fairseq_attn_plugin.criterions.objectives`)."""

from typing import Any, Dict, Sequence, Tuple

import torch
from torch import Tensor

from ..attention import NORMALIZERS, options_of
from ..criterions.objectives import OBJECTIVES, Batch, MovingAverage, Settings, Terms
from ..errors import OptionError
from ..modules.latent.latent_alignments import LatentAlignments
from .mechanisms import equal, require

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
        raise OptionError(f"--objective {name}: is unknown; choose from {', '.join(OBJECTIVES)}")
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

    leaves = draw_leaves()
    batch = make_batch(leaves, posterior=OBJECTIVES[name].posterior)
    terms = run(batch)
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
        require(not run(batch).loss.requires_grad, rule("no gradient, none asked"))


def draw_leaves(
    sources: Sequence[int] = SOURCES, steps: int = max(TARGETS), seed: int = 0, scale: float = 1.5
) -> Dict[str, Tensor]:
    """The tensors from which a batch of sources with so many words is made; ``scale`` is that of the scores."""
    draw = torch.Generator().manual_seed(seed)
    rows, width = len(sources), max(sources)
    shapes: Dict[str, Tuple[float, Tuple[int, ...]]] = {
        "prior_scores": (scale, (rows, steps, width)),
        "posterior_scores": (scale, (rows, steps, width)),
        "memory": (1.5, (rows, width, WIDTH)),
        "query": (1.0, (rows, steps, WIDTH)),
        "weight": (1.5, (VOCABULARY, WIDTH)),
        "bias": (1.0, (VOCABULARY,)),
    }
    return {
        key: (factor * torch.randn(*shape, generator=draw, dtype=torch.float64)).requires_grad_()
        for key, (factor, shape) in shapes.items()
    }


def make_batch(
    leaves: Dict[str, Tensor],
    sources: Sequence[int] = SOURCES,
    targets: Sequence[int] = TARGETS,
    posterior: bool = True,
    normalizer: str = "softmax",
) -> Batch:
    """Sentences of so many words, padded on the left of the source and the right of the target."""
    width, steps = leaves["memory"].size(1), leaves["query"].size(1)
    pad_mask = torch.stack([torch.arange(width) < width - n for n in sources])
    target = torch.full((len(sources), steps), PAD)
    words = torch.randint(2, VOCABULARY, (len(sources), 3), generator=torch.Generator().manual_seed(3))
    target[:, :3] = words[:, :steps]
    for row, n in enumerate(targets):
        target[row, n:] = PAD
    normalize, mask = NORMALIZERS.build(normalizer), pad_mask[:, None]

    def log_weights(scores: Tensor) -> Tensor:
        return normalize.log_weights(normalize(scores, mask), scores, mask)

    scores, log_prior = leaves["prior_scores"], log_weights(leaves["prior_scores"])
    memory, query, weight, bias = (leaves[key] for key in ("memory", "query", "weight", "bias"))
    latent = LatentAlignments(memory, query, weight, bias, None, pad_mask, log_prior.exp(), log_prior, scores)
    if posterior:
        scores = leaves["posterior_scores"]
        latent = latent._replace(log_posterior=log_weights(scores), posterior_scores=scores)
    return Batch(latent, target, PAD)
