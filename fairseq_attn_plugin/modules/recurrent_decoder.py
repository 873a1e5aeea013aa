"""The recurrent part of a decoder: from target words and the source to one feature vector per step.

One step, with top state s_t, context c_t of the attention and attentional output o_t (Luong et al. 2015, "Effective
Approaches to Attention-based Neural Machine Translation"):

    s_t = RNN(s_{t-1}, [y_{t-1}; feed_{t-1}]),   c_t = attention(s_t),   o_t = tanh(W_o [c_t; s_t])

RNN is an LSTM or a GRU. With ``--output-layer linear`` o_t = [c_t; s_t]. ``feed`` is o (``--input-feeding output``), c
(``context``) or absent (``none``). Work that does not depend on the recurrence stays outside the loop over time: the
embeddings' share of the first layer's gates, o unless a layer's o is fed, and with ``none`` everything (one call of RNN
and attention).

Shapes: B sentences, R rows (R = B in training, B times the beam in a search), N source positions, T steps, Dh encoder
units, Ds decoder units.
"""

from typing import Any, ClassVar, Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..attention import Attention, AttentionOutput, attention_statistics, index_rows
from ..ops.deferred import Linear
from ..ops.precision import autocast_enabled, fixed_weights
from .decoder_state import Decoded, DecoderInputs, DecoderState, Progress
from .encoders.source_encoder import EncoderOut
from .recurrence import DropoutMasks, LayerStates, gates_of_words, step_weights, stepped
from .rnn import STATES, Dropout, Recurrent, run, uniform_
from .source_memory import Intervention, SentenceAttention, SourceMemory

# keys of fairseq's incremental state
PROGRESS = "progress"
POSITION = "position"  # [1], the number of the step, where the width of the words does not tell it


class RecurrentDecoder(Recurrent, FairseqIncrementalDecoder):
    """A recurrent decoder without its vocabulary projection.

    Args:
        dictionary: target dictionary
        embed_tokens: target embeddings
        attention: a mechanism built for ``query_dim = hidden_size``, or None
        memory_dim: units of a source encoding
        hidden_size: units of every layer
        num_layers: number of layers; may differ from the encoder's
        input_feeding: ``output``, ``context`` or ``none``
        output_layer: ``tanh``, or ``linear``: o is context and state side by side
        zero_init: start from zeros instead of the encoder's states (projected where the sizes differ)
        init_dropout: probability, in training, that a sentence starts from zeros; unused without attention
        dropout_in: dropout of the embeddings
        dropout_out: dropout between layers and of the attentional output
        rnn: ``lstm`` or ``gru``
        states_given: which states of layers the encoder has; the start is projected where the kind has others, too

    Attributes:
        intervention: replaces what the attention returns in a step, for analysis (:func:`.source_memory.reweighed`)
    """

    revises: ClassVar[bool] = False  # whether :meth:`revise` is called before each step
    intervention: Optional[Intervention] = None

    def __init__(
        self,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        attention: Optional[Attention],
        memory_dim: int,
        hidden_size: int,
        num_layers: int = 1,
        input_feeding: str = "output",
        output_layer: str = "tanh",
        zero_init: bool = False,
        init_dropout: float = 0.0,
        dropout_in: float = 0.1,
        dropout_out: float = 0.1,
        rnn: str = "lstm",
        states_given: Sequence[str] = ("hidden", "cell"),
    ):
        super().__init__(dictionary)
        self.embed_tokens, self.attention = embed_tokens, attention
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.input_feeding = input_feeding
        self.dropout_in_module = Dropout(dropout_in, module_name=type(self).__name__)
        self.dropout_out_module = Dropout(dropout_out, module_name=type(self).__name__)
        feeds_context = input_feeding == "context" and attention is not None
        self.is_linear = output_layer == "linear"
        joined = memory_dim + hidden_size if self.is_linear and attention is not None else hidden_size
        self.feature_size = joined  # units of o
        self.feed_size = 0 if input_feeding == "none" else memory_dim if feeds_context else self.feature_size
        # The loop over time uses this module's parameters too, so that all kinds of input feeding have the same ones.
        self.add_layers(rnn, embed_tokens.embedding_dim + self.feed_size, hidden_size, num_layers, dropout_out)
        self.hidden_projection: Optional[nn.Module] = None
        self.cell_projection: Optional[nn.Module] = None
        self.zero_init = zero_init
        # Without attention the encoder's states are all that a sentence has.
        self.init_dropout = 0.0 if zero_init or attention is None else init_dropout
        if not zero_init and (memory_dim != hidden_size or not set(STATES[rnn]) <= set(states_given)):
            self.hidden_projection = uniform_(Linear(memory_dim, hidden_size))
            if "cell" in STATES[rnn]:
                self.cell_projection = uniform_(Linear(memory_dim, hidden_size))
        self.output_projection: Optional[nn.Module] = None
        if attention is not None and not self.is_linear:
            self.output_projection = uniform_(Linear(memory_dim + hidden_size, hidden_size, bias=False))

    def decode(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut, incremental_state: Optional[Dict[str, Any]] = None
    ) -> Tuple[Decoded, SourceMemory]:
        """Runs the recurrence over the whole target, or over the steps after the last one of ``incremental_state``.

        Returns:
            the result, and what was computed from the source
        """
        sentences = encoder_out["encodings"].size(0)
        progress: Optional[Progress] = self.get_incremental_state(incremental_state, PROGRESS)
        if progress is None:
            first, progress = 0, self.start(encoder_out, incremental_state is not None)
        else:
            first, prev_output_tokens = prev_output_tokens.size(1) - 1, prev_output_tokens[:, -1:]
        drops = self.dropout_in_module.apply_during_inference
        gates = None if drops else gates_of_words(self.rnn, self.embed_tokens.weight)
        if gates is None:
            embeddings = self.dropout_in_module(self.embed_tokens(prev_output_tokens))
        else:
            embeddings = F.embedding(prev_output_tokens, gates)
        if incremental_state is not None and POSITION in incremental_state:
            steps: Tensor = incremental_state[POSITION]  # type: ignore[assignment]
        else:
            steps = torch.arange(first, first + embeddings.size(1), device=embeddings.device)
        reads_words = self.revises or (self.attention is not None and self.attention.needs_words)
        inputs = DecoderInputs(
            embeddings,
            steps.expand(embeddings.shape[:2]),
            prev_output_tokens if reads_words else None,
            are_gates=gates is not None,
        )
        memory = progress.memory
        attend = self.attention_to(memory, encoder_out)
        decoded = (self._decode_at_once if self._loop_free else self._decode_stepwise)(inputs, attend, progress)
        if incremental_state is not None:
            progress = progress._replace(state=decoded.state)
            self.set_incremental_state(incremental_state, PROGRESS, progress)  # type: ignore[arg-type]
        elif self.attention is not None and decoded.weights is not None and len(decoded.weights) == sentences:
            beyond_end = prev_output_tokens.eq(self.dictionary.pad())  # as in the target, one step ahead
            penalties = self.attention.penalties(memory.attention, decoded.weights, beyond_end)
            if not self.training:
                penalties = {**penalties, **attention_statistics(decoded.weights, encoder_out["pad_mask"], beyond_end)}
            decoded = decoded._replace(penalties=penalties)
        return decoded, memory

    def revise(
        self, attend: Any, feed: Optional[Tensor], state: Any, hidden: Tensor, inputs: DecoderInputs, t: int
    ) -> Tuple[Optional[Tensor], Any]:
        """What step ``t`` is fed, and the attention's state before it, now that the word before it is known."""
        return feed, state

    def combine(self, context: Tensor, hidden: Tensor) -> Tensor:
        """A step's features from its context ``[R, T, Dh]`` and state ``[R, T, Ds]`` (see the module's text)."""
        # [c; s] of Charalampous and Chatzis, eq. 1; with a tanh layer Luong et al. 2015, eq. 5
        both = torch.cat([context, hidden], dim=-1)
        if self.output_projection is not None:
            both = torch.tanh(self.output_projection(both))
        return self.dropout_out_module(both)

    def attention_to(self, memory: SourceMemory, encoder_out: EncoderOut) -> Optional[SentenceAttention]:
        """The attention to the sentences of a batch, as the loop over time calls it."""
        if self.attention is None:
            return None
        sentences = encoder_out["encodings"].size(0)
        return SentenceAttention(self.attention, memory.attention, sentences, intervention=self.intervention)

    @property
    def _loop_free(self) -> bool:
        # the products of a search are those of single steps; layers of torch drop nothing in inference
        if fixed_weights() is not None or self.dropout_out_module.apply_during_inference:
            return False
        return self.feed_size == 0 and (self.attention is None or not self.attention.recurrent)

    def remember(self, encoder_out: EncoderOut) -> SourceMemory:
        """Computes what depends on the source alone, once per sentence."""
        if self.attention is None:
            return SourceMemory(encoder_out["rows"], None)
        source = {"source_tokens": encoder_out["tokens"]} if self.attention.needs_words else {}
        memory = self.attention.precompute(encoder_out["encodings"], encoder_out["pad_mask"], **source)
        return SourceMemory(encoder_out["rows"], memory)

    def start(self, encoder_out: EncoderOut, searches: bool) -> Progress:
        """The progress before the first step of a whole target, or of a search."""
        memory = self.remember(encoder_out)
        state = self.initial_state(encoder_out, memory)
        weights = step_weights(self.rnn, self.embed_tokens.embedding_dim) if searches and not self._loop_free else []
        return Progress(state, memory, weights)

    def initial_state(self, encoder_out: EncoderOut, memory: SourceMemory) -> DecoderState:
        rows, encodings = memory.rows, encoder_out["encodings"]
        hidden = self._first_states(encoder_out, "hidden", self.hidden_projection, rows)
        cell = None
        if "cell" in STATES[self.kind]:
            cell = self._first_states(encoder_out, "cell", self.cell_projection, rows)
            if autocast_enabled(cell):  # the encoder's LSTM is in half precision; a cell state would lose digits
                cell = cell.to(torch.promote_types(cell.dtype, torch.float32))
        if self.training and self.init_dropout > 0:  # whole states, and not scaled: translation starts from all of them
            kept = torch.rand(len(rows), 1, 1, device=rows.device) >= self.init_dropout
            hidden, cell = hidden * kept, None if cell is None else cell * kept
        feed = encodings.new_zeros(rows.size(0), self.feed_size) if self.feed_size else None
        attention_state = None
        if self.attention is not None:
            attention_state = index_rows(self.attention.initial_state(memory.attention), rows)
        return DecoderState(hidden, cell, feed, attention_state)

    def _first_states(
        self, encoder_out: EncoderOut, name: str, projection: Optional[nn.Module], rows: Tensor
    ) -> Tensor:
        """``[R, layers, Ds]``; an encoder without cell states gives its hidden ones.

        Layers are matched from the top down; a deeper decoder starts its lowest layers from the encoder's lowest.
        """
        if self.zero_init:
            return encoder_out["encodings"].new_zeros(rows.size(0), self.num_layers, self.hidden_size)
        states = encoder_out["hidden" if encoder_out[name] is None else name]
        chosen = [max(0, layer + states.size(1) - self.num_layers) for layer in range(self.num_layers)]
        if chosen != list(range(states.size(1))):
            states = torch.stack([states[:, layer] for layer in chosen], dim=1)
        if len(rows) > len(states):  # else the rows are the sentences
            states = states.index_select(0, rows)
        return states if projection is None else projection(states)

    def _decode_at_once(
        self, inputs: DecoderInputs, attend: Optional[SentenceAttention], progress: Progress
    ) -> Decoded:
        given = (progress.state.hidden, progress.state.cell)
        start = tuple(x.transpose(0, 1).contiguous() for x in given if x is not None)
        hidden, last = run(inputs.embeddings, self.rnn, start, self.training)
        state = DecoderState(last[0].transpose(0, 1), last[1].transpose(0, 1) if len(last) > 1 else None, None, None)
        if attend is None:
            return Decoded(self.dropout_out_module(hidden), None, None, state)
        attended = attend(hidden, None, inputs.positions, inputs.words)
        return Decoded(self.combine(attended.context, hidden), attended.weights, attended.scores, state)

    def _decode_stepwise(
        self, inputs: DecoderInputs, attend: Optional[SentenceAttention], progress: Progress
    ) -> Decoded:
        """The loop over time. It computes o_t where that is fed and has a layer; otherwise all o are computed at the
        end."""
        feeds_output = attend is None or (self.input_feeding == "output" and self.output_projection is not None)
        dropped = self.num_layers if feeds_output else self.num_layers - 1  # layers with dropout at every step
        dropout = DropoutMasks(self.dropout_out_module, inputs.embeddings, dropped, self.hidden_size)
        projection = self.output_projection if feeds_output else None
        joined = self.input_feeding == "output" and self.is_linear and attend is not None  # fed: [c; s]
        embed_dim = self.embed_tokens.embedding_dim
        rnn = stepped(self.rnn, embed_dim, progress.weights, inputs, projection, dropout, joined)
        cell = progress.state.cell
        layers = LayerStates(progress.state.hidden.unbind(1), () if cell is None else cell.unbind(1))
        feed, attention_state = progress.state.feed, progress.state.attention

        results: List[Tensor] = []  # of each step: what is fed, or the state
        attended: List[AttentionOutput] = []
        for t in range(inputs.embeddings.size(1)):
            if self.revises:
                feed, attention_state = self.revise(attend, feed, attention_state, layers.hidden[-1], inputs, t)
            layers = rnn.step(t, feed, layers)  # s_t: Charalampous and Chatzis, eq. 2, with feed
            hidden, context = layers.hidden[-1], None
            if attend is not None:
                words = None if inputs.words is None else inputs.words[:, t : t + 1]
                attended.append(attend(hidden.unsqueeze(1), attention_state, inputs.positions[:, t : t + 1], words))
                attention_state, context = attended[-1].state, attended[-1].context.squeeze(1)
            if feeds_output:
                hidden = rnn.output(t, context, hidden)
                feed = hidden if self.feed_size else None
            elif self.feed_size and context is not None:
                feed = torch.cat([context, hidden], dim=1) if joined and not rnn.knows_state else context
            results.append(hidden)

        features = torch.stack(results, dim=1)
        if not feeds_output:
            features = self.combine(torch.cat([out.context for out in attended], dim=1), features)
        if joined and feed is context and context is not None:
            feed = torch.cat([context, hidden], dim=1)
        cell = torch.stack(layers.cell, dim=1) if layers.cell else None
        state = DecoderState(torch.stack(layers.hidden, dim=1), cell, feed, attention_state)
        if attend is None:
            return Decoded(features, None, None, state)
        weights, scores = (torch.cat(parts, dim=1) for parts in zip(*((out.weights, out.scores) for out in attended)))
        return Decoded(features, weights, scores, state)

    def reorder_incremental_state(self, incremental_state: Dict[str, Any], new_order: Tensor) -> None:
        """Keeps the progress of the hypotheses that survive a step of beam search."""
        progress: Optional[Progress] = self.get_incremental_state(incremental_state, PROGRESS)  # type: ignore[assignment]
        if progress is not None:
            self.set_incremental_state(incremental_state, PROGRESS, progress.reorder(new_order))  # type: ignore[arg-type]
