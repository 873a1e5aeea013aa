"""The two graphs of an exported translation model: its own encoder and decoder, as functions of tensors.

    EncoderGraph   source [B, N] -> memory (once per sentence), state before the first step [B, 1, ...]
    StepGraph      words [B, K], position, memory, state [B, K, ...] -> log p [B, K, V], weights [B, K, N], new state

B sentences have K hypotheses each. The memory is what a step reads of the source; its tensors and those of the state
have names, since a graph has no tuples. Where the modules have a form for graphs, they take it while one is recorded
(:mod:`fairseq_attn_plugin.ops.devices`).
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from torch import Tensor, nn

from ...attention import map_tensors
from ...modules.decoder_state import Progress
from ...modules.latent.latent_decoder import LatentDecoder
from ...modules.recurrent_decoder import POSITION, PROGRESS
from ...modules.source_memory import SourceMemory
from ...ops.likelihoods.separable import shared_exponentials
from ..stepper import with_tensors

__all__ = ["EncoderGraph", "Memory", "StepGraph", "named_tensors"]


class Memory(NamedTuple):
    """What a step reads of the source: tensors of B sentences, of the encoder and of the decoder."""

    encodings: Tensor
    pad_mask: Optional[Tensor]  # for a latent alignment
    tokens: Optional[Tensor]  # for a lexicon, and for copies
    attention: Any
    projected: Optional[Tensor]
    exponentials: Any


def named_tensors(tensors: Any, prefix: str) -> Dict[str, Tensor]:
    """The tensors of a memory or state, by names such as ``memory.attention.keys``."""
    if tensors is None:
        return {}
    if isinstance(tensors, Tensor):
        return {prefix: tensors}
    names = getattr(tensors, "_fields", range(len(tensors)))
    found: Dict[str, Tensor] = {}
    for name, part in zip(names, tensors):
        found.update(named_tensors(part, f"{prefix}.{name}"))
    return found


class EncoderGraph(nn.Module):
    """The encoder, what the decoder computes of the source alone, and the decoder's first state.

    Args:
        model: of the ``attn_lstm`` family, in evaluation mode, with attention in the form for export
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """The tensors of memory and state, in the order of :func:`named_tensors`."""
        memory, progress = self.start(source)
        return (*named_tensors(memory, "").values(), *named_tensors(progress.state, "").values())

    def start(self, source: Tensor) -> Tuple[Memory, Progress]:
        """What a step of ``source`` ``[B, N]`` reads; the state has a dimension of hypotheses, ``[B, 1, ...]``."""
        out = self.encoder(source)
        progress = self.decoder.start(out, True)
        _, attention, projected, exponentials = progress.memory
        if exponentials is not None:  # in float64, where sums need no second way: those of float32 may lose all words
            exponentials = shared_exponentials(self.decoder.logits_of(out["encodings"]).double())
        memory = Memory(
            out["encodings"],
            out["pad_mask"] if isinstance(self.decoder, LatentDecoder) else None,
            out["tokens"] if self.decoder.lexicon.active or self.decoder.copying is not None else None,
            *(attention, projected, exponentials),
        )
        return memory, progress._replace(state=map_tensors(lambda x: x.unsqueeze(1), progress.state))


class StepGraph(nn.Module):
    """One step of the decoder for K hypotheses of B sentences.

    Args:
        decoder: of the model
        memory, progress: a result of :meth:`EncoderGraph.start`, for the structure of the tuples
    """

    def __init__(self, decoder: nn.Module, memory: Memory, progress: Progress):
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
        memory, state = with_tensors((self.memory, self.progress.state), tensors)
        encodings, pad_mask, tokens, *of_decoder = memory
        source = SourceMemory(self.progress.memory.rows, *of_decoder)
        rows = map_tensors(lambda x: x.flatten(0, 1), state)
        incremental: Dict[str, Any] = {POSITION: position}
        progress = Progress(rows, source, list(self.buffers(recurse=False)))
        decoder.set_incremental_state(incremental, PROGRESS, progress)
        out = {"encodings": encodings, "pad_mask": pad_mask, "tokens": tokens}
        decoded, _ = decoder.decode(words.reshape(-1, 1), out, incremental)
        found = decoder.words_of(decoded, source, out)
        log_probs = found if decoder.returns_log_probs else found.log_softmax(-1)
        weights = () if decoder.attention is None else (decoded.weights,)
        sizes, new = words.shape, named_tensors(decoded.state, "").values()
        by_step = (x.reshape(*sizes, *x.shape[2:]) for x in (log_probs, *weights))
        return (*by_step, *(x.reshape(*sizes, *x.shape[1:]) for x in new))
