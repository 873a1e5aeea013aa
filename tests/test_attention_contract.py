"""What every registered attention mechanism keeps (see ``fairseq_attn_plugin/attention/base.py``)."""

import copy

import pytest
import torch

from fairseq_attn_plugin.attention import attention_class, build_attention, index_rows, names

import oracles

DIM = 5
LENGTHS = (6, 1, 4, 2)
# Source words (see oracles.words) that further votes go to, by the decoder's input word; 1 is padding.
TABLE = [[1, 1, 1]] * 4 + [[4, 6, 1], [5, 1, 1], [7, 9, 10], [1, 1, 1], [11, 8, 4], [6, 1, 1], [10, 7, 5], [9, 11, 8]]


def cases():
    """Every mechanism with its defaults, and the combinations of options that take different paths through the code."""
    for name in names():
        yield name, {}
        mechanism = attention_class(name)
        if mechanism.takes_max_normalize:
            yield name, {"max_normalize": True}
        if mechanism.takes_biases:  # as it is scores that biases are added to
            for score in ("dot", "scaled_dot", "general", "additive"):
                yield name, {"score": score}
        if not mechanism.own_normalizer:
            for normalizer in ("sparsemax", "entmax15"):
                yield name, {"normalizer": normalizer}
        if mechanism.takes_biases:
            for bias in ("position", "markov", "fertility", "position,markov,fertility"):
                yield name, {"bias": bias}
            yield name, {"bias": "markov,fertility", "bias_window": 2, "bias_dim": 3}
    yield "soft", {"bias": "position,fertility", "normalizer": "sparsemax", "bias_window": 0}
    yield "soft", {"bias": "markov,fertility", "max_normalize": True}
    yield "structured", {"scale": 1.0}
    yield "gaussian", {"ratio": 1.5, "sigma": 0.7}
    yield "gaussian", {"ratio": 0.4, "rule": "1", "mean": 0.3, "max_normalize": True}
    yield "gaussian", {"trained": True}
    yield "gaussian", {"trained": True, "rule": "9", "max_normalize": True}
    yield "election", {"table": TABLE}
    yield "election", {"table": TABLE, "ratio": 0.7, "share": 0.5, "trained": True, "max_normalize": True}
    for name in ("local-m", "local-p"):
        yield name, {"window": 1}
        yield name, {"window": 2, "normalizer": "entmax15", "bias": "markov"}
    for name in ("mqt", "aqt"):
        for score in ("general", "additive"):
            yield name, {"score": score, "pairing": "direct"}
            yield name, {"score": score, "chunk_size": 2}


CASES = list(cases())
IDS = [
    "-".join([name, *(key if isinstance(value, (bool, list)) else str(value) for key, value in options.items())])
    for name, options in CASES
]
mechanisms = pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)


def make(name, options, dtype=torch.float64):
    torch.manual_seed(11)
    table = options.get("table")
    options = {key: value for key, value in options.items() if key != "table"}
    module = build_attention(name, query_dim=DIM, memory_dim=DIM, **options)
    if table is not None:
        module.table = torch.tensor(table)
    for parameter in module.parameters():  # larger than at initialisation, so that differences show
        torch.nn.init.uniform_(parameter, -1.0, 1.0)
    return module.to(dtype)


def sources(side="left", width=None, dtype=torch.float64):
    width = width or max(LENGTHS)
    generator = torch.Generator().manual_seed(5)
    words = [torch.randn(n, DIM, generator=generator, dtype=torch.float64) for n in LENGTHS]
    encodings = torch.zeros(len(LENGTHS), width, DIM, dtype=torch.float64)
    pad_mask = torch.ones(len(LENGTHS), width, dtype=torch.bool)
    for row, (n, x) in enumerate(zip(LENGTHS, words)):
        start = width - n if side == "left" else 0
        encodings[row, start : start + n] = x
        pad_mask[row, start : start + n] = False
    return encodings.to(dtype), pad_mask, words


def queries(steps=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(6)
    return torch.randn(len(LENGTHS), steps, DIM, generator=generator, dtype=torch.float64).to(dtype)


def positions(batch, steps):
    return torch.arange(steps).expand(batch, steps)


def precompute(module, encodings, pad_mask):
    """As the model calls it; a word is told by its encoding, as the oracles do."""
    if not module.needs_words:
        return module.precompute(encodings, pad_mask)
    tokens = oracles.words(encodings)
    return module.precompute(
        encodings, pad_mask, source_tokens=tokens if pad_mask is None else tokens.masked_fill(pad_mask, 1)
    )


def take_step(module, query, memory, state, where):
    inputs = {"inputs": oracles.words(query)} if module.needs_words else {}
    return module.step(query, memory, state, where, **inputs)


def attend(module, query, encodings, pad_mask):
    """Whole sequence in one call where the mechanism allows it, else step by step."""
    memory = precompute(module, encodings, pad_mask)
    where = positions(*query.shape[:2])
    if not module.recurrent:
        out = take_step(module, query, memory, module.initial_state(memory), where)
        return out.context, out.weights
    return stepwise(module, query, memory)


def stepwise(module, query, memory):
    state, contexts, weights = module.initial_state(memory), [], []
    for t in range(query.size(1)):
        out = take_step(module, query[:, t : t + 1], memory, state, torch.full((query.size(0), 1), t))
        state = out.state
        contexts.append(out.context)
        weights.append(out.weights)
    return torch.cat(contexts, 1), torch.cat(weights, 1)


@mechanisms
def test_shapes_simplex_and_padding(name, options):
    module = make(name, options)
    encodings, pad_mask, _ = sources()
    memory = precompute(module, encodings, pad_mask)
    out = take_step(module, queries(1), memory, module.initial_state(memory), positions(len(LENGTHS), 1))
    assert out.context.shape == (len(LENGTHS), 1, DIM)
    assert out.weights.shape == out.scores.shape == (len(LENGTHS), 1, max(LENGTHS))
    assert (out.weights >= 0).all()
    assert (out.weights.masked_select(pad_mask[:, None]) == 0).all()
    if module.normalized:
        torch.testing.assert_close(out.weights.sum(-1), torch.ones(len(LENGTHS), 1, dtype=torch.float64))
    torch.testing.assert_close(out.context, out.weights @ encodings)


@mechanisms
def test_equals_the_oracle(name, options):
    module = make(name, {"nodes": 24, **options} if name == "aqt" else options)
    encodings, pad_mask, words = sources()
    query = queries()
    _, weights = attend(module, query, encodings, pad_mask)
    for row, sentence in enumerate(words):
        expected = oracles.sequence(name, module, query[row], sentence)
        torch.testing.assert_close(weights[row][:, ~pad_mask[row]], expected, rtol=1e-9, atol=1e-10)


@mechanisms
def test_gradients_equal_the_oracles(name, options):
    module = make(name, {"nodes": 28, **options} if name == "aqt" else options)
    encodings, pad_mask, words = sources()
    encodings.requires_grad_()
    query = queries().requires_grad_()
    factor = torch.randn(len(LENGTHS), 3, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    context, _ = attend(module, query, encodings, pad_mask)
    (context * factor).sum().backward()

    reference = copy.deepcopy(module)
    reference.zero_grad()
    words = [w.clone().requires_grad_() for w in words]
    other_query = query.detach().clone().requires_grad_()
    total = 0
    for row, sentence in enumerate(words):
        weights = oracles.sequence(name, reference, other_query[row], sentence)
        total = total + ((weights @ sentence) * factor[row]).sum()
    total.backward()
    for row in range(len(LENGTHS)):
        torch.testing.assert_close(encodings.grad[row, ~pad_mask[row]], words[row].grad, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(query.grad, other_query.grad, rtol=1e-6, atol=1e-7)
    expected = dict(reference.named_parameters())
    for key, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[key].grad, rtol=1e-6, atol=1e-7, msg=key)


@mechanisms
def test_gradcheck(name, options):
    module = make(name, options)
    encodings, pad_mask, _ = sources()
    parameters = tuple(module.parameters())

    def function(query, encodings, *_):
        context, weights = attend(module, query, encodings, pad_mask)
        return context, weights

    # entmax and sparsemax have kinks; the seeded inputs are not near one.
    assert torch.autograd.gradcheck(
        function, (queries(2).requires_grad_(), encodings.requires_grad_(), *parameters), atol=1e-4, rtol=1e-3
    )


@mechanisms
def test_side_and_amount_of_padding_do_not_matter(name, options):
    module = make(name, options)
    query = queries()
    results = []
    for side, width in (("left", None), ("right", None), ("left", 13), ("right", 9)):
        encodings, pad_mask, _ = sources(side, width)
        context, weights = attend(module, query, encodings, pad_mask)
        results.append((context, [weights[row, :, ~pad_mask[row]] for row in range(len(LENGTHS))]))
    for context, weights in results[1:]:
        torch.testing.assert_close(context, results[0][0])
        for one, other in zip(weights, results[0][1]):
            torch.testing.assert_close(one, other)


@mechanisms
def test_a_sentence_alone_equals_the_sentence_in_a_batch(name, options):
    module = make(name, options)
    encodings, pad_mask, words = sources()
    context, _ = attend(module, queries(), encodings, pad_mask)
    for row, sentence in enumerate(words):
        alone, _ = attend(module, queries()[row : row + 1], sentence[None], None)
        torch.testing.assert_close(alone, context[row : row + 1])


@mechanisms
def test_memory_on_padding_is_never_read(name, options):
    module = make(name, options)
    encodings, pad_mask, _ = sources()
    expected, _ = attend(module, queries(), encodings, pad_mask)
    garbage = encodings.masked_fill(pad_mask.unsqueeze(-1), 1e3)
    context, _ = attend(module, queries(), garbage, pad_mask)
    torch.testing.assert_close(context, expected)


@mechanisms
def test_stepwise_equals_whole_sequence(name, options):
    module = make(name, options)
    encodings, pad_mask, _ = sources()
    memory = precompute(module, encodings, pad_mask)
    context, weights = attend(module, queries(), encodings, pad_mask)
    other_context, other_weights = stepwise(module, queries(), memory)
    torch.testing.assert_close(other_context, context)
    torch.testing.assert_close(other_weights, weights)


@mechanisms
def test_reordered_rows(name, options):
    """Memory and state reordered between steps give what the reordered sentences give from the start."""
    module = make(name, options)
    encodings, pad_mask, _ = sources()
    order = torch.tensor([2, 2, 0, 3, 1])
    memory = precompute(module, encodings, pad_mask)
    first = take_step(module, queries(1), memory, module.initial_state(memory), positions(len(LENGTHS), 1))
    ones = torch.ones(len(order), 1).long()
    moved = take_step(module, queries(1)[order], index_rows(memory, order), index_rows(first.state, order), ones)

    memory = precompute(module, encodings[order], pad_mask[order])
    first = take_step(module, queries(1)[order], memory, module.initial_state(memory), positions(len(order), 1))
    direct = take_step(module, queries(1)[order], memory, first.state, ones)
    torch.testing.assert_close(moved.context, direct.context)


@mechanisms
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite_and_close(name, options, dtype):
    module = make(name, options, torch.float32)
    encodings, pad_mask, _ = sources(dtype=torch.float32)
    expected, _ = attend(module, queries(dtype=torch.float32), encodings, pad_mask)
    half = copy.deepcopy(module).to(dtype)
    encodings = encodings.to(dtype).requires_grad_()
    context, weights = attend(half, queries(dtype=dtype), encodings, pad_mask)
    context.float().pow(2).sum().backward()
    assert context.dtype == weights.dtype == dtype
    assert context.isfinite().all() and weights.isfinite().all() and encodings.grad.isfinite().all()
    assert (weights.masked_select(pad_mask[:, None]) == 0).all()
    # Half precision rounds the scores; these inputs keep the effect below a few percent of the encodings' size.
    torch.testing.assert_close(context.float(), expected, rtol=0.1, atol=0.15)


@mechanisms
def test_a_row_of_padding_only_is_harmless(name, options):
    module = make(name, options)
    encodings, pad_mask, _ = sources()
    alone, _ = attend(module, queries(), encodings, pad_mask)
    encodings = torch.cat([encodings, torch.zeros_like(encodings[:1])]).requires_grad_()
    pad_mask = torch.cat([pad_mask, torch.ones_like(pad_mask[:1])])
    query = torch.cat([queries(), queries()[:1]])
    context, weights = attend(module, query, encodings, pad_mask)
    context.pow(2).sum().backward()
    torch.testing.assert_close(context[:-1], alone)
    assert (weights[-1] == 0).all() and (context[-1] == 0).all()
    assert encodings.grad.isfinite().all()


@mechanisms
def test_extreme_scores_stay_finite(name, options):
    module = make(name, options, torch.float32)
    encodings, pad_mask, _ = sources(dtype=torch.float32)
    encodings = (encodings * 1e3).requires_grad_()
    context, weights = attend(module, queries(dtype=torch.float32) * 1e2, encodings, pad_mask)
    context.sum().backward()
    assert weights.isfinite().all() and encodings.grad.isfinite().all()


@mechanisms
def test_state_dict_round_trip(name, options):
    module, other = make(name, options), make(name, options)
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    other.load_state_dict(module.state_dict())
    encodings, pad_mask, _ = sources()
    for one, two in zip(attend(module, queries(), encodings, pad_mask), attend(other, queries(), encodings, pad_mask)):
        assert torch.equal(one, two)


@mechanisms
def test_nothing_of_a_batch_stays_on_the_module(name, options):
    module = make(name, options)
    before = {key: set(vars(part)) for key, part in module.named_modules()}
    buffers = {key: buffer.clone() for key, buffer in module.named_buffers()}
    encodings, pad_mask, _ = sources()
    attend(module, queries(), encodings, pad_mask)
    assert {key: set(vars(part)) for key, part in module.named_modules()} == before
    assert dict(module.named_buffers()).keys() == buffers.keys()
    assert all(torch.equal(buffer, buffers[key]) for key, buffer in module.named_buffers())
