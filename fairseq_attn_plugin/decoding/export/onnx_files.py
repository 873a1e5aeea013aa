"""Writes the graphs of a translation model as ONNX files.

- ``encoder.onnx`` reads source [B, N] and returns memory.* and state.*
- ``step.onnx`` reads words [B, K], position [1], candidates [1], memory.* and state.*; it returns log_probs [B, K, V],
  the best of them as best_log_probs and best_words [B, K, candidates], weights [B, K, N] of models with attention, and
  next.*
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import OptionError
from .exported_folder import MOST_ROUNDS, ROUNDS, flaw_of
from .onnx_graphs import EncoderGraph, StepGraph, named_tensors

__all__ = ["ENCODER", "STEP", "bound_loops", "quantize", "write_graphs"]

ENCODER, STEP = "encoder.onnx", "step.onnx"
OPSET = 17

Axes = Dict[int, str]


@torch.no_grad()
def write_graphs(model: nn.Module, folder: Path) -> None:
    """Writes both graphs in float32.

    Args:
        model: of the ``attn_lstm`` family, on the CPU
        folder: exists

    Raises:
        OptionError: the model cannot be recorded, for example because ONNX lacks one of its operations
    """
    import onnx

    attention = model.decoder.attention
    if attention is not None:
        model.decoder.attention = attention.for_export()
    try:
        _write_both(model, folder)
    finally:
        model.decoder.attention = attention
    for path in (folder / ENCODER, folder / STEP):
        proto = onnx.load(str(path))
        if path.name == STEP:
            _add_candidates(proto)
        bound_loops(proto)
        onnx.checker.check_model(proto)
        onnx.save(proto, str(path))
        flaw = flaw_of(memoryview(path.read_bytes()))
        if flaw:
            raise OptionError(f"{path.name}: the graph {flaw}; a loop must have no loop within")


def _write_both(model: nn.Module, folder: Path) -> None:
    graph = EncoderGraph(model)
    # Two batches of different sizes show which dimensions vary.
    starts = [graph.start(_sources(model, batch, length)) for batch, length in ((3, 7), (2, 5))]
    memory, other = (named_tensors(start[0], "memory") for start in starts)
    state, other_state = (named_tensors(start[1].state, "state") for start in starts)
    axes = {name: _varying(x, {**other, **other_state}[name]) for name, x in {**memory, **state}.items()}
    _write(graph, (_sources(model, 3, 7),), folder / ENCODER, ["source"], [*memory, *state], {"source": "BN", **axes})

    hypotheses = 4
    words = torch.full((3, hypotheses), model.decoder.dictionary.eos())
    state = {name: x.expand(x.size(0), hypotheses, *x.shape[2:]).contiguous() for name, x in state.items()}
    step = StepGraph(model.decoder, *starts[0])
    new = ["next" + name[len("state") :] for name in state]
    weights = [] if model.decoder.attention is None else ["weights"]
    state_axes = {name: {**axes[name], 1: "K"} for name in state}
    _write(
        step,
        (words, torch.tensor([1]), *memory.values(), *state.values()),
        folder / STEP,
        ["words", "position", *memory, *state],
        ["log_probs", *weights, *new],
        {
            "words": "BK",
            "log_probs": "BK",
            **({"weights": "BKN"} if weights else {}),
            **{name: axes[name] for name in memory},
            **state_axes,
            **dict(zip(new, state_axes.values())),
        },
    )


def _sources(model: nn.Module, batch: int, length: int) -> Tensor:
    """Source sentences padded on the right."""
    source = torch.full((batch, length), model.encoder.dictionary.eos())
    for row in range(1, batch):
        source[row, length - row :] = model.encoder.padding_idx
    return source


def _varying(one: Tensor, other: Tensor) -> Axes:
    names = {0: "B"}
    return {axis: names.get(axis, "N") for axis in range(one.dim()) if one.size(axis) != other.size(axis)}


def _write(
    module: nn.Module,
    inputs: Tuple[Tensor, ...],
    path: Path,
    input_names: List[str],
    output_names: List[str],
    axes: Dict[str, Any],
) -> None:
    # The recorder of torch before torch.export: it records the operations of one batch, with all sizes as variables.
    # It takes an LSTM as a whole, seconds where the other takes half a minute, and needs no further package.
    with _quiet():
        try:
            torch.onnx.export(
                module.eval(),
                inputs,
                str(path),
                input_names=input_names,
                output_names=output_names,
                dynamic_axes={
                    name: dict(enumerate(axis)) if isinstance(axis, str) else axis for name, axis in axes.items()
                },
                opset_version=OPSET,
                dynamo=False,
            )
        except (RuntimeError, torch.onnx.errors.OnnxExporterError) as error:
            reason = " ".join(str(error).split())[:200]
            stock = getattr(getattr(module, "encoder", None), "stock", None)  # of --encoder-arch
            what = "model" if stock is None else f"encoder (fairseq's {type(stock).__name__})"
            raise OptionError(f"{path.name}: the {what} cannot be recorded as ONNX: {reason}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the recorder's remarks on constants, of which :mod:`.onnx_check` makes sure, in Python and in C++."""
    level = logging.root.manager.disable
    sys.stderr.flush()
    stderr = os.dup(2)
    with warnings.catch_warnings(), open(os.devnull, "wb") as nothing:
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        os.dup2(nothing.fileno(), 2)
        try:
            yield
        finally:
            logging.disable(level)
            os.dup2(stderr, 2)
            os.close(stderr)


def _add_candidates(proto: Any) -> None:
    """Adds the ``candidates`` most probable words to the outputs: a search reads these, not V numbers a hypothesis."""
    from onnx import TensorProto, helper

    graph, best = proto.graph, ["best_log_probs", "best_words"]
    graph.node.append(helper.make_node("TopK", ["log_probs", "candidates"], best, axis=-1))
    graph.input.append(helper.make_tensor_value_info("candidates", TensorProto.INT64, [1]))
    for name, kind in zip(best, (TensorProto.FLOAT, TensorProto.INT64)):
        graph.output.append(helper.make_tensor_value_info(name, kind, ["B", "K", "candidates"]))


def bound_loops(proto: Any) -> None:
    """Gives every loop of a model a greatest number of rounds, so that who reads the graph knows that it ends."""
    from onnx import helper, numpy_helper

    graph, name = proto.graph, ROUNDS.decode()
    nodes: List[Any] = []
    for node in graph.node:
        if node.op_type == "Loop":
            nodes.append(helper.make_node("Min", [node.input[0], name], [f"{name}.{len(nodes)}"]))
            node.input[0] = nodes[-1].output[0]
        nodes.append(node)
    if len(nodes) > len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes)
        graph.initializer.append(numpy_helper.from_array(np.array(MOST_ROUNDS), name))


def quantize(folder: Path) -> None:
    """Changes the matrix products with weights of both graphs to int8: weights by output column, once and for all, what
    they multiply at every call by its own range. Embeddings, the encoder's LSTM and products with one vector stay in
    float32: onnxruntime has no such products in int8."""
    import onnx
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    for name in (ENCODER, STEP):
        exact = folder / f"{name}.float32"
        (folder / name).rename(exact)
        graph = onnx.load(str(exact)).graph
        vectors = {weight.name for weight in graph.initializer if len(weight.dims) == 1}
        with _quiet():
            quantize_dynamic(
                str(exact),
                str(folder / name),
                op_types_to_quantize=["MatMul"],
                nodes_to_exclude=[node.name for node in graph.node if vectors.intersection(node.input)],
                per_channel=True,
                weight_type=QuantType.QInt8,
                extra_options={"DefaultTensorType": TensorProto.FLOAT},
            )
        exact.unlink()
