"""What a search knows of models: a :class:`ModelStepper` over the encoder and decoder of each model of an ensemble.

A search translates B sentences. It begins with one row for each sentence, and after its first step each sentence has
``beam`` neighbouring rows, its hypotheses; R counts the rows. For each step it calls

    output, state = stepper.step(tokens, state, step)            # [R], the last word of each row
    state = stepper.select(state, rows, sentences)               # the rows that go on

:class:`Ensemble` averages the probabilities of several models. Where the weights of a model do not change any more, its
products are packed (:mod:`fairseq_attn_plugin.ops.packed`), in the precision that the options name, and a step is
traced by TorchScript.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import Counter
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..attention import index_rows, map_tensors
from ..attention.density_matrix import AdditiveDensityMatrix, MultiplicativeDensityMatrix
from ..attention.soft import SoftAttention
from ..errors import OptionError
from ..modules.decoder import LSTMDecoder
from ..modules.decoder_state import Decoded, Progress
from ..modules.latent.first_order_decoder import FirstOrderDecoder
from ..modules.latent.latent_decoder import LatentDecoder
from ..modules.latent.posterior_decoder import PosteriorDecoder
from ..modules.recurrent_decoder import POSITION, PROGRESS
from ..ops.packed import PACKED_ROWS, FixedWeights, say_once
from ..ops.precision import with_fixed
from .options import DecodingOptions
from .shortlist import Shortlist

__all__ = ["Ensemble", "ModelState", "ModelStepper", "StepOutput", "steppers", "tensors_of", "with_tensors"]

logger = logging.getLogger(__name__)

UNTRACED = 20  # steps before one is traced, which takes as long as a hundred steps
MULTIPLE = 128  # words of a packed shortlist, because oneDNN compiles a kernel for each number of outputs


class StepOutput(NamedTuple):
    """What one step says about the next word of R rows, K words of the vocabulary to choose from."""

    logits: Tensor  # [R, K] float32, of this step alone: the search writes into it
    normalized: bool  # whether they are log-probabilities; otherwise the search subtracts their logsumexp
    weights: Optional[Tensor]  # [R, N], of the attention; None where they are not wanted


class ModelState(NamedTuple):
    """The state of a :class:`ModelStepper`."""

    encoder_out: Dict[str, Any]
    incremental: Dict[str, Any]  # of fairseq
    vocabulary: Optional[Tensor] = None  # [K], ascending, the words of the shortlist; None: all
    weights: Optional[FixedWeights] = None


class ModelStepper:
    """The model's own encoder and decoder, with fairseq's incremental state.

    What depends on the source exists once per sentence (:mod:`fairseq_attn_plugin.modules.source_memory`).

    Args:
        model: a translation model of this package, in evaluation mode
        temperature: divides the logits
        precision: of the products, see :mod:`fairseq_attn_plugin.ops.packed`, of a model that is not trained any more;
            None: the products are the model's own
        shortlist: chooses the words of each batch
    """

    def __init__(
        self,
        model: Any,
        temperature: float = 1.0,
        precision: Optional[str] = None,
        shortlist: Optional[Shortlist] = None,
    ):
        self.model, self.decoder, self.temperature, self.shortlist = model, model.decoder, temperature, shortlist
        self.weights = None if precision is None else FixedWeights(model.parameters(), precision)
        known = type(self.decoder) in (LSTMDecoder, LatentDecoder, PosteriorDecoder)
        plain = self.weights is not None and known and getattr(self.decoder, "alignment", "prior") == "prior"
        self.traces = plain and is_traceable(self.decoder)
        self.normalized = plain and temperature == 1.0 and self.decoder.returns_log_probs
        self.steps: Counter[Any] = Counter()  # by structure of the state
        self.traced: Dict[Any, Any] = {}

    @torch.inference_mode()
    def begin(self, net_input: Dict[str, Any], prefix: Optional[Tensor] = None) -> ModelState:
        """Encodes a batch, once; the state has one row for each of B sentences.

        Args:
            net_input: of fairseq's batch: ``src_tokens`` ``[B, N]`` and ``src_lengths`` ``[B]``
            prefix: ``[B, P]``, words with which the translations must begin, with padding; for a shortlist
        """
        weights, words = self.weights, None
        with with_fixed(weights):
            encoder_out = self.model.encoder.forward_torchscript(net_input)
        if self.shortlist is not None and weights is not None:
            sentences = len(net_input["src_tokens"])
            words = self.shortlist.words(encoder_out["tokens"], prefix, MULTIPLE if sentences >= PACKED_ROWS else 1)
            weights = weights.confined_to(words, self.decoder.vocabulary, sentences)
        incremental: Dict[str, Any] = {}
        with with_fixed(weights):  # the first step is then as the others
            self.decoder.set_incremental_state(incremental, PROGRESS, self.decoder.start(encoder_out, True))
        return ModelState(encoder_out, incremental, words, weights)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: ModelState, step: Union[int, Tensor]) -> Tuple[StepOutput, ModelState]:
        """One decoder step.

        Args:
            tokens: ``[R]``, the last word of each row, an index of the whole vocabulary
            state: of :meth:`begin`, of the last step or of :meth:`select`; not to be used again
            step: from 0; may be a tensor ``[1]``
        """
        with with_fixed(state.weights):
            return self._step(tokens, state, step)

    def _step(self, tokens: Tensor, state: ModelState, step: Union[int, Tensor]) -> Tuple[StepOutput, ModelState]:
        incremental = dict(state.incremental)
        if isinstance(step, Tensor):
            incremental[POSITION] = step
        decoded = self._traced(tokens, state.encoder_out, incremental, step) if self.traces else None
        if decoded is None:
            out, extra = self.decoder(columns(tokens, step), state.encoder_out, incremental)
            (weights,) = extra["attn"]
        else:
            memory = self.decoder.get_incremental_state(incremental, PROGRESS).memory
            out = self.decoder.words_of(decoded, memory, state.encoder_out)
            weights = decoded.weights if self.decoder.need_attn else None
        if self.temperature != 1.0:
            out = out / self.temperature  # also the features of an adaptive softmax, as fairseq does
        adaptive = self.decoder.adaptive_softmax is not None
        if adaptive:
            out = self.model.get_normalized_probs((out, None), log_probs=True)
        weights = None if weights is None else weights[:, -1]
        incremental.pop(POSITION, None)
        output = StepOutput(out[:, -1].float(), adaptive or self.normalized, weights)
        return output, state._replace(incremental=incremental)

    def _traced(
        self, tokens: Tensor, encoder_out: Dict[str, Any], incremental: Dict[str, Any], step: Union[int, Tensor]
    ) -> Optional[Decoded]:
        """One step without the words, of which ``incremental`` becomes the state; None before there is a trace."""
        progress = self.decoder.get_incremental_state(incremental, PROGRESS)
        given = (progress.state, progress.memory, {"encodings": encoder_out["encodings"]})
        structure = structure_of(given)
        self.steps[structure] += 1
        if self.steps[structure] <= UNTRACED or self.decoder.intervention is not None:
            return None
        if structure not in self.traced:
            self.traced[structure] = traced(self.decoder, self.weights, given, progress, tokens)
        position = step if isinstance(step, Tensor) else torch.full((1,), step, device=tokens.device)
        features, weights, scores, *after = self.traced[structure](tokens, position, *tensors_of(given))
        state = with_tensors(progress.state, after)
        self.decoder.set_incremental_state(incremental, PROGRESS, progress._replace(state=state))
        attends = self.decoder.attention is not None
        return Decoded(features, weights if attends else None, scores if attends else None, state)

    def select(self, state: ModelState, rows: Tensor, sentences: Optional[Tensor] = None) -> ModelState:
        """The state of the rows that go on.

        Args:
            state: of the last step
            rows: ``[R']``, the old row that each new row continues. A sentence's rows stay together, in equal number
                for all sentences
            sentences: ``[B']``, ascending, the old numbers of the sentences that stay; None if all of them stay
        """
        decoder, encoder_out = self.decoder, state.encoder_out
        progress: Progress = decoder.get_incremental_state(state.incremental, PROGRESS)
        memory = progress.memory
        if sentences is not None:
            encoder_out = {
                name: None if value is None else value.index_select(0, sentences)
                for name, value in encoder_out.items()
                if name != "rows"
            }
        if sentences is not None or len(rows) != len(memory.rows):
            count = len(encoder_out["encodings"])
            of_rows = torch.arange(count, device=rows.device).repeat_interleave(len(rows) // count)
            encoder_out = {**encoder_out, "rows": of_rows}
            memory = memory._replace(rows=of_rows) if sentences is None else memory.select(of_rows, sentences)
        incremental = dict(state.incremental)
        progress = progress._replace(state=index_rows(progress.state, rows), memory=memory)
        decoder.set_incremental_state(incremental, PROGRESS, progress)
        return state._replace(encoder_out=encoder_out, incremental=incremental)


class Ensemble:
    """One or more steppers during the search of a batch: the mean of their probabilities, and of their attention.

    Args:
        steppers: the models
        net_input: fairseq's batch
        prefix: ``[B, P]``, words with which the translations must begin, or None

    Attributes:
        vocabulary: the words ``[K]`` to choose from, ascending; None: all
    """

    def __init__(self, steppers: Sequence[ModelStepper], net_input: Dict[str, Any], prefix: Optional[Tensor]):
        self.steppers = steppers
        self.states: List[Any] = [stepper.begin(net_input, prefix) for stepper in steppers]
        self.vocabulary: Optional[Tensor] = self.states[0].vocabulary

    def step(self, tokens: Tensor, step: int) -> Tuple[Tensor, Optional[Tensor]]:
        """log p ``[R, K]`` of the next word after ``tokens`` ``[R]``, to be written into, and attention ``[R, N]``."""
        log_probs: List[Tensor] = []
        attention: Optional[Tensor] = None
        for i, stepper in enumerate(self.steppers):
            (logits, normalized, weights), self.states[i] = stepper.step(tokens, self.states[i], step)
            log_probs.append(logits if normalized else logits.log_softmax(-1))
            if weights is not None:
                attention = weights if attention is None else attention + weights
        if len(log_probs) == 1:
            return log_probs[0], attention
        mean = torch.stack(log_probs).logsumexp(0).sub_(math.log(len(log_probs)))
        return mean, None if attention is None else attention / len(log_probs)

    def select(self, rows: Tensor, sentences: Optional[Tensor]) -> None:
        """Keeps the rows that go on; see :meth:`ModelStepper.select`."""
        self.states = [one.select(state, rows, sentences) for one, state in zip(self.steppers, self.states)]


def is_traceable(decoder: Any) -> bool:
    """Whether a step has the same operations for all sizes of batch and source."""
    if any(isinstance(part, FairseqDropout) and part.apply_during_inference for part in decoder.modules()):
        return False
    attention = decoder.attention
    if attention is None or decoder.revises:
        return not decoder.revises
    kinds = (SoftAttention, MultiplicativeDensityMatrix, AdditiveDensityMatrix)
    return type(attention) in kinds and attention.biases is None and attention.config.normalizer == "softmax"


def columns(tokens: Tensor, step: Union[int, Tensor]) -> Tensor:
    """The words that a decoder is given: it reads the last column, and the number of the step from the width, unless
    that is a tensor of its own."""
    return tokens.unsqueeze(1).expand(-1, 1 if isinstance(step, Tensor) else step + 1)


def tensors_of(given: Any) -> List[Tensor]:
    """All tensors of a state, in a fixed order."""
    found: List[Tensor] = []
    map_tensors(lambda tensor: found.append(tensor) or tensor, given)  # type: ignore[func-returns-value]
    return found


def with_tensors(given: Any, tensors: Iterable[Tensor]) -> Any:
    """The state with other tensors, in the order of :func:`tensors_of`."""
    others = iter(tensors)
    return map_tensors(lambda _: next(others), given)


def structure_of(given: Any) -> Any:
    """Where there are tensors, and where there is None."""
    if given is None or isinstance(given, Tensor):
        return given is None
    return tuple(structure_of(part) for part in (given.values() if isinstance(given, dict) else given))


class TracedStep(nn.Module):
    """A step of a decoder as a function of tensors: features, weights and scores, and the tensors of the new state.

    Args:
        decoder: whose step it is
        weights: its products, which a trace must know
        given: state and memory of the progress, and what the encoder returned, as patterns
        progress: of the search
    """

    def __init__(self, decoder: Any, weights: Any, given: Any, progress: Progress):
        super().__init__()
        self.decoder, self.weights, self.given, self.progress = decoder, weights, given, progress

    def forward(self, tokens: Tensor, position: Tensor, *tensors: Tensor) -> Tuple[Tensor, ...]:
        state, memory, encoder_out = with_tensors(self.given, tensors)
        incremental: Dict[str, Any] = {POSITION: position}
        progress = self.progress._replace(state=state, memory=memory)
        self.decoder.set_incremental_state(incremental, PROGRESS, progress)
        decoded, _ = self.decoder.decode(tokens.unsqueeze(1), encoder_out, incremental)
        found = (decoded.features, decoded.weights, decoded.scores)
        return (*(decoded.features if part is None else part for part in found), *tensors_of(decoded.state))


def traced(decoder: Any, weights: Any, given: Any, progress: Progress, tokens: Tensor) -> Any:
    """The step as TorchScript has recorded it: a step of one sentence takes Python as long as its products."""
    step = TracedStep(decoder, weights, given, progress)
    position = torch.ones(1, dtype=torch.long, device=tokens.device)
    step(tokens, position, *tensors_of(given))  # packs products that are missing, which a trace could not
    try:
        with warnings.catch_warnings():  # of sizes that become numbers, and of the end of TorchScript
            warnings.simplefilter("ignore")
            return torch.jit.trace(step, (tokens, position, *tensors_of(given)), check_trace=False)
    except Exception as error:  # whatever a torch without TorchScript raises: the module does the same, slower
        logger.debug(f"not traced: {error}")
        return step


def steppers(models: List[Any], temperature: float, options: DecodingOptions) -> List[ModelStepper]:
    """A stepper for each model of an ensemble, as the options want them.

    Raises:
        OptionError: the shortlist cannot be read, or a model takes none
    """
    fixed = [is_fixed(model) for model in models]
    shortlist = None
    if options.shortlist is not None:
        given = f"--shortlist {options.shortlist}:"
        if any(model.decoder.copying is not None for model in models):
            raise OptionError(
                f"{given} a model that copies (--copy-attention) may copy any word of the source; leave it out"
            )
        if not all(fixed) or any(isinstance(model.decoder, FirstOrderDecoder) for model in models):
            raise OptionError(
                f"{given} a model with an adaptive softmax, with first-order alignments, in half precision, on a GPU "
                "or in training takes none; leave it out"
            )
        source, target = models[0].encoder.dictionary, models[0].decoder.dictionary
        shortlist = Shortlist(options.shortlist, options.shortlist_size, options.shortlist_frequent, source, target)
    if options.decoding_precision != "float32" and not all(fixed):
        say_once(
            options.decoding_precision,
            "models with an adaptive softmax, in half precision, on a GPU or in training translate in their own "
            "precision",
        )
    precisions = [options.decoding_precision if one else None for one in fixed]
    return [ModelStepper(model, temperature, one, shortlist) for model, one in zip(models, precisions)]


def is_fixed(model: Any) -> bool:
    """Whether products of the model may be packed: fairseq has prepared it for translation, so that its weights do not
    change any more, unlike those of a model that translates between epochs of its training; and a GPU, half precision
    and an adaptive softmax have products of their own."""
    weight = model.decoder.embed_tokens.weight
    ours = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    return ours and model.decoder.adaptive_softmax is None and bool(getattr(model, "_is_generation_fast", False))
