"""What a search knows of models: a :class:`ModelStepper` over the encoder and decoder of each model of an ensemble.

A search translates B sentences. It begins with one row for each sentence, and after its first step each sentence has
``beam`` neighbouring rows, its hypotheses; R counts the rows. For each step it calls

    log_probs, weights, state = stepper.step(tokens, state, step)    # [R], the last word of each row
    state = stepper.select(state, rows, sentences)                   # the rows that go on

Where the weights of a model do not change any more, its products are packed (:mod:`fairseq_attn_plugin.ops.packed`), in
the precision that the options name, and a step is traced by TorchScript.
"""

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

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
from ..modules.recurrent_decoder import POSITION, PROGRESS
from ..ops.packed import PACKED_ROWS, FixedWeights, by_torchscript, say_once
from ..ops.precision import with_fixed
from .options import DecodingOptions
from .shortlist import Shortlist

UNTRACED = 20  # steps before one is traced, which takes as long as a hundred steps
MULTIPLE = 128  # words of a packed shortlist, because oneDNN compiles a kernel for each number of outputs


class ModelState(NamedTuple):
    """The state of a :class:`ModelStepper`."""

    encoder_out: Dict[str, Any]
    progress: Progress
    weights: Optional[FixedWeights]

    @property
    def vocabulary(self) -> Optional[Tensor]:
        """The words ``[K]`` of the shortlist, ascending; None: all."""
        return None if self.weights is None else self.weights.words


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
        self.traces = self.weights is not None and is_traceable(self.decoder)
        self.normalized = temperature == 1.0 and self.decoder.returns_log_probs
        self.steps = 0
        self.traced: Dict[Any, Any] = {}  # by structure of the state

    @torch.inference_mode()
    def begin(self, net_input: Dict[str, Any], prefix: Optional[Tensor] = None) -> ModelState:
        """Encodes a batch, once; the state has one row for each of B sentences.

        Args:
            net_input: of fairseq's batch: ``src_tokens`` ``[B, N]`` and ``src_lengths`` ``[B]``
            prefix: ``[B, P]``, words with which the translations must begin, with padding; for a shortlist
        """
        weights = self.weights
        with with_fixed(weights):
            encoder_out = self.model.encoder.forward_torchscript(net_input)
        if self.shortlist is not None and weights is not None:
            sentences = len(net_input["src_tokens"])
            words = self.shortlist.words(encoder_out["tokens"], prefix, MULTIPLE if sentences >= PACKED_ROWS else 1)
            weights = weights.confined_to(words, self.decoder.vocabulary, sentences)
        with with_fixed(weights):  # the first step is then as the others
            return ModelState(encoder_out, self.decoder.start(encoder_out, True), weights)

    @torch.inference_mode()
    def step(
        self, tokens: Tensor, state: ModelState, step: Union[int, Tensor]
    ) -> Tuple[Tensor, Optional[Tensor], ModelState]:
        """One decoder step.

        Args:
            tokens: ``[R]``, the last word of each row, an index of the whole vocabulary
            state: of :meth:`begin`, of the last step or of :meth:`select`; not to be used again
            step: from 0; may be a tensor ``[1]``

        Returns:
            log p ``[R, K]`` of the words to choose from, in float32, to be written into; the attention's weights
            ``[R, N]``, or None where they are not wanted; the new state
        """
        with with_fixed(state.weights):
            out, weights, progress = self._decoded(tokens, state, step)
        if self.temperature != 1.0:
            out = out / self.temperature  # also the features of an adaptive softmax, as fairseq does
        if self.decoder.adaptive_softmax is not None:
            out = self.model.get_normalized_probs((out, None), log_probs=True)
        log_probs = out[:, -1].float()
        if not self.normalized and self.decoder.adaptive_softmax is None:
            # in place, where no place is asked of the system for as many numbers once more
            log_probs = torch.log_softmax(log_probs, -1, out=log_probs if log_probs.device.type == "cpu" else None)
        return log_probs, None if weights is None else weights[:, -1], state._replace(progress=progress)

    def _decoded(
        self, tokens: Tensor, state: ModelState, step: Union[int, Tensor]
    ) -> Tuple[Tensor, Optional[Tensor], Progress]:
        """What the decoder returns as words, the weights, and the progress after the step."""
        decoder = self.decoder
        position = step if isinstance(step, Tensor) else torch.full((1,), step, device=tokens.device)
        if self.traces and decoder.intervention is None:
            self.steps += 1
            if self.steps > UNTRACED:
                decoded = self._traced(tokens, state, position)
                out = decoder.words_of(decoded, state.progress.memory, state.encoder_out)
                return out, decoded.weights if decoder.need_attn else None, state.progress._replace(state=decoded.state)
        incremental: Dict[str, Any] = {POSITION: position}
        decoder.set_incremental_state(incremental, PROGRESS, state.progress)
        out, extra = decoder(tokens.unsqueeze(1), state.encoder_out, incremental)
        return out, extra["attn"][0], decoder.get_incremental_state(incremental, PROGRESS)

    def _traced(self, tokens: Tensor, state: ModelState, position: Tensor) -> Decoded:
        """One step without the words, by the trace for a state of this structure."""
        given = (state.progress.state, state.progress.memory, state.encoder_out["encodings"])
        structure = map_tensors(lambda _: True, given)  # type: ignore[arg-type,return-value]
        if structure not in self.traced:
            one = TracedStep(self.decoder, self.weights, given, state.progress)
            arguments = (tokens, torch.ones_like(position), *tensors_of(given))
            one(*arguments)  # packs products that are missing, which a trace could not
            # a step of one sentence takes Python as long as its products
            self.traced[structure] = by_torchscript(lambda: torch.jit.trace(one, arguments, check_trace=False), one)
        features, *found = self.traced[structure](tokens, position, *tensors_of(given))
        weights, scores = found[:2] if self.decoder.attention is not None else (None, None)
        return Decoded(features, weights, scores, with_tensors(state.progress.state, found[2:]))

    def select(self, state: ModelState, rows: Tensor, sentences: Optional[Tensor] = None) -> ModelState:
        """The state of the rows that go on.

        Args:
            state: of the last step
            rows: ``[R']``, the old row that each new row continues. A sentence's rows stay together, in equal number
                for all sentences
            sentences: ``[B']``, ascending, the old numbers of the sentences that stay; None if all of them stay
        """
        encoder_out, memory = state.encoder_out, state.progress.memory
        if sentences is not None:
            encoder_out = index_rows({**encoder_out, "rows": None}, sentences)
        if sentences is not None or len(rows) != len(memory.rows):
            count = len(encoder_out["encodings"])
            of_rows = torch.arange(count, device=rows.device).repeat_interleave(len(rows) // count)
            encoder_out = {**encoder_out, "rows": of_rows}
            memory = memory._replace(rows=of_rows) if sentences is None else memory.select(of_rows, sentences)
        progress = state.progress._replace(state=index_rows(state.progress.state, rows), memory=memory)
        return state._replace(encoder_out=encoder_out, progress=progress)


def is_traceable(decoder: Any) -> bool:
    """Whether a step has the same operations for all sizes of batch and source."""
    if type(decoder) not in (LSTMDecoder, LatentDecoder):  # of others a step depends on the word that it was given
        return False
    if any(isinstance(part, FairseqDropout) and part.apply_during_inference for part in decoder.modules()):
        return False
    attention = decoder.attention
    if attention is None:
        return True
    kinds = (SoftAttention, MultiplicativeDensityMatrix, AdditiveDensityMatrix)
    return type(attention) in kinds and attention.biases is None and attention.config.normalizer == "softmax"


def tensors_of(given: Any) -> List[Tensor]:
    """All tensors of a state, in a fixed order."""
    found: List[Tensor] = []
    map_tensors(lambda tensor: found.append(tensor) or tensor, given)  # type: ignore[func-returns-value]
    return found


def with_tensors(given: Any, tensors: Iterable[Tensor]) -> Any:
    """The state with other tensors, in the order of :func:`tensors_of`."""
    others = iter(tensors)
    return map_tensors(lambda _: next(others), given)


class TracedStep(nn.Module):
    """A step of a decoder as a function of tensors: features, weights and scores, and the tensors of the new state.

    Args:
        weights: products of the decoder, which a trace must know
        given: state and memory of the progress, and encodings, as patterns
    """

    def __init__(self, decoder: Any, weights: Any, given: Any, progress: Progress):
        super().__init__()
        self.decoder, self.weights, self.given, self.progress = decoder, weights, given, progress

    def forward(self, tokens: Tensor, position: Tensor, *tensors: Tensor) -> Tuple[Tensor, ...]:
        state, memory, encodings = with_tensors(self.given, tensors)
        incremental: Dict[str, Any] = {POSITION: position}
        progress = self.progress._replace(state=state, memory=memory)
        self.decoder.set_incremental_state(incremental, PROGRESS, progress)
        decoded, _ = self.decoder.decode(tokens.unsqueeze(1), {"encodings": encodings}, incremental)
        found = (decoded.features, decoded.weights, decoded.scores)
        return (*(decoded.features if part is None else part for part in found), *tensors_of(decoded.state))


def steppers(models: List[Any], temperature: float, options: DecodingOptions) -> List[ModelStepper]:
    """A stepper for each model of an ensemble, as the options want them.

    Raises:
        OptionError: the shortlist cannot be read, or a model takes none
    """
    fixed = [is_fixed(model) for model in models]
    shortlist = None
    if options.shortlist is not None:
        decoders = [model.decoder for model in models]
        if not all(fixed) or any(one.copying is not None or isinstance(one, FirstOrderDecoder) for one in decoders):
            raise OptionError(
                f"--shortlist {options.shortlist}: a model that copies (--copy-attention), with an adaptive softmax or "
                "first-order alignments, in half precision, on a GPU or in training takes none; leave it out"
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
