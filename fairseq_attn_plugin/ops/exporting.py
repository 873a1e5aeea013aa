"""Whether a graph is being recorded for another program, as ONNX.

Functions with a hand-written backward pass, and functions that choose by the values or sizes of a batch, then take a
plain form: operations that every size of batch and sentence has in common.
"""

from __future__ import annotations

import torch

__all__ = ["exporting"]


def exporting() -> bool:
    """Whether ``torch.onnx.export`` or ``torch.jit.trace`` is recording."""
    return torch.onnx.is_in_onnx_export() or torch.jit.is_tracing()
