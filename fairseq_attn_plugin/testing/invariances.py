"""Checks of what must not matter: padding, the other sentences of a batch, single steps, hypotheses and their order."""

from __future__ import annotations

import torch

from ..attention import index_rows, map_tensors
from .rules import check, equal, require
from .subject import LENGTHS, Subject, attend, batch_of, draw_queries, precompute, step, step_at, stepwise

_B = len(LENGTHS)


@check
def padding(subject: Subject) -> None:
    module, results = subject.build(), []
    for side, width in (("left", 6), ("right", 6), ("left", 13), ("right", 9)):
        encodings, pad_mask, _ = batch_of(side, width)
        context, found = attend(module, draw_queries(), encodings, pad_mask)
        results.append((context, [found[row, :, ~pad_mask[row]] for row in range(_B)]))
    rule = "neither the side nor the amount of padding may change a result"
    for result in results[1:]:
        equal(result, results[0], rule)


@check
def garbage_on_padding(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    expected = attend(module, draw_queries(), encodings, pad_mask)
    filled = encodings.masked_fill(pad_mask.unsqueeze(-1), 1e3)
    equal(attend(module, draw_queries(), filled, pad_mask), expected, "encodings on padding must not be read")


@check
def batch_mates(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, sentences = batch_of()
    context, found = attend(module, draw_queries(), encodings, pad_mask)
    for row, sentence in enumerate(sentences):
        alone, weight = attend(module, draw_queries()[row : row + 1], sentence[None], None)
        rule = "a sentence alone, with pad_mask None, must give what it gives in a batch"
        equal((alone, weight), (context[row : row + 1], found[row : row + 1, :, ~pad_mask[row]]), rule)


@check
def sentence_without_words(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    alone, _ = attend(module, draw_queries(), encodings, pad_mask)
    encodings = torch.cat([encodings, torch.zeros_like(encodings[:1])]).requires_grad_()
    pad_mask = torch.cat([pad_mask, torch.ones_like(pad_mask[:1])])
    query = torch.cat([draw_queries(), draw_queries()[:1]])
    context, found = attend(module, query, encodings, pad_mask)
    context.pow(2).sum().backward()
    equal(context[:-1], alone, "a row of padding only must leave the other sentences alone")
    require((found[-1] == 0).all() and (context[-1] == 0).all(), "a row of padding only must have zero weights")
    assert encodings.grad is not None
    require(encodings.grad.isfinite().all(), "a row of padding only must not make gradients infinite or NaN")


@check
def single_steps(subject: Subject) -> None:
    module = subject.build()
    encodings, pad_mask, _ = batch_of()
    memory = precompute(module, encodings, pad_mask)
    whole = attend(module, draw_queries(), encodings, pad_mask)
    rule = "all steps in one call must give what single steps give, or the mechanism sets recurrent = True"
    equal(stepwise(module, draw_queries(), memory), whole, rule)


@check
def hypotheses(subject: Subject) -> None:
    """As beam search does it: K hypotheses of a sentence are K queries of the same step."""
    module, beam = subject.build(), 3
    encodings, pad_mask, _ = batch_of()
    rows = torch.arange(_B).repeat_interleave(beam)
    queries = torch.cat([draw_queries(2), 1 - draw_queries(2), draw_queries(2) * 0.5]).view(beam, _B, 2, -1)
    queries = queries.transpose(0, 1).reshape(_B * beam, 2, -1)
    memory = precompute(module, encodings, pad_mask)
    state = index_rows(module.initial_state(memory), rows)
    state = map_tensors(lambda x: x.reshape(_B, beam, *x.shape[2:]), state)
    contexts = []
    for t in range(2):
        out = step_at(module, queries[:, t].view(_B, beam, -1), memory, state, torch.full((_B, beam), t))
        state = out.state
        contexts.append(out.context.reshape(_B * beam, -1))
    apart, _ = stepwise(module, queries, precompute(module, encodings[rows], pad_mask[rows]))
    rule = "hypotheses of a sentence, side by side in T, must not depend on each other"
    equal(torch.stack(contexts, 1), apart, rule)


@check
def reordering(subject: Subject) -> None:
    module, order = subject.build(), torch.tensor([2, 2, 0, 3, 1])
    encodings, pad_mask, _ = batch_of()
    query = draw_queries(2)
    memory = precompute(module, encodings, pad_mask)
    state = step(module, query[:, :1], memory, module.initial_state(memory)).state
    moved = step(module, query[order, 1:], index_rows(memory, order), index_rows(state, order), 1)
    direct, _ = stepwise(module, query[order], precompute(module, encodings[order], pad_mask[order]))
    rule = "rows of memory and state selected by index_rows must give what those sentences give from the start"
    equal(moved.context, direct[:, 1:], rule)
