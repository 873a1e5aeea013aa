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
from typing import Any, Callable, Dict, Iterable, Optional, Tuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .precision import NO_INSTRUCTIONS, has_bfloat16
from .products import by_intel

logger = logging.getLogger(__name__)
T = TypeVar("T")

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
        self.many = (SUMS_WITH_AMX if torch.cpu._is_amx_tile_supported() else SUMS) // len(weight)  # rows
        # Without VNNI two products are added in 16 bits, which overflows unless x has 7 bits.
        self.seven_bits = not torch.cpu._is_vnni_supported()
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

    def forward(self, x: Tensor) -> Tensor:
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        if len(x) >= self.many:
            return torch.ops.quantized.linear_dynamic(x, self.packed_for_many, self.seven_bits)
        return torch.ops.quantized.linear_dynamic(x, self.packed, self.seven_bits)


def pack(
    weight: Tensor, bias: Optional[Tensor] = None, precision: str = "float32", rows: Optional[int] = None
) -> Product:
    """The product with ``weight`` ``[O, I]`` and ``bias`` ``[O]`` in float32, bfloat16 or int8.

    A weight that is not of type float32 keeps its own precision. ``rows``: of x, about, where they are known.
    """
    if weight.dtype != torch.float32:
        return Product(weight, bias)
    if precision == "bfloat16" and weight.device.type == "cpu" and not has_bfloat16("cpu"):
        say_once("bfloat16", NO_INSTRUCTIONS)
        precision = "float32"
    if precision == "int8":
        return Int8Product(weight, bias, rows)
    return BFloat16Product(weight, bias) if precision == "bfloat16" else Float32Product(weight, bias)


def packed_lstm(
    reverse: bool, w_input: Tensor, w_hidden: Tensor, b_input: Tensor, b_hidden: Tensor
) -> Callable[[Tensor], Tuple[Tensor, Tensor]]:
    """One layer and direction of an LSTM in float32, by one call of oneDNN with weights that are packed once.

    Args:
        reverse: whether it reads from the end
        w_input, w_hidden, b_input, b_hidden: as of ``nn.LSTM``

    Returns:
        a function from ``[N, B, I]`` to hidden states ``[N, B, H]`` and last cell state ``[1, B, H]``, from zeros

    Raises:
        AttributeError, RuntimeError: torch lacks the call
    """
    size = w_hidden.size(1)
    weights = torch.ops.mkldnn._reorder_mkldnn_rnn_layer_weight(w_input, w_hidden, size, reverse, True, False)
    flags: Any = (reverse, [], 2, size, 1, True, False, False, False)  # 2: an LSTM

    def run(x: Tensor) -> Tuple[Tensor, Tensor]:
        zeros = x.new_zeros(1, x.size(1), size)
        outputs, _, cell, _ = torch.ops.aten.mkldnn_rnn_layer(x, *weights, b_input, b_hidden, zeros, zeros, *flags)
        return outputs, cell

    return run


class FixedWeights(nn.Module):
    """The products of a model whose weights do not change any more, packed when they are first asked for.

    :func:`~fairseq_attn_plugin.ops.precision.with_fixed` makes the functions of
    :mod:`fairseq_attn_plugin.ops.deferred` use them. A subset of the words (:meth:`confined_to`) has a projection of
    its own.

    Args:
        weights: parameters of the model; parts of them are known, too
        precision: see :func:`pack`

    Attributes:
        words: the only words ``[K]`` that the vocabulary has, ascending; None: all
        vocabulary: weight ``[K, D]`` and bias ``[K]`` of their projection
    """

    words: Optional[Tensor] = None
    vocabulary: Tuple[Tensor, Optional[Tensor]]

    def __init__(self, weights: Iterable[Tensor], precision: str = "float32"):
        super().__init__()
        self.precision, self.rows = precision, PACKED_ROWS
        self.products = nn.ModuleList()
        self._found: Dict[Any, nn.Module] = {}
        self._kept: Dict[Any, Any] = {}
        self._held = [weight.detach() for weight in weights]  # no other tensor can have their memory
        self._known = {weight.untyped_storage().data_ptr() for weight in self._held}
        self._all: Optional[FixedWeights] = None

    def confined_to(self, words: Tensor, vocabulary: Tuple[Tensor, Optional[Tensor]], rows: int) -> FixedWeights:
        """The same products, and those of some words, which are packed where ``rows`` sentences make it pay.

        Args:
            words: ``[K]``, ascending
            vocabulary: weight ``[V, D]`` and bias ``[V]`` of all words
            rows: number of sentences
        """
        weight, bias = (None if part is None else part.detach().index_select(0, words) for part in vocabulary)
        assert weight is not None
        confined = FixedWeights([part for part in (weight, bias) if part is not None], self.precision)
        confined._all, confined.words, confined.vocabulary, confined.rows = self, words, (weight, bias), rows
        return confined

    def places(self, words: Tensor) -> Tensor:
        """The rows of the vocabulary's weight that are those of ``words``."""
        return words if self.words is None else torch.searchsorted(self.words, words)

    def multiply(self, x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """``x @ weight^T + bias``, ``[R, I]`` to ``[R, O]``, of any weight and bias."""
        own = bias is None or self._knows(bias) or self._all is not None and self._all._knows(bias)
        product = self.product(weight, bias if own else None)  # the sum of two biases is none that it knows
        if product is None:
            return F.linear(x, weight, bias)
        return product(x) if own else product(x) + bias

    def product(self, weight: Tensor, bias: Optional[Tensor] = None) -> Optional[nn.Module]:
        """x W^T + b; None for a weight that is not known, which another tensor may replace in memory."""
        if not self._knows(weight) or not (bias is None or self._knows(bias)):
            return None if self._all is None else self._all.product(weight, bias)
        key = (weight.data_ptr(), *map(int, weight.shape), *weight.stride(), 0 if bias is None else bias.data_ptr())
        if key not in self._found:
            if self.rows < PACKED_ROWS:
                self._found[key] = Product(weight, bias)
            elif self._all is not None:  # not compiled, because it is of one batch
                self._found[key] = pack(weight, bias, self.precision, self.rows)
            else:
                product = pack(weight, bias, self.precision)
                self._found[key] = by_torchscript(lambda: torch.jit.script(product), product)
            self.products.append(self._found[key])
        return self._found[key]

    def _knows(self, weight: Tensor) -> bool:
        return weight.untyped_storage().data_ptr() in self._known

    def kept(self, name: Any, make: Callable[[], T], weights: bool = False) -> T:
        """``make()``, called once; whether its result are weights of products."""
        if self._all is not None:
            return self._all.kept(name, make, weights)
        if name not in self._kept:
            self._kept[name] = made = make()
            if weights:
                self._known.update(weight.untyped_storage().data_ptr() for weight in made)  # type: ignore[attr-defined]
        return self._kept[name]


def by_torchscript(make: Callable[[], Any], module: Any) -> Any:
    """``make()``, the module as TorchScript has it; the module itself where torch cannot."""
    try:
        with warnings.catch_warnings():  # of sizes that become numbers, and of the end of TorchScript
            warnings.simplefilter("ignore")
            return make()
    except Exception as error:  # whatever a torch without TorchScript raises: the module does the same, slower
        logger.debug(f"not by TorchScript: {error}")
        return module


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
    logger.warning(f"--decoding-precision {precision}: {what}")
