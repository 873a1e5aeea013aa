"""The search on a GPU: its steps are replayed as a CUDA graph.

A step is a hundred small kernels, which a GPU works through faster than Python launches them. A graph holds all kernels
of a step, from the last words to the next ones, and one call launches it. It has fixed shapes and reads and writes at
fixed places (:class:`Places`). So no sentence leaves the batch before the search ends, and what a step finds is written
to buffers of :data:`EVERY` steps. Only when these are full does the host read them, and see whether all sentences are
finished. A graph stays for further batches with as many sentences and source positions.

The first step, which has one row for each sentence, and the last one are those of
:class:`~fairseq_attn_plugin.decoding.search.Search`. The hypotheses are the same.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..attention import map_tensors
from ..errors import first_cause
from ..modules.latent.latent_decoder import LatentDecoder
from ..ops.devices import end_capture
from .search import Candidates, Search
from .stepper import ModelStepper, tensors_of

logger = logging.getLogger(__name__)

EVERY = 4  # steps from one look of the host at the results to the next
MULTIPLE = 8  # source positions of a batch, so that few shapes occur
MOST_GRAPHS = 32


class Places(NamedTuple):
    """Where a step reads and writes, for S sentences and R = S * beam rows."""

    tokens: Tensor  # [R], the last words
    scores: Tensor  # [S, beam]
    ignored: Tensor  # [S, beam], hypotheses that have ended and have no successor
    count: Tensor  # [S], finished hypotheses
    step: Tensor  # [1]
    turn: Tensor  # [1], the place of the step in the buffers
    end: Tensor  # [], added to log p of the end of the sentence: -inf where none may end yet
    # What EVERY steps have found, one after another: parents, words and scores [R] of the rows that go on; which
    # candidates are finished hypotheses, the rows that they end and their scores [S, beam]; weights [R, N] or None.
    found: Tuple[Optional[Tensor], ...]
    models: Tuple[Any, ...]  # the states of the steppers


def can_replay(steppers: Any, options: Any, net_input: Dict[str, Any], prefix: Optional[Tensor]) -> bool:
    """Whether a batch is searched by :class:`ReplayedSearch`: not where a step asks for numbers of the device, as a
    latent alignment does, for its kind of prediction and to see whether sums of exponentials are safe, and on the
    current device only, whose kernels a capture records."""
    device = net_input["src_tokens"].device
    return (
        device.type == "cuda"
        and device.index == torch.cuda.current_device()
        and not any(isinstance(stepper.decoder, LatentDecoder) for stepper in steppers)
        and prefix is None
        and options.sampling is None
        and not (options.no_repeat or options.eos_norm)
    )


def copies_of(state: Any) -> Any:
    """The state with copies of all tensors."""
    return map_tensors(lambda tensor: tensor.clone(memory_format=torch.contiguous_format), state)


class Graphs:
    """The graphs of a generator, by the shapes of their tensors.

    Attributes:
        off: whether a capture has failed
    """

    def __init__(self) -> None:
        self.steps: Dict[Hashable, Tuple[Any, Places, Search]] = {}
        self.off = False

    def failed(self, problem: BaseException) -> None:
        logger.warning(
            f"a step of the search cannot be captured as a CUDA graph ({first_cause(problem)}); translation goes on "
            "without graphs"
        )
        self.off = True
        self.steps.clear()
        end_capture()

    def replaying(self, search: ReplayedSearch, places: Places) -> Tuple[Any, Places]:
        """A graph of the search's step and its places, which have the numbers of ``places``."""
        given = tensors_of(places)
        shape = tuple((tensor.shape, tensor.dtype) for tensor in given)
        if shape not in self.steps:
            if len(self.steps) == MOST_GRAPHS:
                del self.steps[next(iter(self.steps))]
            own = copies_of(places)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # once without a graph, which loads what a capture must not load
                search.replayed_step(own)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            # The first capture makes tensors that torch keeps for all others, those of a training too.
            capture = torch.cuda.graph(graph, capture_error_mode="thread_local")
            with torch.inference_mode(False), capture, torch.inference_mode():
                search.replayed_step(own)
            self.steps[shape] = graph, own, search  # whose other tensors the graph reads
        graph, own, _ = self.steps[shape]
        for place, tensor in zip(tensors_of(own), given):
            place.copy_(tensor)
        return graph, own


class ReplayedSearch(Search):
    """A :class:`~fairseq_attn_plugin.decoding.search.Search` whose steps are replayed by graphs of its generator."""

    def __init__(
        self,
        graphs: Graphs,
        steppers: Sequence[ModelStepper],
        net_input: Dict[str, Any],
        options: Any,
        max_len: int,
        first: int,
    ):
        source, pad = net_input["src_tokens"], options.pad
        size, more = source.size(1), -source.size(1) % MULTIPLE
        left = bool(source[:, 0].eq(pad).any()) or not bool(source[:, -1].eq(pad).any())
        source = F.pad(source, (more, 0) if left else (0, more), value=pad)
        super().__init__(steppers, {**net_input, "src_tokens": source}, options, max_len, first)
        self.graphs = graphs
        self.positions = slice(more, None) if left else slice(size)  # without the padding to a MULTIPLE

    @torch.inference_mode()
    def run(self) -> None:
        found, ends, first = self._step(0)
        self._add(found, first, 0)
        if self.max_len == 0:
            return
        graph, places = self.graphs.replaying(self, self._places(found, ends))
        step = 1
        while step < self.max_len:
            turns = min(EVERY, self.max_len - step)
            places.turn.zero_()
            for turn in range(turns):
                if step + turn <= self.options.min_len:  # it is zero from the beginning
                    places.end.fill_(-math.inf if step + turn < self.options.min_len else 0.0)
                graph.replay()
            self._read(copies_of(places.found), turns, step)
            step += turns
            if bool((places.count >= self.beam).all()):
                return
        self._enter(places)
        found, _, first = self._step(step)
        self._add(found, first, step)

    def hypotheses(self) -> List[List[Dict[str, Any]]]:
        self.seen.weights = [weights[:, self.positions] for weights in self.seen.weights]
        return super().hypotheses()

    def replayed_step(self, places: Places) -> None:
        """One step from the places to the places, without a wait of the host."""
        beam = self.beam
        self._enter(places)
        log_probs, weights = self.log_probs(places.tokens, places.step)
        self.constraints.apply(log_probs, None)
        log_probs[:, self.options.eos] += places.end
        found = self._candidates(log_probs, 1, None)
        ends, first = self._ends(found)
        count = places.count + first.sum(1)
        results = [first, found.parents[:, :beam], found.scores[:, :beam], weights]
        scores, parents, words = (part[:, :beam] for part in self._without_ends(found, ends))
        results = [parents.reshape(-1), words.reshape(-1), scores.reshape(-1), *results]
        for buffer, result in zip(places.found, results):
            if buffer is not None:
                buffer.index_copy_(0, places.turn, result.to(buffer.dtype).unsqueeze(0))
        self.select(results[0], None)
        assert self.ignored is not None
        new = [results[1], scores, self.ignored, count, *tensors_of(self.states)]
        for place, value in zip([*places[:4], *tensors_of(places.models)], new):
            if place is not value:
                place.copy_(value)
        places.step.add_(1)
        places.turn.add_(1)

    def _enter(self, places: Places) -> None:
        self.tokens, self.scores, self.ignored = places.tokens, places.scores, places.ignored
        self.states = list(places.models)

    def _places(self, found: Candidates, ends: Tensor) -> Places:
        """The places after the first step, from its candidates."""
        beam, first = self.beam, ends[:, : self.beam].clone()
        self._advance(self._without_ends(found, ends), None)
        assert self.scores is not None
        rows = (self.seen.parents[0], self.tokens, self.seen.scores[0])
        weights = self.seen.weights[0].repeat_interleave(beam, 0) if self.seen.weights else None
        parts = [*rows, first, found.parents[:, :beam], found.scores[:, :beam], weights]
        buffers = (None if part is None else part.expand(EVERY, *part.shape) for part in parts)
        one = torch.ones(1, dtype=torch.long, device=ends.device)
        return Places(
            self.tokens,
            self.scores,
            torch.zeros_like(first) if self.ignored is None else self.ignored,
            first.sum(1),
            one,
            torch.zeros_like(one),
            self.scores.new_zeros(()),
            tuple(buffers),
            tuple(self.states),
        )

    def _read(self, found: Any, turns: int, step: int) -> None:
        """Writes down what the steps from ``step`` on have found."""
        parents, words, scores, *ends, weights = found
        ends, ended, sums = (part.cpu() for part in ends)
        for turn in range(turns):
            self.seen.add(ends[turn], self.sentences, ended[turn], sums[turn], step + turn)
            self.seen.attend(None if weights is None else weights[turn])
            self.seen.extend(parents[turn], words[turn], scores[turn])
