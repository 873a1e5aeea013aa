"""Checks of what a mechanism returns: shapes, weights, gradients, precision, and its state dictionary."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ..attention import map_tensors
from ..attention.normalizers import LOG_ZERO
from ..errors import OptionError
from .rules import check, equal, require
from .subject import LENGTHS, Subject, attend, batch_of, draw_queries, precompute, step

_B = len(LENGTHS)


@check
def shapes(subject: Subject) -> None:
    sizes = [(5, 5), (4, 3)]
    for query_dim, memory_dim in sizes:
        try:
            module = subject.build(query_dim=query_dim, memory_dim=memory_dim)
        except OptionError:
            require(query_dim != memory_dim, "equal query_dim and memory_dim must be accepted")
            continue
        encodings, pad_mask, _ = batch_of(dim=memory_dim)
        memory = precompute(module, encodings, pad_mask)
        _check_tensors(memory, "memory")
        steps = 1 if module.recurrent else 3
        out = step(module, draw_queries(steps, dim=query_dim), memory, module.initial_state(memory))
        _check_tensors(out.state, "state")
        width = max(LENGTHS)
        for part, size in (("context", memory_dim), ("weights", width), ("scores", width)):
            found = tuple(getattr(out, part).shape)
            require(found == (_B, steps, size), f"{part} must be [B, T, {size}] = {(_B, steps, size)}, is {found}")


def _check_tensors(tensors: Any, what: str) -> None:
    """Beam search reorders memories and states along their first dimension."""
    if tensors is not None:
        named = isinstance(tensors, tuple) and hasattr(tensors, "_fields")
        require(named, f"the {what} must be None or a NamedTuple of tensors, is {type(tensors).__name__}")

    def one(tensor: Tensor) -> Tensor:
        found = tuple(tensor.shape)
        require(
            tensor.dim() > 0 and len(tensor) == _B,
            f"tensors of the {what} must be [B, ...] with B = {_B}, one is {found}",
        )
        return tensor

    map_tensors(one, tensors)


@check
def weights(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    context, found = attend(module, draw_queries(), encodings, pad_mask)
    require((found >= 0).all(), f"weights must not be negative; the least is {found.min().item():g}")
    on_padding = found.masked_select(pad_mask[:, None])
    require((on_padding == 0).all(), "weights must be exactly zero on padding (pad_mask is True there)")
    if module.normalized:
        rule = "weights must sum to one over the words of a sentence, or the mechanism sets normalized = False"
        equal(found.sum(-1), torch.ones_like(found[..., 0]), rule)
    equal(context, found @ encodings, "the context must be the sum of the encodings by their weights")


@check
def log_weights(subject: Subject) -> None:
    module = subject.build()
    if not module.normalized:
        return
    encodings, pad_mask, _ = batch_of()
    memory = precompute(module, encodings, pad_mask)
    out = step(module, draw_queries(1), memory, module.initial_state(memory))
    logs = module.log_weights(out.weights, out.scores, pad_mask)
    rule = "exp(log_weights) must be the weights; scores_are_logits says whether the scores are their logits"
    equal(logs.exp(), out.weights, rule, rtol=1e-6, atol=1e-9)
    require((logs.masked_select(pad_mask[:, None]) == LOG_ZERO).all(), "log_weights must be LOG_ZERO on padding")


@check
def gradients(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()

    def function(query: Tensor, encodings: Tensor, *_: Tensor) -> Any:
        return attend(module, query, encodings, pad_mask)

    inputs = (draw_queries(2).requires_grad_(), encodings.requires_grad_(), *module.parameters())
    # Random projections of the Jacobian: as sharp as all of its columns, and many times faster.
    try:
        torch.autograd.gradcheck(function, inputs, atol=1e-4, rtol=1e-3, fast_mode=True)
    except RuntimeError as error:  # torch's GradcheckError is one
        raise AssertionError(f"gradients must equal finite differences. {error}") from None


@check
def half_precision(subject: Subject) -> None:
    encodings, pad_mask, _ = batch_of(dtype=torch.float32)
    module = subject.build(torch.float32)
    expected, _ = attend(module, draw_queries(dtype=torch.float32), encodings, pad_mask)
    for dtype in (torch.float16, torch.bfloat16):
        half, inputs = copy.deepcopy(module).to(dtype), encodings.to(dtype).requires_grad_()
        context, found = attend(half, draw_queries(dtype=dtype), inputs, pad_mask)
        context.float().pow(2).sum().backward()
        assert inputs.grad is not None
        require(context.dtype == found.dtype == dtype, f"in {dtype} context and weights must be of that type")
        finite = all(bool(x.isfinite().all()) for x in (context, found, inputs.grad))
        require(finite, f"in {dtype} results and gradients must be finite: compute exp and log in float32")
        require((found.masked_select(pad_mask[:, None]) == 0).all(), f"in {dtype} padding must have zero weights")
        # Half precision rounds the scores; on these inputs the effect is below a few percent of the encodings' size.
        equal(context.float(), expected, f"{dtype} must be close to float32", rtol=0.1, atol=0.15)


@check
def extreme_scores(subject: Subject) -> None:
    module = subject.build(torch.float32)
    encodings, pad_mask, _ = batch_of(dtype=torch.float32)
    encodings = (encodings * 1e3).requires_grad_()
    context, found = attend(module, draw_queries(dtype=torch.float32) * 1e2, encodings, pad_mask)
    context.sum().backward()
    assert encodings.grad is not None
    finite = found.isfinite().all() and encodings.grad.isfinite().all()
    require(finite, "weights and gradients of very large scores must be finite")


@check
def state_dict(subject: Subject) -> None:
    module, other = subject.build(), subject.build()
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    other.load_state_dict(module.state_dict())
    encodings, pad_mask, _ = batch_of()
    for one, two in zip(*(attend(m, draw_queries(), encodings, pad_mask) for m in (module, other))):
        require(torch.equal(one, two), "a module with the state dictionary of another must give equal results")


@check
def nothing_kept(subject: Subject) -> None:
    module = subject.build()
    attributes = {key: set(vars(part)) for key, part in module.named_modules()}
    buffers = {key: buffer.clone() for key, buffer in module.named_buffers()}
    encodings, pad_mask, _ = batch_of()
    attend(module, draw_queries(), encodings, pad_mask)
    for key, part in module.named_modules():
        new = sorted(set(vars(part)) - attributes[key])
        require(not new, f"nothing of a batch may stay on the module: {'.'.join(filter(None, [key, *new]))} is new")
    same = dict(module.named_buffers()).keys() == buffers.keys()
    same = same and all(torch.equal(buffer, buffers[key]) for key, buffer in module.named_buffers())
    require(same, "a forward pass must not change buffers")
