"""Kernel launches and waits of the host of a training step, counted without a GPU: the section ``launches``.

Models and batches are on torch's ``meta`` device, whose tensors have shapes and no numbers. The plugin computes there
what it computes on a GPU, and a dispatch mode sees every operation of the forward and of the backward pass. An
operation counts as one launch, except views and allocations. The host waits where it reads a number or a shape that
the device computes, and where it copies memory from or to the device.

torch has no kernels of cuDNN and no fused cells for this device; stand-ins with the same shapes count as one launch.
"""

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Optional
from unittest import mock

import torch
from benchmark.measure import table
from benchmark.models import Tick
from benchmark.systems import SOFT, STOCK, UNFED, MemoryTask, Sizes, Spec, System, make_batch
from torch import Tensor
from torch.autograd import Function
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_attn_plugin.attention import index_rows
from fairseq_attn_plugin.ops.precision import products_in

SYSTEMS = (STOCK, SOFT, "lstm_adm", "lstm_adm_aqt", "lstm_soft:attention=structured", UNFED)
META = torch.device("meta")
ROOT = Path(__file__).resolve().parents[2]
aten = torch.ops.aten
FREE = ("empty", "prim::", "detach", "alias", "lift_fresh", "_local_scalar_dense", "new_empty", "resize", "set_")
# Operations whose result has a shape that the device computes.
SHAPES = {aten.nonzero.default, aten.masked_select.default, aten._unique2.default, aten.unique_consecutive.default}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}


class Launches(TorchDispatchMode):
    """Counts what runs inside it.

    Args:
        length: what numbers that are copied to the host are taken for

    Attributes:
        operations: number of launches by operation
        waits: number of waits by the line of the repository that asked for them
    """

    def __init__(self, length: int = 1) -> None:
        super().__init__()
        self.length = length
        self.operations: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return sum(self.operations.values())

    def wait(self) -> None:
        frames = [f for f in traceback.extract_stack() if f.filename.startswith(str(ROOT / "fairseq_attn_plugin"))]
        where = frames[-1] if frames else traceback.extract_stack()[-3]
        self.waits[f"{Path(where.filename).name}:{where.lineno}  {where.line}"] += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[dict[str, Any]] = None) -> Any:
        kwargs = kwargs or {}
        tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        on_device = any(x.device == META for x in tensors) or kwargs.get("device") == META
        if not on_device:
            return func(*args, **kwargs)
        name = func._schema.name.split("::")[-1]
        if func == aten._local_scalar_dense.default:
            self.wait()
            return False if args[0].dtype == torch.bool else 1.0 if args[0].dtype.is_floating_point else 1
        if func in SHAPES or (func in INDEXING and _boolean(args[1]) and not _fills(func, args)):
            self.wait()
            if func == aten.nonzero.default:
                return torch.empty(args[0].numel(), args[0].dim(), dtype=torch.long, device=META)
        if func in (aten._to_copy.default, aten.copy_.default):
            target = torch.device(kwargs.get("device") or args[0].device)
            if len({target.type, *(x.device.type for x in tensors)}) > 1:
                self.wait()
                if target.type == "cpu":
                    like = args[0]  # lengths, which stock's encoder packs by: all are as long as the batch is
                    return torch.full(like.shape, self.length, dtype=kwargs.get("dtype") or like.dtype)
        if func == aten.lift_fresh.default and not isinstance(args[0], torch.nn.Parameter):
            self.wait()  # numbers of Python, copied to the device
        if not (func.is_view or name.startswith(FREE) or name == "_unsafe_view"):
            # a matrix that is added to a product is copied before the product is added to it
            self.operations[name] += 2 if name in ("addmm", "baddbmm") and args[0].dim() > 1 else 1
        stand_in = _STAND_INS.get(name)
        return func(*args, **kwargs) if stand_in is None else stand_in(*args, **kwargs)


def _fills(func: Any, args: Any) -> bool:
    """Whether torch writes one number where a mask is True, without looking for these places."""
    return func != aten.index.Tensor and len(args[1]) == 1 and args[2].numel() == 1


def _boolean(index: Any) -> bool:
    return any(isinstance(x, Tensor) and x.dtype in (torch.bool, torch.uint8) for x in index)


def _lstm_cell(gates: Tensor, others: Tensor, cell: Tensor, *biases: Any) -> tuple[Tensor, ...]:
    return cell.new_empty(cell.shape), cell.new_empty(cell.shape), gates.new_empty(gates.shape)


def _lstm_cell_backward(d_hidden: Any, d_cell: Any, cell: Tensor, new: Tensor, work: Tensor, has_bias: bool) -> Any:
    gates = work.new_empty(work.shape)
    return gates, cell.new_empty(cell.shape), gates.new_empty(gates.size(1))


_STAND_INS: Mapping[str, Any] = {
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_standard_gamma_grad": lambda x, drawn: torch.empty_like(x),
}


class _CuDNN(Function):
    """The shapes of a layer of cuDNN: one launch forward, one backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shapes: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.like = (x, *weights)
        result = x.sum()  # counted as the launch
        return tuple(result.new_empty(shape) for shape in shapes)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        ctx.like[0].sum()
        x, *weights = (one.new_empty(one.shape) for one in ctx.like)
        return (x, None, *weights)


def _rnn(kind: str) -> Any:
    """``torch.lstm`` or ``torch.gru`` of a padded or of a packed batch."""

    def run(x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        packed = isinstance(rest[0], Tensor) and rest[0].dim() == 1  # the sizes of the steps
        states, weights, bidirectional = (rest[1], rest[2], rest[7]) if packed else (rest[0], rest[1], rest[6])
        first = states[0] if isinstance(states, (tuple, list)) else states
        out = (*x.shape[:-1], first.size(-1) * (2 if bidirectional else 1))
        shapes = [out, *([tuple(first.shape)] * (2 if kind == "lstm" else 1))]
        return _CuDNN.apply(x, shapes, *weights)

    return run


def _stock_cell(module: torch.nn.LSTMCell, x: Tensor, states: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    gates, others = x @ module.weight_ih.t(), states[0] @ module.weight_hh.t()
    hidden, cell, _ = aten._thnn_fused_lstm_cell(gates, others, states[1], module.bias_ih, module.bias_hh)
    return hidden, cell


def _native_dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return aten.native_dropout(x, p, True)[0] if training and p > 0 else x


@contextmanager
def as_on_a_gpu(length: int = 1) -> Iterator[Launches]:
    """A context in which torch does on the meta device what it does on a GPU, and in which launches are counted."""
    patches = [
        mock.patch("torch.nn.functional.dropout", _native_dropout),
        mock.patch.object(torch.nn.LSTMCell, "forward", _stock_cell),
        *(mock.patch.object(where, kind, _rnn(kind)) for where in (torch, torch._VF) for kind in ("lstm", "gru")),
    ]
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield stack.enter_context(Launches(length))


def training_step(criterion: Any, model: torch.nn.Module, batch: Any) -> Launches:
    """What one training step does; a step before it fills caches."""
    for _ in range(2):
        with as_on_a_gpu(batch["net_input"]["src_tokens"].size(1)) as counted:
            loss = criterion(model, batch)[0]
            loss.backward()
        model.zero_grad()
    return counted


@torch.no_grad()
def search_step(model: Any, inputs: Any, beam: int = 10) -> int:
    """Launches of the decoder in a step of beam search, and of putting its states in the order of the hypotheses."""
    sentences = torch.arange(len(inputs["src_tokens"]), device=META).repeat_interleave(beam)
    stock = not hasattr(model.decoder, "remember")
    state: dict[str, Any] = {}
    with as_on_a_gpu(inputs["src_tokens"].size(1)):
        encoded = model.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])
        if stock:
            encoded = model.encoder.reorder_encoder_out(encoded, sentences)
        else:  # the hypotheses of a sentence share its encodings
            encoded["rows"] = sentences
    for size in (1, 2):
        with as_on_a_gpu() as counted:
            tokens = sentences.new_zeros(len(sentences), size)
            model.decoder(tokens, encoder_out=encoded, incremental_state=state)
            if stock:
                model.decoder.reorder_incremental_state_scripting(state, sentences)
            else:
                for progress in state.values():
                    index_rows(progress.state, sentences)
    return counted.total - 1  # the words


def count(spec: Spec, sizes: Sizes, tokens: int, length: int) -> dict[str, Any]:
    """Launches of a system by part, and the waits of its training step."""
    system = System(spec, sizes, MemoryTask(sizes.vocab), META, seed=1, optimizer="none")
    batch = make_batch(system.task, length, tokens, 1, META)
    inputs = batch["net_input"]
    step = training_step(system.criterion, system.model, batch)
    with products_in(torch.float32):  # as in the forward pass of a model
        with as_on_a_gpu(inputs["src_tokens"].size(1)) as encoder:
            encoded = system.model.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])
        with as_on_a_gpu() as decoder:
            system.model.decoder(inputs["prev_output_tokens"], encoder_out=encoded)
    return {
        "encoder": encoder.total,
        "decoder": decoder.total,
        "step": step.total,
        "search": search_step(system.model.eval(), inputs),
        "waits": dict(step.waits),
        "operations": dict(decoder.operations.most_common()),
    }


def measure(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    lengths = settings["lengths"]
    length = lengths[len(lengths) // 2]
    systems = {}
    for name in settings["launches_archs"]:
        tick(f"launches {name}")
        systems[name] = count(Spec.parse(name), Sizes(**settings["sizes"]), settings["tokens"], length)
    return {"length": length, "systems": systems}


def tables(report: Mapping[str, Any]) -> list[str]:
    section = report["sections"]["launches"]
    rows, waits = [], set()
    for name, found in section["systems"].items():
        counts = (f"{found[part]:,}" for part in ("encoder", "decoder", "step", "search"))
        rows.append([f"`{name}`", *counts, str(sum(found["waits"].values()))])
        waits |= {f"{name}: {line}" for line in found["waits"]}
    return [
        "## Launches on a GPU, counted without one",
        f"Batches of {report['settings']['tokens']} source tokens, N = {section['length']}. Forward pass of the "
        "encoder and of the decoder; a training step without optimizer, forward and backward; the decoder in a step of "
        "beam search, beam 10, with its states put in order; the host's waits in a training step.",
        table(["system", "encoder", "decoder", "training step", "search step", "waits"], rows),
        *(f"- {line}" for line in sorted(waits)),
    ]
