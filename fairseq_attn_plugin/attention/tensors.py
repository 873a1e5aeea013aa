"""Functions of memories and states: NamedTuples or tuples of tensors, of further such tuples, or of None."""

from __future__ import annotations

from typing import Callable, TypeVar

from torch import Tensor

__all__ = ["index_rows", "map_tensors"]

Tensors = TypeVar("Tensors")


def map_tensors(function: Callable[[Tensor], Tensor], tensors: Tensors) -> Tensors:
    """Applies ``function`` to every tensor of a memory or state."""
    if tensors is None:
        return tensors
    if isinstance(tensors, Tensor):
        return function(tensors)  # type: ignore[return-value]
    parts = (map_tensors(function, part) for part in tensors)  # type: ignore[attr-defined]
    return type(tensors)(*parts) if hasattr(tensors, "_fields") else tuple(parts)  # type: ignore[return-value]


def index_rows(tensors: Tensors, index: Tensor) -> Tensors:
    """Selects rows (dimension 0) of every tensor of a memory or state. Beam search reorders with it."""
    return map_tensors(lambda tensor: tensor.index_select(0, index), tensors)
