"""Copying of source words: the mixture and its loss against the formula, word by word, and models that copy."""

import math

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from latent_models import sample
from models_for_tests import build, dictionary, enlarged, fake_task
from refusals import refuses

from fairseq_attn_plugin.modules.copying import Copying
from fairseq_attn_plugin.ops.likelihoods import alignment_blocks
from fairseq_attn_plugin.ops.likelihoods.vocabulary_loss import Targets

PAD, UNK, UNITS = 1, 3, 6


def dictionaries():
    """Ten words each, five of which are in both, at other indices."""
    source, target = dictionary(0), dictionary(0)
    for i in range(10):
        source.add_symbol(f"w{i}")
        target.add_symbol(f"w{14 - i}")
    return source, target


def mixture(sentences=3, beam=1, steps=4, seed=0, positions=5):
    """A mixture, its inputs as leaves, and source words: some twice, some unknown to the target, some padding."""
    draw = torch.Generator().manual_seed(seed)
    source, target = dictionaries()
    torch.manual_seed(seed)
    copying = Copying(UNITS, source, target).double()
    tokens = torch.randint(4, len(source), (sentences, positions), generator=draw)
    tokens[0, :2], tokens[1:, 0], tokens[:, -1] = 10, PAD, 2
    weights = torch.rand(sentences * beam, steps, positions, generator=draw, dtype=torch.float64)
    weights[:, :, 2] = 0.0
    weights = weights.masked_fill(tokens.eq(PAD).repeat_interleave(beam, 0).unsqueeze(1), 0.0)
    weights = (weights / weights.sum(-1, keepdim=True)).requires_grad_()
    features = torch.randn(sentences * beam, steps, UNITS, generator=draw, dtype=torch.float64).requires_grad_()
    weight = torch.randn(len(target), UNITS, generator=draw, dtype=torch.float64).requires_grad_()
    bias = torch.randn(len(target), generator=draw, dtype=torch.float64).requires_grad_()
    return copying, features, weight, bias, weights, tokens


def formula(copying, features, weight, bias, weights, tokens):
    """p(y_t = v), step by step and word by word, from the symbols of the dictionaries."""
    source, target = dictionaries()
    probabilities = []
    for row, words in enumerate(tokens.repeat_interleave(len(features) // len(tokens), 0).tolist()):
        for step in range(features.size(1)):
            x = features[row, step]
            g = torch.sigmoid(copying.gate.weight[0] @ x + copying.gate.bias[0])
            p = list((g * (weight @ x + bias).softmax(0)).unbind())
            for j, word in enumerate(words):
                symbol = source[word]
                v = target.symbols.index(symbol) if symbol in target.symbols else UNK
                p[v] = p[v] + (1 - g) * weights[row, step, j]
            probabilities.append(torch.stack(p))
    return torch.stack(probabilities).view(*features.shape[:2], -1)


@pytest.mark.parametrize("beam", [1, 2])
def test_probabilities_equal_the_formula(beam):
    copying, features, weight, bias, weights, tokens = mixture(beam=beam)
    found = copying(features @ weight.t() + bias, features, weights, tokens)
    expected = formula(copying, features, weight, bias, weights, tokens)
    torch.testing.assert_close(found.exp(), expected)
    torch.testing.assert_close(expected.sum(-1), torch.ones_like(expected[..., 0]))
    leaves = (features, weight, bias, weights, *copying.gate.parameters())
    ones = torch.autograd.grad(found.square().sum(), leaves)
    torch.testing.assert_close(ones, torch.autograd.grad(expected.log().square().sum(), leaves))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_in_blocks_is_fairseqs_of_the_formula(smoothing, monkeypatch):
    monkeypatch.setattr(alignment_blocks, "BLOCK_BYTES", {"cpu": 4 * 14 * 3, "cuda": 1})  # 3 words at a time
    copying, features, weight, bias, weights, tokens = mixture()
    target = torch.tensor([[7, 5, UNK, 2], [6, 11, 2, PAD], [4, 2, PAD, PAD]])
    log_probs = formula(copying, features, weight, bias, weights, tokens).log().flatten(0, 1)
    loss, nll = label_smoothed_nll_loss(log_probs, target.flatten(), smoothing, ignore_index=PAD)
    found = copying.loss(features, (weight, bias), weights, tokens, Targets(target, PAD, smoothing))
    torch.testing.assert_close(found.loss, loss)
    torch.testing.assert_close(found.nll, nll.detach())
    leaves = (features, weight, bias, weights, *copying.gate.parameters())
    torch.testing.assert_close(torch.autograd.grad(found.loss, leaves), torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("gate", [-300.0, 300.0])
def test_finite_where_one_part_underflows(gate):
    """In float32, with words that neither part can give."""
    copying, features, weight, bias, weights, tokens = mixture()
    copying.float().gate.bias.data.fill_(gate)
    weights = weights.detach().float().requires_grad_()
    features = features.detach().float().mul(30).requires_grad_()
    log_probs = copying(features @ weight.detach().float().t(), features, weights, tokens)
    target = torch.full(features.shape[:2], 5)
    loss = copying.loss(features, (weight.detach().float(), None), weights, tokens, Targets(target, PAD, 0.1)).loss
    for value in (log_probs.sum(), loss):
        grads = torch.autograd.grad(value, (features, weights, *copying.gate.parameters()))
        assert value.isfinite() and all(grad.isfinite().all() for grad in grads)


def test_words_of_other_dictionaries_and_checkpoints():
    source, target = dictionaries()
    copying = Copying(UNITS, source, target)
    known = {symbol: target[index] for symbol, index in zip(source.symbols, copying.target_of.tolist())}
    assert known["w7"] == "w7" and known["</s>"] == "</s>" and known["<pad>"] == "<pad>" and known["w1"] == "<unk>"
    assert all(value.is_floating_point() for value in copying.state_dict().values())  # what --store-ema averages


def make(**options):
    return enlarged(build("attn_lstm", seed=7, copy_attention=True, **options).double().eval(), 4)


@pytest.mark.parametrize("options", [{}, {"decoder_out_embed_dim": 9}, {"output_layer": "linear"}])
@pytest.mark.parametrize("feeding", ["output", "context", "none"])
def test_the_loss_of_a_model_is_that_of_its_probabilities(options, feeding):
    model, batch = make(input_feeding=feeding, **options), sample()
    output = model(**batch["net_input"])
    log_probs = output[0]
    torch.testing.assert_close(model.get_normalized_probs(output, log_probs=True), log_probs.float())
    expected, nll = label_smoothed_nll_loss(log_probs.flatten(0, 1), batch["target"].flatten(), 0.1, ignore_index=PAD)
    found, extra = model(**batch["net_input"], targets=Targets(batch["target"], PAD, 0.1))
    torch.testing.assert_close((found.loss, found.nll), (expected, nll.detach()))
    leaves = dict(model.named_parameters())
    assert "decoder.copying.gate.weight" in leaves
    grads = (torch.autograd.grad(x, list(leaves.values())) for x in (found.loss, expected))
    torch.testing.assert_close(*(dict(zip(leaves, of)) for of in grads))


def test_in_bfloat16_products_and_without_gradients(bfloat16):
    models, batch = (make(matmul_precision="bfloat16"), make()), sample()
    given = {**batch["net_input"], "targets": Targets(batch["target"], PAD, 0.1)}
    found, expected = (model.float().train()(**given)[0].loss.item() for model in models)
    assert found != expected and math.isclose(found, expected, rel_tol=1e-3)
    with torch.no_grad():
        assert not models[0](**given)[0].loss.requires_grad


@refuses(
    ("attn_lstm", {"adaptive_softmax_cutoff": "5"}, "leave it or --adaptive-softmax-cutoff 5 out"),
    ("attn_lstm", {"decoder_attention": "False"}, "--copy-attention: .* --decoder-attention False"),
    ("attn_lstm", {"attention": "sigmoid"}, "--attention sigmoid: the weights do not sum to one"),
    ("attn_lstm", {"attention": "structured"}, "with --structured-scale 1 they do"),
    ("attn_lstm", {"attention_max_normalize": True}, "--attention-max-normalize: the weights do not sum to one"),
    ("lstm_latent_small", {}, "--copy-attention: .* a latent alignment has one per source position"),
)
def test_what_does_not_go_with_copying_is_one_line(arch, options):
    build(arch, fake_task(), copy_attention=True, **options)
