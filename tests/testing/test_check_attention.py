"""The contract's checks notice mechanisms that break it, and say which rule they break."""

import re
from typing import NamedTuple, Optional

import pytest
import torch
from torch import Tensor, nn

from fairseq_attn_plugin.attention import AttentionOutput, Penalty, registry
from fairseq_attn_plugin.attention.soft import SoftAttention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.testing import CHECKS, check_attention


def broken(**methods):
    """Soft attention with other methods; ``scores_are_logits`` is False unless it is given."""
    return type("Broken", (SoftAttention,), {"scores_are_logits": False, **methods})


precompute, step, weigh, score = (getattr(SoftAttention, name) for name in ("precompute", "step", "_weigh", "_score"))


def heights(scores, memory, smallest=0.0):
    """exp of scores, zero on padding, divided by their sum."""
    inside = 1.0 if memory.pad_mask is None else (~memory.pad_mask).to(scores.dtype).unsqueeze(1)
    found = scores.exp() * inside
    return found / found.sum(-1, keepdim=True).clamp(min=smallest)


def ramp(scores):
    """1, 1.2, ... from the edge of the batch."""
    return 1 + torch.arange(scores.size(-1), dtype=scores.dtype) / 5


def numbered(self, encodings, pad_mask=None):
    """The keys of the sentences of a batch times 1, 2, ..."""
    memory = precompute(self, encodings, pad_mask)
    return memory._replace(keys=memory.keys * torch.arange(1, len(memory.keys) + 1).to(encodings)[:, None, None])


class Shared(NamedTuple):
    encodings: Tensor
    keys: Tensor
    pad_mask: Optional[Tensor]
    table: Tensor
    bias: None = None


class ListMemory(SoftAttention):
    def precompute(self, encodings, pad_mask=None):
        return list(super().precompute(encodings, pad_mask))

    def step(self, query, memory, state=None, positions=None):
        return super().step(query, type(super().precompute(memory[0]))(*memory), state, positions)


class Remembers(NamedTuple):
    weights: Tensor


class Undeclared(SoftAttention):
    """Uses the previous step and does not say so."""

    scores_are_logits = False

    def initial_state(self, memory):
        return Remembers(memory.encodings.new_zeros(memory.encodings.shape[:2]).unsqueeze(1))

    def step(self, query, memory, state=None, positions=None):
        scores = self.score(query, memory.keys) + state.weights
        weights = heights(scores, memory)
        return AttentionOutput(weights @ memory.encodings, weights, scores, Remembers(weights))


class OneState(Undeclared):
    """Has one state for all hypotheses of a sentence."""

    recurrent = True

    def step(self, query, memory, state=None, positions=None):
        return super().step(query, memory, Remembers(state.weights.mean(1, keepdim=True)), positions)


class Inherits(Undeclared):
    """Only inherits what advances the state of biases."""

    recurrent = True


class Grows(Inherits):
    """Keeps the weights of all steps."""

    def step(self, query, memory, state=None, positions=None):
        out = super().step(query, memory, Remembers(state.weights[:, -1:]), positions)
        return out._replace(state=Remembers(torch.cat([state.weights, out.weights], 1)))


class Hidden(SoftAttention):
    """Has a parameter that the state dictionary lacks."""

    scores_are_logits = False
    seeds = iter(range(1000))

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.holder = [nn.Parameter(torch.rand(()))]

    def _weigh(self, scores, query, memory, positions):
        return super()._weigh(scores * self.holder[0].to(scores), query, memory, positions)


class Counts(SoftAttention):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.register_buffer("count", torch.zeros(()))

    def precompute(self, encodings, pad_mask=None):
        self.count += 1
        return super().precompute(encodings, pad_mask)


def keep(self, encodings, pad_mask=None):
    self.last = encodings
    return precompute(self, encodings, pad_mask)


def wide(self, *given):
    out = step(self, *given)
    return out._replace(context=torch.cat([out.context, out.context], -1))


def in_float32(self, *given):
    out = step(self, *given)
    return out._replace(context=out.context.float() if out.context.dtype == torch.float16 else out.context)


def no_gradient(self, query, memory):
    total = query.sum(-1, keepdim=True)
    scores = score(self, query, memory)
    return scores + (total - total.detach()) * scores.detach()


def fail(self, *given):
    raise KeyError("my mistake")


# beyond float16 above 11, beyond float32 above 88
OVERFLOWS = broken(_weigh=lambda self, x, q, m, p: heights(8 * x, m, 1e-30))
BROKEN = [
    (broken(step=wide), "shapes", r"context must be \[B, T, 5\] = \(4, 3, 5\), is \(4, 3, 10\)"),
    (ListMemory, "shapes", "the memory must be None or a NamedTuple of tensors, is list"),
    (broken(precompute=lambda self, h, mask=None: Shared(*precompute(self, h, mask)[:3], h.new_zeros(1, 3))),
     "shapes", r"tensors of the memory must be \[B, \.\.\.\] with B = 4, one is \(1, 3\)"),
    (Grows, "shapes", "a state must keep its shapes from step to step: .*4, 1, 6.* becomes .*4, 2, 6"),
    (Inherits, "advance", "advance must return the state of step"),
    (broken(penalties=lambda self, m, weights, mask=None: {"x_penalty": Penalty(weights.sum(), 1.0)}),
     "penalties", "penalties must be the sums of those of single sentences"),
    (broken(parameter_penalties=lambda self: {"x": Penalty(self.score.projection.weight.sum(), 1.0)}),
     "penalties", "names of penalties must end with _penalty"),
    (broken(_score=lambda self, query, memory: query @ memory.encodings.transpose(1, 2)),
     "parameters", "every parameter must have an effect: .* none of score.projection.weight"),
    (broken(_weigh=lambda self, x, *rest: x.softmax(-1)), "weights", "weights must be exactly zero on padding"),
    (broken(_weigh=lambda self, x, *rest: 2 * weigh(self, x, *rest)),
     "weights", "weights must sum to one .* or the mechanism sets normalized = False"),
    (broken(step=fail), "weights", "raises KeyError: 'my mistake'"),
    (broken(_weigh=lambda self, x, *rest: weigh(self, 2 * x, *rest), scores_are_logits=True),
     "log_weights", "scores_are_logits"),
    (broken(_weigh=lambda self, x, *rest: weigh(self, x * ramp(x), *rest)),
     "padding", "neither the side nor the amount of padding"),
    (broken(_weigh=lambda self, x, q, m, p: weigh(self, x * (1 + m.encodings.mean((1, 2), True).abs()), q, m, p)),
     "garbage_on_padding", "encodings on padding must not be read"),
    (broken(_weigh=lambda self, x, q, m, p: weigh(self, x * (1 + q.abs().mean()), q, m, p)),
     "batch_mates", "a sentence alone"),
    (broken(_weigh=lambda self, x, q, m, p: heights(x, m)), "sentence_without_words", "a row of padding only"),
    (Undeclared, "single_steps", "recurrent = True"),
    (OneState, "hypotheses", "must not depend on each other"),
    (broken(precompute=numbered), "reordering", "index_rows"),
    (broken(_score=no_gradient), "gradients", "gradients must equal finite differences"),
    (OVERFLOWS, "half_precision", "must be finite"),
    (broken(step=in_float32), "half_precision", "must be of that type"),
    (OVERFLOWS, "extreme_scores", "very large scores must be finite"),
    (broken(precompute=keep), "nothing_kept", "nothing of a batch may stay on the module: last is new"),
    (Counts, "nothing_kept", "must not change buffers"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mechanism", "check", "message"), BROKEN, ids=[f"{check}: {message}"[:40] for _, check, message in BROKEN]
)
def test_a_broken_rule_is_named(mechanism, check, message, monkeypatch):
    monkeypatch.setitem(registry.MECHANISMS.found, "broken", mechanism)
    with pytest.raises(AssertionError, match=f"^attention broken.*, {check}: .*{message}"):
        check_attention("broken", checks=[check])


def test_a_step_that_leaves_out_max_normalize_is_noticed(monkeypatch):
    monkeypatch.setitem(registry.MECHANISMS.found, "broken", Inherits)
    with pytest.raises(AssertionError, match="weights: with max_normalize the greatest weight must be one"):
        check_attention("broken", checks=["weights"], max_normalize=True)


def test_a_parameter_outside_the_state_dictionary_is_noticed(monkeypatch):
    monkeypatch.setitem(registry.MECHANISMS.found, "broken", Hidden)

    def prepare(module):
        module.holder[0].data.fill_(1.0 + next(Hidden.seeds))

    with pytest.raises(AssertionError, match="^attention broken, state_dict: "):
        check_attention("broken", prepare, ["state_dict"])
    with pytest.raises(AssertionError, match="^attention broken, "):  # all checks by default
        check_attention("broken", prepare)


def test_every_check_is_broken_by_something():
    assert {check for _, check, _ in BROKEN} | {"state_dict"} == set(CHECKS)


def test_names_and_options_are_those_of_build_attention():
    with pytest.raises(OptionError, match="^--attention no-such: unknown attention"):
        check_attention("no-such")
    with pytest.raises(OptionError, match="has no option 'sizes'"):
        check_attention("soft", sizes=3)
    check_attention("aqt", checks=["weights"], adm_nodes=6, score="dot")
    assert not any(re.search("[A-Z]", name) for name in CHECKS)
