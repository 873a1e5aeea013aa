"""The two graphs of an exported translation model: its own encoder and decoder, written as ONNX files.

    encoder.onnx   source [B, N] -> memory.* (once per sentence), state.* before the first step [B, 1, ...]
    step.onnx      words [B, K], position [1], candidates [1], memory.*, state.* [B, K, ...]
                   -> log_probs [B, K, V], the best of them as best_log_probs and best_words [B, K, candidates],
                   weights [B, K, N] of models with attention, next.*

B sentences have K hypotheses each. The memory is what a step reads of the source; its tensors and those of the state
have names, since a graph has no tuples. Where the modules have a form for graphs, they take it while one is recorded
(:mod:`fairseq_attn_plugin.ops.devices`).
"""

import contextlib
import itertools
import logging
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from ...attention import map_tensors
from ...errors import OptionError
from ...modules.decoder_state import Progress
from ...modules.latent.latent_decoder import LatentDecoder
from ...modules.recurrent_decoder import POSITION, PROGRESS
from ...modules.source_memory import SourceMemory
from ...ops.likelihoods.separable import shared_exponentials
from ..stepper import with_tensors
from .exported_folder import MOST_ROUNDS, ROUNDS, flaw_of

ENCODER, STEP = "encoder.onnx", "step.onnx"
OPSET = 17


def named_tensors(tensors: Any, prefix: str) -> Dict[str, Tensor]:
    """The tensors of a memory or state, by names such as ``memory.1.keys``."""
    if tensors is None:
        return {}
    if isinstance(tensors, Tensor):
        return {prefix: tensors}
    if not isinstance(tensors, dict):
        tensors = dict(zip(getattr(tensors, "_fields", itertools.count()), tensors))
    found: Dict[str, Tensor] = {}
    for name, part in tensors.items():
        found.update(named_tensors(part, f"{prefix}.{name}"))
    return found


class EncoderGraph(nn.Module):
    """The encoder, what the decoder computes of the source alone, and the decoder's first state. The model is in
    evaluation mode, with its attention in the form for export."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """The tensors of memory and state, in the order of :func:`named_tensors`."""
        memory, progress = self.start(source)
        return (*named_tensors(memory, "").values(), *named_tensors(progress.state, "").values())

    def start(self, source: Tensor) -> Tuple[Any, Progress]:
        """What a step of ``source`` ``[B, N]`` reads, of the encoder and of the decoder, and the state before the first
        step, which has a dimension of hypotheses, ``[B, 1, ...]``."""
        out = self.encoder(source)
        progress = self.decoder.start(out, True)
        of_decoder = progress.memory
        if of_decoder.exponentials is not None:
            # in float64, where sums need no second way: those of float32 may lose all words
            exponentials = shared_exponentials(self.decoder.logits_of(out["encodings"]).double())
            of_decoder = of_decoder._replace(exponentials=exponentials)
        copies = self.decoder.lexicon.active or self.decoder.copying is not None
        of_encoder = {
            "encodings": out["encodings"],
            "pad_mask": out["pad_mask"] if isinstance(self.decoder, LatentDecoder) else None,
            "tokens": out["tokens"] if copies else None,
        }
        state = map_tensors(lambda x: x.unsqueeze(1), progress.state)
        return (of_encoder, *of_decoder[1:]), progress._replace(state=state)


class StepGraph(nn.Module):
    """One step of the decoder for K hypotheses of B sentences.

    Args:
        decoder: of the model
        memory, progress: a result of :meth:`EncoderGraph.start`, for the structure of the tuples
    """

    def __init__(self, decoder: nn.Module, memory: Any, progress: Progress):
        super().__init__()
        self.decoder, self.memory, self.progress = decoder, memory, progress
        for number, weight in enumerate(progress.weights):
            self.register_buffer(f"weight{number}", weight.detach())

    def forward(self, words: Tensor, position: Tensor, *tensors: Tensor) -> Tuple[Tensor, ...]:
        """log p ``[B, K, V]``, the weights ``[B, K, N]`` where there is attention, and the tensors of the new state.

        Args:
            words: ``[B, K]``, the last word of every hypothesis
            position: ``[1]``, the number of the step, from 0
            tensors: of memory and state, in the order of :func:`named_tensors`
        """
        decoder: Any = self.decoder
        (of_encoder, *of_decoder), state = with_tensors((self.memory, self.progress.state), tensors)
        source = SourceMemory(self.progress.memory.rows, *of_decoder)
        rows = map_tensors(lambda x: x.flatten(0, 1), state)
        incremental: Dict[str, Any] = {POSITION: position}
        progress = Progress(rows, source, list(self.buffers(recurse=False)))
        decoder.set_incremental_state(incremental, PROGRESS, progress)
        decoded, _ = decoder.decode(words.reshape(-1, 1), of_encoder, incremental)
        found = decoder.words_of(decoded, source, of_encoder)
        log_probs = found if decoder.returns_log_probs else found.log_softmax(-1)
        weights = () if decoder.attention is None else (decoded.weights,)
        sizes, new = words.shape, named_tensors(decoded.state, "").values()
        by_step = (x.reshape(*sizes, *x.shape[2:]) for x in (log_probs, *weights))
        return (*by_step, *(x.reshape(*sizes, *x.shape[1:]) for x in new))


@torch.no_grad()
def write_graphs(model: nn.Module, folder: Path) -> None:
    """Writes both graphs of a model of the ``attn_lstm`` family, which is on the CPU, in float32.

    Raises:
        OptionError: the model cannot be recorded, for example because ONNX lacks one of its operations
    """
    import onnx

    attention = model.decoder.attention
    model.decoder.attention = None if attention is None else attention.for_export()
    try:
        _write_both(model, folder)
    finally:
        model.decoder.attention = attention
    for path in (folder / ENCODER, folder / STEP):
        proto = onnx.load(str(path))
        if path.name == STEP:
            _add_candidates(proto)
        bound_loops(proto)
        onnx.save(proto, str(path))
        flaw = flaw_of(memoryview(path.read_bytes()))
        if flaw:
            raise OptionError(f"{path.name}: the graph {flaw}; a loop must have no loop within")


def _write_both(model: nn.Module, folder: Path) -> None:
    graph, generator = EncoderGraph(model), torch.Generator().manual_seed(1)
    # Two batches of different sizes show which dimensions vary.
    sources = [random_sources(model, batch, length, generator) for batch, length in ((3, 6), (2, 4))]
    (memory, progress), (other_memory, other_progress) = map(graph.start, sources)
    tensors = {**named_tensors(memory, "memory"), **named_tensors(progress.state, "state")}
    others = {**named_tensors(other_memory, "memory"), **named_tensors(other_progress.state, "state")}
    axes: Dict[str, Any] = {
        name: {axis: "N" if axis else "B" for axis in range(x.dim()) if x.size(axis) != others[name].size(axis)}
        for name, x in tensors.items()
    }
    _write(graph, sources[:1], folder / ENCODER, ["source"], [*tensors], {"source": "BN", **axes})

    hypotheses, new = 4, []
    for name, x in tensors.items():
        if name.startswith("state"):
            new.append("next" + name[len("state") :])
            tensors[name] = x.expand(x.size(0), hypotheses, *x.shape[2:]).contiguous()
            axes[name] = axes[new[-1]] = {**axes[name], 1: "K"}
    words = torch.full((3, hypotheses), model.decoder.dictionary.eos())
    weights = [] if model.decoder.attention is None else ["weights"]
    axes = {"words": "BK", "log_probs": "BK", **dict.fromkeys(weights, "BKN"), **axes}
    given = (words, torch.tensor([1]), *tensors.values())
    names = ["words", "position", *tensors]
    _write(StepGraph(model.decoder, memory, progress), given, folder / STEP, names, ["log_probs", *weights, *new], axes)


def random_sources(model: nn.Module, sentences: int, longest: int, generator: torch.Generator) -> Tensor:
    """Sentences ``[B, longest + 1]`` of different lengths, padded on the right."""
    dictionary = model.encoder.dictionary
    source = torch.randint(dictionary.nspecial, len(dictionary), (sentences, longest + 1), generator=generator)
    for row in range(sentences):
        length = max(longest - row, 0)  # the last of many sentences may have the end alone
        source[row, length], source[row, length + 1 :] = dictionary.eos(), dictionary.pad()
    return source[torch.randperm(sentences, generator=generator)]


def _write(
    module: nn.Module,
    inputs: Sequence[Tensor],
    path: Path,
    input_names: Sequence[str],
    output_names: Sequence[str],
    axes: Dict[str, Any],
) -> None:
    # The recorder of torch before torch.export: it records the operations of one batch, with all sizes as variables.
    # It takes an LSTM as a whole, seconds where the other takes half a minute, and needs no further package.
    with _quiet():
        try:
            torch.onnx.export(
                module.eval(),
                tuple(inputs),
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
    """Without remarks on constants, which the comparison of :mod:`.onnx_folder` would find if they were wrong, and
    without the text of a graph that cannot be written."""
    level, log = logging.root.manager.disable, torch._C._jit_set_onnx_log_enabled
    logging.disable(logging.WARNING)
    torch._C._jit_set_onnx_log_enabled = lambda on: None  # torch.onnx.export switches this log on
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        torch._C._jit_set_onnx_log_enabled = log


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

    most, loops = ROUNDS.decode(), [node for node in proto.graph.node if node.op_type == "Loop"]
    for number, node in enumerate(loops):
        least = helper.make_node("Min", [node.input[0], most], [f"{most}.{number}"])
        proto.graph.node.insert(list(proto.graph.node).index(node), least)
        node.input[0] = least.output[0]
    if loops:
        proto.graph.initializer.append(numpy_helper.from_array(np.array(MOST_ROUNDS), most))


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
