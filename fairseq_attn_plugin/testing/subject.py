"""A mechanism under test, and a small batch of sentences and queries for it."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..attention import Attention, AttentionOutput, build_attention

DIM = 5
LENGTHS = (6, 1, 4, 2)
PAD = 1


class Subject:
    """A mechanism with some options.

    Args:
        name: the registered name
        options: its options, by field name or by full name
        prepare: called with every module that is built, for what options cannot set, such as the content of files
    """

    def __init__(
        self, name: str, options: Dict[str, Any], prepare: Optional[Callable[[Attention], object]] = None
    ) -> None:
        self.name, self.options, self.prepare = name, options, prepare

    def __str__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"attention {self.name}" + (f" ({given})" if given else "")

    def build(self, dtype: torch.dtype = torch.float64, query_dim: int = DIM, memory_dim: int = DIM) -> Attention:
        """A module with the same parameters at every call, drawn from [-1, 1] so that differences show. No noise."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            module = build_attention(self.name, query_dim=query_dim, memory_dim=memory_dim, **self.options)
            if self.prepare is not None:
                self.prepare(module)
            module.noise = 0.0
            for parameter in module.parameters():
                torch.nn.init.uniform_(parameter, -1.0, 1.0)
        return module.to(dtype)


class Batch(NamedTuple):
    """Sentences of ``LENGTHS`` words, padded."""

    encodings: Tensor  # [B, N, Dh], zero on padding
    pad_mask: Tensor  # [B, N]
    sentences: List[Tensor]  # [n, Dh] each


def batch_of(
    side: str = "left", width: int = max(LENGTHS), dtype: torch.dtype = torch.float64, dim: int = DIM
) -> Batch:
    """The same sentences at every call, padded on ``side`` to ``width`` positions."""
    generator = torch.Generator().manual_seed(5)
    sentences = [torch.randn(n, dim, generator=generator, dtype=torch.float64) for n in LENGTHS]
    encodings = torch.zeros(len(LENGTHS), width, dim, dtype=torch.float64)
    pad_mask = torch.ones(len(LENGTHS), width, dtype=torch.bool)
    for row, (n, sentence) in enumerate(zip(LENGTHS, sentences)):
        start = width - n if side == "left" else 0
        encodings[row, start : start + n] = sentence
        pad_mask[row, start : start + n] = False
    return Batch(encodings.to(dtype), pad_mask, sentences)


def draw_queries(steps: int = 3, dtype: torch.dtype = torch.float64, dim: int = DIM) -> Tensor:
    """The same queries ``[B, steps, Ds]`` at every call."""
    generator = torch.Generator().manual_seed(6)
    return torch.randn(len(LENGTHS), steps, dim, generator=generator, dtype=torch.float64).to(dtype)


def words_of(vectors: Tensor) -> Tensor:
    """A word for each vector ``[..., D]``: 4 to 11, from the signs of its first three numbers."""
    bits = (vectors[..., :3] > 0).long()
    return 4 + bits[..., 0] + 2 * bits[..., 1] + 4 * bits[..., 2]


def precompute(module: Attention, encodings: Tensor, pad_mask: Optional[Tensor]) -> Any:
    """The memory of a batch; a mechanism that takes words gets them."""
    if "words" not in module.takes:
        return module.precompute(encodings, pad_mask)
    tokens = words_of(encodings)
    tokens = tokens if pad_mask is None else tokens.masked_fill(pad_mask, PAD)
    return module.precompute(encodings, pad_mask, source_tokens=tokens)  # type: ignore[call-arg]


def step(module: Attention, query: Tensor, memory: Any, state: Any, first: int = 0) -> AttentionOutput:
    """``module.step`` for queries of the decoder steps ``first``, ``first + 1``, ..."""
    positions = torch.arange(first, first + query.size(1), device=query.device).expand(query.shape[:2])
    return step_at(module, query, memory, state, positions)


def step_at(module: Attention, query: Tensor, memory: Any, state: Any, positions: Tensor) -> AttentionOutput:
    """``module.step``; a mechanism that takes words gets a word for each query."""
    if "words" not in module.takes:
        return module.step(query, memory, state, positions)
    return module.step(query, memory, state, positions, inputs=words_of(query))  # type: ignore[call-arg]


def stepwise(module: Attention, query: Tensor, memory: Any) -> Tuple[Tensor, Tensor]:
    """Contexts ``[B, T, Dh]`` and weights ``[B, T, N]``, one step after the other."""
    state, contexts, weights = module.initial_state(memory), [], []
    for t in range(query.size(1)):
        out = step(module, query[:, t : t + 1], memory, state, t)
        state = out.state
        contexts.append(out.context)
        weights.append(out.weights)
    return torch.cat(contexts, 1), torch.cat(weights, 1)


def attend(module: Attention, query: Tensor, encodings: Tensor, pad_mask: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """Contexts and weights of all queries: in one call, or step by step for a recurrent mechanism."""
    memory = precompute(module, encodings, pad_mask)
    if module.recurrent:
        return stepwise(module, query, memory)
    out = step(module, query, memory, module.initial_state(memory))
    return out.context, out.weights
