"""Matrix products with fixed weights, packed once.

    y = x W^T + b,   x [R, I], W [O, I], b [O]

in one of three precisions; x, b, y and the sums are float32 in all of them.

    float32   oneDNN with W laid out as it likes, where the product is large enough; otherwise torch's own product
    bfloat16  x and W rounded to 8 significant bits
    int8      W_oi = s_o w_oi with s_o = max_i |W_oi| / 127 and integers w; x = s (q - z) with integers q of 8 bits
              and s, z from the least and greatest number of each call ("dynamic")

A processor without instructions for bfloat16 computes in float32, which is faster there. Without products of integers
the rounded weights are used in float32. One warning says so.
"""

from __future__ import annotations

import functools
import logging
import warnings
from typing import Any, Callable, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.precision import NO_INSTRUCTIONS, has_bfloat16
from ..ops.products import by_intel

__all__ = [
    "BFloat16Product",
    "Float32Product",
    "Int8Product",
    "Product",
    "pack",
    "say_once",
]

logger = logging.getLogger(__name__)

OPTION = "--decoding-precision"
# Multiplications of a product from which on oneDNN is faster than MKL, whose calls cost less. Measured with 1 to 10
# rows, and 256 to 512 inputs and outputs. On the processors that MKL was written for, it takes some more rows.
MANY, FEW = 550_000, 10
# Sums of an int8 product (rows times outputs) from which on oneDNN is faster than FBGEMM, whose sums leave the cache.
# With AMX, which FBGEMM does not use, it is faster sooner.
SUMS, SUMS_WITH_AMX = 256_000, 48_000
PACKED_ROWS = 8  # with fewer, packing some rows of a weight costs more than it saves
BATCH = 16  # rows for which oneDNN lays a weight out; the layout serves any number


class Product(nn.Module):
    """x W^T + b with a fixed W; see the module's text. TorchScript can compile it.

    Args:
        weight: ``[O, I]``
        bias: ``[O]``, or None
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None):
        super().__init__()
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """``[R, I]`` to ``[R, O]``."""
        return F.linear(x, self.weight, self.bias)

    @torch.jit.ignore
    def subset(self, outputs: Tensor, rows: int) -> Product:
        """The product with some rows of W, which are packed where x has so many rows that it pays.

        Args:
            outputs: ``[K]``, indices of rows of W
            rows: of x, about
        """
        bias = None if self.bias is None else self.bias.index_select(0, outputs)
        weight = self.weight.index_select(0, outputs)
        if rows >= PACKED_ROWS:
            return self._of(weight, bias, rows)
        return Product(weight.to(torch.promote_types(weight.dtype, torch.float32)), bias)

    @torch.jit.ignore
    def _of(self, weight: Tensor, bias: Optional[Tensor], rows: int) -> Product:
        """A product of the same kind."""
        return type(self)(weight, bias)


class Float32Product(Product):
    """By oneDNN where that wins."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None):
        super().__init__(weight, bias)
        self.packed = _packed(self.weight)
        self.few = max(MANY // max(1, weight.numel()), FEW if by_intel() else 0)  # rows
        self.weight = self.weight.t().contiguous().t()  # columns together: faster for one row

    def forward(self, x: Tensor) -> Tensor:
        if self.packed is None or len(x) <= self.few:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


class BFloat16Product(Product):
    """Products of bfloat16 numbers. The bias is added in float32."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None):
        super().__init__(weight.bfloat16(), bias)
        self.packed = _packed(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(torch.bfloat16)
        if self.packed is None:
            y = F.linear(x, self.weight)
        else:
            y = torch.ops.mkldnn._linear_pointwise(x, self.packed, None, "none", [], "")
        return y.to(torch.float32) if self.bias is None else y + self.bias


class Int8Product(Product):
    """Products of integers of 8 bits.

    Args:
        weight, bias: see :class:`Product`
        rows: of x, about, where they are known; otherwise the weight is packed for few and for many
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor] = None, rows: Optional[int] = None):
        super().__init__(weight, bias)
        scales = (self.weight.float().abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
        integers = (self.weight / scales.unsqueeze(1)).round_().to(torch.int8)
        self.many = (SUMS_WITH_AMX if has_amx() else SUMS) // len(weight)  # rows
        # Without VNNI two products are added in 16 bits, which overflows unless x has 7 bits.
        self.seven_bits = not has_vnni()
        self.packed = self.packed_for_many = None
        if rows is None or rows >= self.many:
            self.packed = self.packed_for_many = _packed_integers(integers, scales, self.bias, ("onednn",))
        if self.packed is None or rows is None:
            self.packed = _packed_integers(integers, scales, self.bias, ("x86", "fbgemm", "qnnpack"))
            self.packed_for_many = self.packed if self.packed_for_many is None else self.packed_for_many
        if self.packed is None:
            self.weight = integers * scales.unsqueeze(1)
            say_once("int8", "this torch has no products of 8-bit integers here; rounded weights are used in float32")
        elif self.seven_bits:
            say_once("int8", "this processor has no VNNI instructions; the inputs of products have 7 bits")

    @torch.jit.ignore
    def _of(self, weight: Tensor, bias: Optional[Tensor], rows: int) -> Product:
        return Int8Product(weight, bias, rows)

    def forward(self, x: Tensor) -> Tensor:
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        if len(x) >= self.many:
            return torch.ops.quantized.linear_dynamic(x, self.packed_for_many, self.seven_bits)
        return torch.ops.quantized.linear_dynamic(x, self.packed, self.seven_bits)


_KINDS: Dict[str, Callable[..., Product]] = {
    "float32": Float32Product,
    "bfloat16": BFloat16Product,
    "int8": Int8Product,
}


def pack(weight: Tensor, bias: Optional[Tensor] = None, precision: str = "float32") -> Product:
    """The product with ``weight`` ``[O, I]`` and ``bias`` ``[O]`` in a precision of :data:`.options.PRECISIONS`.

    A weight that is not of type float32 keeps its own precision.
    """
    if weight.dtype != torch.float32:
        return Product(weight, bias)
    if precision == "bfloat16" and weight.device.type == "cpu" and not has_bfloat16("cpu"):
        say_once("bfloat16", NO_INSTRUCTIONS)
        precision = "float32"
    return _KINDS[precision](weight, bias)


def has_vnni() -> bool:
    """Whether the processor adds products of 8-bit integers in 32 bits. An old torch does not say: then no."""
    return bool(getattr(torch.cpu, "_is_vnni_supported", lambda: False)())


def has_amx() -> bool:
    """Whether the processor multiplies tiles of matrices. An old torch does not say: then no."""
    return bool(getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)())


def _packed(weight: Tensor) -> Optional[Tensor]:
    """The weight in oneDNN's order, or None where torch lacks the functions, or the weight is on another device."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return None
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), BATCH)
        torch.ops.mkldnn._linear_pointwise.default(weight[:1], packed, None, "none", [], "")
    except (AttributeError, RuntimeError):
        return None
    return packed


def _packed_integers(integers: Tensor, scales: Tensor, bias: Optional[Tensor], engines: Tuple[str, ...]) -> Any:
    """The weight as the first of torch's engines takes it that exists; None where none does."""
    quantized = torch.backends.quantized
    found = [name for name in engines if name in quantized.supported_engines]
    if integers.device.type != "cpu" or not found:
        return None
    engine, quantized.engine = quantized.engine, found[0]
    try:
        with warnings.catch_warnings():  # torch announces the end of quantized tensors
            warnings.simplefilter("ignore", UserWarning)
            zeros = torch.zeros(len(scales), dtype=torch.long)
            weight = torch._make_per_channel_quantized_tensor(integers, scales.double(), zeros, 0)
            packed = torch.ops.quantized.linear_prepack(weight, bias)
            torch.ops.quantized.linear_dynamic(torch.zeros(1, integers.size(1)), packed, False)
    except (AttributeError, RuntimeError):
        return None
    finally:
        quantized.engine = engine
    return packed


@functools.lru_cache(maxsize=None)
def say_once(precision: str, what: str) -> None:
    """Warns of what ``--decoding-precision`` does not do, the first time that it is asked for."""
    logger.warning(f"{OPTION} {precision}: {what}")
