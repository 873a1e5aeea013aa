"""Likelihoods of words given alignments, in blocks: against the formula word by word, and all logits at once."""

import itertools

import pytest
import torch

import fairseq_attn_plugin.ops.likelihoods.mixture_nll as module
from fairseq_attn_plugin.attention.normalizers import LOG_ZERO
from fairseq_attn_plugin.ops.likelihoods import alignment_blocks
from fairseq_attn_plugin.ops.likelihoods.alignment_blocks import Alignments
from fairseq_attn_plugin.ops.likelihoods.mixture_log_probs import mixture_log_probs
from fairseq_attn_plugin.ops.likelihoods.mixture_nll import expected_nll, log_likelihoods, mixture_nll
from fairseq_attn_plugin.ops.likelihoods.nll_sums import NLLSums
from fairseq_attn_plugin.ops.likelihoods.vocabulary_loss import VocabularyBlocks

import oracles

SOURCES, TARGETS, WORDS, WIDTH = (4, 2, 5), (3, 5, 1), 7, 6
KINDS = ("all", "index", "relaxed", "linear", "linear-index")  # linear: [h; s] without tanh
SPLIT = 2  # features of h


def alignments(kind="all", keep=True, dtype=torch.float64, seed=0):
    """A batch with padding on the left of its sources and on the right of its targets."""
    draw = torch.Generator().manual_seed(seed)
    batch = len(SOURCES)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()

    memory, query = normal(batch, max(SOURCES), WIDTH), normal(batch, max(TARGETS), WIDTH)
    weight, bias = normal(WORDS, WIDTH), normal(WORDS)
    target = torch.randint(1, WORDS, (batch, max(TARGETS)), generator=draw)
    mask = (torch.rand(batch, max(TARGETS), WIDTH, generator=draw) > 0.3).to(dtype) / 0.7
    index = torch.stack([torch.randint(0, n, (max(TARGETS), 2), generator=draw) for n in SOURCES])
    pad_mask = torch.stack([torch.arange(max(SOURCES)) < max(SOURCES) - n for n in SOURCES])
    index = index + pad_mask.sum(1)[:, None, None]
    target_mask = torch.stack([torch.arange(max(TARGETS)) >= n for n in TARGETS])
    linear = kind.startswith("linear")
    if linear:
        features = torch.arange(WIDTH)
        memory, query = (x.detach() * share for x, share in ((memory, features < SPLIT), (query, features >= SPLIT)))
        memory, query = memory.requires_grad_(), query.requires_grad_()
    return Alignments(
        None if kind == "relaxed" else memory,
        query,
        weight,
        bias,
        target,
        target_mask,
        pad_mask if kind in ("all", "linear") else None,
        mask if keep and not linear else None,
        index if kind.endswith("index") else None,
        SPLIT if linear else 0,
    )


def log_weights(batch, seed=1):
    shape = (*batch.target.shape, batch.size)
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if batch.pad_mask is None:
        return scores.log_softmax(-1).type_as(batch.query)
    mask = batch.pad_mask.unsqueeze(1)
    return scores.masked_fill(mask, -1e30).log_softmax(-1).masked_fill(mask, LOG_ZERO).type_as(batch.query)


def gradients(total, batch, weights):
    found = list(torch.autograd.grad(total, [t for t in (*batch[:4], weights) if t is not None]))
    if batch.split:  # the rest is zero and stays zero
        found[:2] = found[0][..., : batch.split], found[1][..., batch.split :]
    return found


@pytest.fixture(params=["one-block", "tiny-blocks", "sentence-groups"])
def blocks(request, monkeypatch):
    """Blocks of everything, of one row, and of two sentences."""
    size = {"one-block": 1 << 20, "tiny-blocks": 1, "sentence-groups": 2 * 5 * 5 * WORDS * 8}[request.param]
    monkeypatch.setattr(alignment_blocks, "BLOCK_BYTES", {"cpu": size})


@pytest.mark.parametrize(("kind", "mixture", "smoothing"), list(itertools.product(KINDS, (True, False), (0.0, 0.2))))
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 4e-6)], ids=str)
def test_equals_the_formula(kind, mixture, smoothing, dtype, close, blocks):
    exact, batch = alignments(kind), alignments(kind, dtype=dtype)
    logs = log_weights(exact)
    wide = (logs if mixture else logs.exp()).requires_grad_()
    weights = wide.detach().to(dtype).requires_grad_()
    result = (mixture_nll if mixture else expected_nll)(batch, weights, smoothing)
    assert not result.log_likelihood.requires_grad and not result.score.requires_grad
    expected = oracles.alignment_nll(exact, wide, mixture, smoothing)
    torch.testing.assert_close(result.total.double(), expected, rtol=close, atol=close)
    found, right = gradients(result.total, batch, weights), gradients(expected, exact, wide)
    torch.testing.assert_close(found, right, rtol=100 * close, atol=10 * close, check_dtype=False)


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihoods_and_predictions(kind, blocks):
    """Sums of exponentials differ by orders of magnitude; the first mixture predicts all words."""
    batch = alignments(kind)
    batch = batch._replace(weight=4 * batch.weight.detach())
    mixtures, pairs = torch.stack([log_weights(batch, seed).exp() for seed in (1, 2)]), {}
    for row, step in itertools.product(range(3), range(5)):
        real = [k for k in range(batch.size) if batch.pad_mask is None or not batch.pad_mask[row, k]]
        positions = real if batch.chosen is None else batch.chosen[row, step]
        words = torch.stack([oracles.word_log_probs(batch, row, step, j) for j in positions])
        best = [(mixture[row, step, real] @ words.exp()).argmax() for mixture in mixtures]
        batch.target[row, step] = best[0]
        pairs[row, step] = real, words[:, best[0]], [True, bool(best[0] == best[1])]
    result = log_likelihoods(batch, mixtures)
    assert result.total == 0 and not result.log_likelihood.requires_grad
    for (row, step), (real, expected, correct) in pairs.items():
        if batch.target_mask[row, step]:
            assert not result.correct[:, row, step].any()
            continue
        torch.testing.assert_close(result.log_likelihood[row, step, real], expected)
        assert result.correct[:, row, step].tolist() == correct


@pytest.mark.parametrize("kind", KINDS)
def test_log_probs_of_all_words(kind, blocks):
    batch = alignments(kind)
    weights = log_weights(batch).requires_grad_()
    log_probs = mixture_log_probs(batch, weights)
    with torch.no_grad():
        torch.testing.assert_close(mixture_log_probs(batch, weights), log_probs)
    gold = log_probs.gather(-1, batch.target.unsqueeze(-1)).squeeze(-1)
    total = -gold.masked_fill(batch.target_mask, 0.0).sum()
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones_like(gold))
    expected = mixture_nll(batch, weights).total
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(gradients(total, batch, weights), gradients(expected, batch, weights))


@pytest.fixture
def pairs(monkeypatch):
    """The blocks that were computed pair by pair."""
    added = []
    add = NLLSums.add
    monkeypatch.setattr(NLLSums, "add", lambda self, block: (added.append(block), add(self, block)))
    return added


@pytest.mark.parametrize("kind", ["linear", "linear-index"])
def test_separable_alignments_are_not_computed_pair_by_pair(kind, pairs):
    batch = alignments(kind)
    mixture_nll(batch, log_weights(batch))
    assert not pairs
    if kind == "linear-index":  # one position a step costs less pair by pair
        mixture_nll(batch._replace(chosen=batch.chosen[..., :1]), log_weights(batch)[..., :1])
        assert pairs


@pytest.mark.parametrize("mixture", [True, False])
def test_words_of_padding_share_nothing(mixture, pairs):
    """The steps after the end of a shorter sentence may have any logits."""
    batch = alignments("linear", dtype=torch.float32)
    with torch.no_grad():
        batch.weight[:3, :SPLIT] = 5
        batch.weight[3:, :SPLIT] = -5
        batch.memory[..., :SPLIT] = 10
        far = batch.target_mask.unsqueeze(-1) * (torch.arange(WIDTH) >= SPLIT)
        batch.query[far.expand_as(batch.query)] = 100
        batch.weight[:3, SPLIT:], batch.weight[3:, SPLIT:] = -3, 3
    weights = log_weights(batch) if mixture else log_weights(batch).exp()
    weights.requires_grad_()
    one = (mixture_nll if mixture else expected_nll)(batch, weights)
    assert not pairs
    other = oracles.alignment_nll(batch, weights, mixture)
    torch.testing.assert_close(one.total, other)
    grads = (gradients(total, batch, weights) for total in (one.total, other))
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("kind", ["linear", "linear-index"])
def test_parts_that_share_no_words_are_computed_pair_by_pair(kind, dtype, tolerance, pairs):
    batch = alignments(kind, dtype=dtype)
    with torch.no_grad():  # logits of some hundreds, of other words for the steps than for the positions
        batch.weight[:3, :SPLIT] += 100 * torch.sign(batch.weight[:3, :SPLIT])
        batch.weight[3:, SPLIT:] += 100 * torch.sign(batch.weight[3:, SPLIT:])
    weights = log_weights(batch).requires_grad_()
    result, expected = mixture_nll(batch, weights), oracles.alignment_nll(batch, weights, True)
    assert pairs
    torch.testing.assert_close(result.total, expected, rtol=tolerance, atol=tolerance)
    grads = [gradients(total, batch, weights) for total in (result.total, expected)]
    # probabilities are off by 300 eps, of logits of 300, and their gradients have a weight of 100
    torch.testing.assert_close(*grads, rtol=tolerance, atol=400 * tolerance)
    gold = mixture_log_probs(batch, weights).gather(-1, batch.target.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(-gold.masked_fill(batch.target_mask, 0.0).sum(), expected)


def test_inputs_are_left_as_they_are():
    for kind in KINDS:
        batch = alignments(kind)
        copies = [t.detach().clone() if torch.is_tensor(t) else None for t in batch]
        weights = log_weights(batch)
        mixture_nll(batch, weights)
        with torch.no_grad():
            mixture_log_probs(batch, weights)
        for tensor, copy in zip(batch, copies):
            assert copy is None or torch.equal(tensor, copy)


@pytest.mark.parametrize("kind", ["index", "linear-index"])
def test_autocast_of_the_model_reaches_only_the_products(kind):
    """Under autocast the inputs come out of linear layers in half precision; everything but the products with the
    vocabulary is in float32 all the same, and the logarithms have no floor at float16's smallest number."""
    batch = alignments(kind, dtype=torch.float32)
    low = batch._replace(memory=batch.memory.detach().half(), query=batch.query.detach().half())
    for name in ("memory", "query"):
        getattr(low, name).requires_grad_()
    weights = log_weights(batch).requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        result = expected_nll(low, weights.exp())
        steep = low._replace(weight=30 * low.weight.detach(), memory=low.memory.detach(), query=low.query.detach())
        with torch.no_grad():
            log_probs = mixture_log_probs(steep, weights)
    exact = expected_nll(batch, weights.exp())
    grads = gradients(result.total, low, weights)[:2], gradients(exact.total, batch, weights)[:2]
    torch.testing.assert_close(*grads, rtol=0.05, atol=5e-2, check_dtype=False)
    with torch.no_grad():
        expected = mixture_log_probs(batch._replace(weight=30 * batch.weight), weights)
    assert log_probs.dtype == torch.float32 and log_probs.min() < -20
    torch.testing.assert_close(log_probs, expected, rtol=0.05, atol=0.5)


def test_no_gradient_is_computed_where_none_is_wanted(monkeypatch):
    monkeypatch.setattr(VocabularyBlocks, "add_gradients", None)
    batch = alignments()
    log_likelihoods(batch)
    with torch.no_grad():
        assert not mixture_nll(batch, log_weights(batch)).total.requires_grad


@pytest.mark.parametrize("kind", ["all", "linear"])
def test_scaled_loss_keeps_small_gradients_of_a_float16_model(kind):
    """The gradients are rounded to half precision after the loss scale has been applied, not before."""
    batch = alignments(kind, dtype=torch.float32)
    scale = 1e-6  # many gradients are then below float16's smallest number, 6e-8
    low = Alignments(*(t.detach().half() if torch.is_tensor(t) and t.is_floating_point() else t for t in batch))
    low = low._replace(**{name: getattr(low, name).requires_grad_() for name in ("memory", "query", "weight", "bias")})
    weights = (scale * log_weights(batch).exp()).requires_grad_()
    result = expected_nll(low, weights)
    assert result.total.dtype == torch.float32
    plain = gradients(expected_nll(batch, weights).total / scale, batch, weights)
    for one, other in zip(gradients(result.total / scale, low, weights)[:4], plain):
        assert one.dtype == torch.float16
        torch.testing.assert_close(one.float(), other, rtol=0.02, atol=5e-3)


def test_float16_products_do_not_overflow_over_many_words():
    """400 equal words add up their gradients in one product: with a fixed scale the sum would leave float16's range."""
    words, width = 400, 4
    query = torch.full((1, words, width), 5.0, requires_grad=True)
    weight, bias = torch.zeros(3, width, requires_grad=True), torch.zeros(3, requires_grad=True)
    target = torch.zeros(1, words, dtype=torch.long)
    batch = Alignments(None, query, weight, bias, target, target.bool(), None, None, None)
    weights = torch.ones(1, words, 1)
    exact = torch.autograd.grad(expected_nll(batch, weights).total, (weight, bias))
    with torch.autocast("cpu", dtype=torch.float16):
        found = torch.autograd.grad(expected_nll(batch, weights).total, (weight, bias))
    torch.testing.assert_close(found, exact, rtol=0.02, atol=0.5)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_products_are_in_the_precision_of_autocast(half, monkeypatch):
    made = []
    monkeypatch.setattr(module, "NLLSums", lambda *given: made.append(NLLSums(*given)) or made[-1])
    batch = alignments(dtype=torch.float32)
    with torch.autocast("cpu", dtype=half):
        mixture_nll(batch, log_weights(batch))
    mixture_nll(batch, log_weights(batch))
    assert [sums.vocabulary.products for sums in made] == [half, torch.float32]
