"""The contract's checks notice mechanisms that break it, and say which rule they break."""

import re
from typing import NamedTuple, Optional

import pytest
import torch
from torch import Tensor, nn

from fairseq_attn_plugin.attention import AttentionOutput, registry
from fairseq_attn_plugin.attention.soft import SoftAttention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.testing import CHECKS, check_attention


def masked(scores, memory):
    return scores if memory.pad_mask is None else scores.masked_fill(memory.pad_mask.unsqueeze(1), -1e9)


class Wide(SoftAttention):
    def step(self, query, memory, state=None, positions=None):
        out = super().step(query, memory, state, positions)
        return out._replace(context=torch.cat([out.context, out.context], -1))


class ListMemory(SoftAttention):
    def precompute(self, encodings, pad_mask=None):
        return list(super().precompute(encodings, pad_mask))

    def step(self, query, memory, state=None, positions=None):
        return super().step(query, type(super().precompute(memory[0]))(*memory), state, positions)


class Shared(NamedTuple):
    encodings: Tensor
    keys: Tensor
    pad_mask: Optional[Tensor]
    table: Tensor
    bias: None = None


class SharedMemory(SoftAttention):
    def _memorize(self, encodings, pad_mask):
        return Shared(*super()._memorize(encodings, pad_mask)[:3], encodings.new_zeros(1, 3))


class Unmasked(SoftAttention):
    def _weigh(self, scores, query, memory, positions):
        return scores.softmax(-1)


class Doubled(SoftAttention):
    def _weigh(self, scores, query, memory, positions):
        return 2 * super()._weigh(scores, query, memory, positions)


class Unscored(SoftAttention):
    """Claims that its scores are logits, and weighs others."""

    def _weigh(self, scores, query, memory, positions):
        return super()._weigh(2 * scores, query, memory, positions)


class FromTheLeft(SoftAttention):
    """Counts positions from the edge of the batch."""

    scores_are_logits = False

    def _weigh(self, scores, query, memory, positions):
        ramp = torch.arange(scores.size(-1), dtype=scores.dtype) / 5
        return super()._weigh(scores * (1 + ramp), query, memory, positions)


class ReadsPadding(SoftAttention):
    scores_are_logits = False

    def _weigh(self, scores, query, memory, positions):
        return super()._weigh(
            scores * (1 + memory.encodings.mean((1, 2)).abs())[:, None, None], query, memory, positions
        )


class ReadsOthers(SoftAttention):
    scores_are_logits = False

    def _weigh(self, scores, query, memory, positions):
        return super()._weigh(scores * (1 + query.abs().mean()), query, memory, positions)


class NanWithoutWords(SoftAttention):
    scores_are_logits = False

    def _weigh(self, scores, query, memory, positions):
        if memory.pad_mask is None:
            return scores.softmax(-1)
        inside = (~memory.pad_mask).to(scores.dtype).unsqueeze(1)
        heights = (scores - masked(scores, memory).amax(-1, keepdim=True)).exp() * inside
        return heights / heights.sum(-1, keepdim=True)


class Remembers(NamedTuple):
    weights: Tensor


class Undeclared(SoftAttention):
    """Uses the previous step and does not say so."""

    scores_are_logits = False

    def initial_state(self, memory):
        return Remembers(memory.encodings.new_zeros(memory.encodings.shape[:2]).unsqueeze(1))

    def step(self, query, memory, state=None, positions=None):
        scores = self.score(query, memory.keys) + state.weights
        weights = masked(scores, memory).softmax(-1).masked_fill(masked(scores, memory) < -1e8, 0.0)
        return AttentionOutput(weights @ memory.encodings, weights, scores, Remembers(weights))


class OneState(Undeclared):
    """Has one state for all hypotheses of a sentence."""

    recurrent = True

    def step(self, query, memory, state=None, positions=None):
        return super().step(query, memory, Remembers(state.weights.mean(1, keepdim=True)), positions)


class WrongGradient(SoftAttention):
    def _score(self, query, memory):
        scores = super()._score(query, memory)
        return scores + (query.sum(-1, keepdim=True) - query.sum(-1, keepdim=True).detach()) * scores.detach()


class Overflows(SoftAttention):
    """exp of scores that are not shifted: beyond float16 above 11, beyond float32 above 88."""

    scores_are_logits = False

    def _weigh(self, scores, query, memory, positions):
        heights = (8 * scores).exp()
        if memory.pad_mask is not None:
            heights = heights.masked_fill(memory.pad_mask.unsqueeze(1), 0.0)
        return heights / heights.sum(-1, keepdim=True).clamp(min=1e-30)


class Float32(SoftAttention):
    def step(self, query, memory, state=None, positions=None):
        out = super().step(query, memory, state, positions)
        return out._replace(context=out.context.float() if out.context.dtype == torch.float16 else out.context)


class Hidden(SoftAttention):
    """Has a parameter that the state dictionary lacks."""

    scores_are_logits = False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.holder = [nn.Parameter(torch.rand(()))]

    def _weigh(self, scores, query, memory, positions):
        return super()._weigh(scores * self.holder[0].to(scores), query, memory, positions)

    seeds = iter(range(1000))


class Keeps(SoftAttention):
    def precompute(self, encodings, pad_mask=None):
        self.last = encodings
        return super().precompute(encodings, pad_mask)


class Counts(SoftAttention):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.register_buffer("count", torch.zeros(()))

    def precompute(self, encodings, pad_mask=None):
        self.count += 1
        return super().precompute(encodings, pad_mask)


class Reordered(SoftAttention):
    """Takes the rows of the memory for the sentences of the first batch."""

    scores_are_logits = False

    def precompute(self, encodings, pad_mask=None):
        memory = super().precompute(encodings, pad_mask)
        factors = torch.arange(1, len(encodings) + 1, dtype=encodings.dtype)[:, None, None]
        return memory._replace(keys=memory.keys * factors)


class Fails(SoftAttention):
    def step(self, query, memory, state=None, positions=None):
        raise KeyError("my mistake")


BROKEN = [
    (Wide, "shapes", r"context must be \[B, T, 5\] = \(4, 3, 5\), is \(4, 3, 10\)"),
    (ListMemory, "shapes", "the memory must be None or a NamedTuple of tensors, is list"),
    (SharedMemory, "shapes", r"tensors of the memory must be \[B, \.\.\.\] with B = 4, one is \(1, 3\)"),
    (Unmasked, "weights", "weights must be exactly zero on padding"),
    (Doubled, "weights", "weights must sum to one .* or the mechanism sets normalized = False"),
    (Unscored, "log_weights", "scores_are_logits"),
    (FromTheLeft, "padding", "neither the side nor the amount of padding"),
    (ReadsPadding, "garbage_on_padding", "encodings on padding must not be read"),
    (ReadsOthers, "batch_mates", "a sentence alone"),
    (NanWithoutWords, "sentence_without_words", "a row of padding only"),
    (Undeclared, "single_steps", "recurrent = True"),
    (OneState, "hypotheses", "must not depend on each other"),
    (Reordered, "reordering", "index_rows"),
    (WrongGradient, "gradients", "gradients must equal finite differences"),
    (Overflows, "half_precision", "must be finite"),
    (Float32, "half_precision", "must be of that type"),
    (Overflows, "extreme_scores", "very large scores must be finite"),
    (Keeps, "nothing_kept", "nothing of a batch may stay on the module: last is new"),
    (Counts, "nothing_kept", "must not change buffers"),
    (Fails, "weights", "raises KeyError: 'my mistake'"),
]


@pytest.mark.parametrize(("mechanism", "check", "message"), BROKEN, ids=[f"{c.__name__}-{k}" for c, k, _ in BROKEN])
def test_a_broken_rule_is_named(mechanism, check, message, monkeypatch):
    monkeypatch.setitem(registry.MECHANISMS.found, "broken", mechanism)
    with pytest.raises(AssertionError, match=f"^attention broken.*, {check}: .*{message}"):
        check_attention("broken", checks=[check])
    with pytest.raises(AssertionError, match="^attention broken"):
        check_attention("broken")


def test_a_parameter_outside_the_state_dictionary_is_noticed(monkeypatch):
    monkeypatch.setitem(registry.MECHANISMS.found, "broken", Hidden)

    def prepare(module):
        module.holder[0].data.fill_(1.0 + next(Hidden.seeds))

    with pytest.raises(AssertionError, match="^attention broken, state_dict: "):
        check_attention("broken", prepare, ["state_dict"])


def test_every_check_is_broken_by_something():
    assert {check for _, check, _ in BROKEN} | {"state_dict"} == set(CHECKS)


def test_names_and_options_are_those_of_build_attention():
    with pytest.raises(OptionError, match="^--attention no-such: unknown attention"):
        check_attention("no-such")
    with pytest.raises(OptionError, match="has no option 'sizes'"):
        check_attention("soft", sizes=3)
    check_attention("aqt", checks=["weights"], adm_nodes=6, score="dot")
    assert not any(re.search("[A-Z]", name) for name in CHECKS)
