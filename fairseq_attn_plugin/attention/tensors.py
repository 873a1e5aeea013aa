"""Functions of memories and states: tensors, None, and NamedTuples, tuples, lists or dictionaries of these."""

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
    if isinstance(tensors, dict):
        return {name: map_tensors(function, part) for name, part in tensors.items()}  # type: ignore[return-value]
    parts = [map_tensors(function, part) for part in tensors]  # type: ignore[attr-defined]
    return type(tensors)(*parts) if hasattr(tensors, "_fields") else type(tensors)(parts)  # type: ignore


def index_rows(tensors: Tensors, index: Tensor) -> Tensors:
    """Selects rows (dimension 0) of every tensor of a memory or state. Beam search reorders with it."""
    return map_tensors(lambda tensor: tensor.index_select(0, index), tensors)
