"""``--matmul-precision``: bfloat16 is close to float32 for every mechanism, and float32 is what it was."""

import logging
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from latent_models import criterion, sample
from models_for_tests import LENGTHS, make, needs_autocast, pad_batch, systems, targets
from models_for_tests import build as build_translator
from test_han import DOCUMENTS, batch
from test_han import build as build_classifier
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.rnn import KINDS
from fairseq_attn_plugin.ops import lstm as lstm_ops
from fairseq_attn_plugin.ops import precision
from fairseq_attn_plugin.ops.precision import has_bfloat16, precision_of, products_in

BFLOAT16 = {"matmul_precision": "bfloat16"}


@pytest.fixture(autouse=True)
def layers_of_our_own(monkeypatch, bfloat16):
    """Models of this size would stay with torch's."""
    monkeypatch.setattr(lstm_ops, "LEAST_PRODUCTS", 0)


def trained(model, source, previous, target):
    """The loss per word, and the gradient of every parameter; ``-inf`` of no use stays out."""
    model.train()
    output, extra = model(source, None, previous)
    log_probs = model.get_normalized_probs((output, extra), log_probs=True)
    loss = F.nll_loss(log_probs.flatten(0, 1), target.flatten(), ignore_index=1)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def assert_close(found, expected, cosine=0.99):
    """Gradients by name, float32 and of nearly the same direction; those of rounding size are not compared."""
    assert found.keys() == expected.keys()
    largest = max(float(gradient.norm()) for gradient in expected.values())
    for name, gradient in expected.items():
        assert found[name].dtype == torch.float32
        if gradient.norm() > 1e-3 * largest:
            assert F.cosine_similarity(found[name].flatten(), gradient.flatten(), dim=0) > cosine, name


def assert_nearly_equal(expected, found):
    """Losses and gradients that are close, and not the same."""
    assert not all(torch.equal(found[1][name], gradient) for name, gradient in expected[1].items())
    torch.testing.assert_close(found[0], expected[0], rtol=2e-2, atol=0)
    assert_close(found[1], expected[1])


@systems
def test_bfloat16_is_close_to_float32(attention, feeding):
    source, previous = pad_batch(LENGTHS), targets()
    models = (make(attention, feeding, torch.float32, **options) for options in ({}, BFLOAT16))
    assert_nearly_equal(*(trained(model, source, previous, previous.roll(-1, 1)) for model in models))


LATENT = [("lstm_latent_small", objective) for objective in ("soft", "marginal", "elbo-enum", "hard-enum")]
LATENT += [("lstm_latent_small", "topk-marginal")]
LATENT += [("lstm_posterior_small", "marginal"), ("lstm_latent_first_order_small", "first-order")]


@pytest.mark.parametrize("arch, objective", LATENT)
def test_latent_objectives(arch, objective):
    results = []
    for options in ({}, BFLOAT16):
        model = build_translator(arch, seed=1, dropout=0.0, **options).train()
        loss, *_ = criterion(objective=objective).train()(model, sample())
        loss.backward()
        results.append((loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}))
    assert_nearly_equal(*results)


class Casts(TorchDispatchMode):
    """Shapes of the tensors that are cast to bfloat16."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        if function is torch.ops.aten._to_copy.default and (kwargs or {}).get("dtype") == torch.bfloat16:
            self.shapes.append(tuple(args[0].shape))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind, gates", [("lstm", 4), ("gru", 3)])
@pytest.mark.parametrize("directions", [1, 2])
def test_layers_with_few_products_are_torchs(monkeypatch, kind, gates, directions):
    """A step of R rows has directions x R x (gates H x I + gates H x H) multiplications."""
    units, width, rows = 6, 5, 7
    rnn = KINDS[kind](width, units, num_layers=2, bidirectional=directions == 2, batch_first=True)
    products = directions * rows * gates * units * (width + units)
    x = torch.randn(rows, 3, width)
    for least, expected in ((products, True), (products + 1, False)):
        monkeypatch.setattr(lstm_ops, "LEAST_PRODUCTS", least)
        assert not lstm_ops.computed_by_layers(x, rnn)  # in float32
        with products_in(torch.bfloat16):
            assert lstm_ops.computed_by_layers(x, rnn) == expected


@pytest.mark.parametrize("feeding", ["output", "none"])
def test_weights_are_cast_once_an_update(feeding):
    # sizes that no number of words has
    sizes = {"encoder_embed_dim": 23, "encoder_hidden_size": 19, "decoder_embed_dim": 29, "decoder_hidden_size": 31}
    options = {**BFLOAT16, **sizes, "attention_score": "additive", "decoder_out_embed_dim": 37}
    model = make("soft", feeding, torch.float32, **options)
    expected = [layer.weight.shape for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    expected += [weight.shape for weight in model.encoder.lstm.parameters() if weight.dim() == 2]
    if feeding == "none":
        expected += [weight.shape for weight in model.decoder.lstm.parameters() if weight.dim() == 2]
    else:  # of the embeddings; joined: of what is fed and the state, of both layers' states
        expected += [(4 * 31, 29), (4 * 31, 31 + 31), (4 * 31, 31 + 31)]
    expected = Counter(map(tuple, expected))
    with Casts() as casts:
        trained(model, pad_batch([5] * 3), targets(3, 9), targets(3, 9))
    assert Counter(shape for shape in casts.shapes if shape in expected) == expected


def test_evaluation_is_in_float32():
    model, plain = (make("soft", dtype=torch.float32, **options) for options in (BFLOAT16, {}))
    source, previous = pad_batch(LENGTHS), targets()
    assert torch.equal(model(source, None, previous)[0], plain(source, None, previous)[0])
    assert precision_of(model) == torch.float32 and precision_of(model.train()) == torch.bfloat16
    model(source, None, previous)
    assert precision.product_type(torch.ones(1)) == torch.float32


def test_parts_and_replicas_have_the_precision_of_their_model():
    model = build_translator("lstm_agreement_small", **BFLOAT16).train()
    replica = build_translator("lstm_soft", **BFLOAT16).train()._replicate_for_data_parallel()
    replica._modules = {}  # torch's DataParallel leaves its replicas without parameters
    assert {precision_of(one) for one in (model, *model.models.values(), replica)} == {torch.bfloat16}


@pytest.mark.parametrize("arch", ["lstm_soft", "lstm_latent_small", "lstm_agreement_small", "han"])
def test_unknown_precision(arch):
    build = build_classifier if arch == "han" else build_translator
    with pytest.raises(OptionError, match="--matmul-precision float8: must be one of float32, bfloat16"):
        build(arch, matmul_precision="float8")


def test_half_parameters_take_precedence(caplog):
    source, previous = pad_batch(LENGTHS), targets()
    model, plain = (make("soft", dtype=torch.bfloat16, **options).train() for options in (BFLOAT16, {}))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert torch.equal(model(source, None, previous)[0], plain(source, None, previous)[0])
    assert [r.message for r in caplog.records if "--matmul-precision" in r.message] == [
        "--matmul-precision bfloat16: has no effect, because --fp16 or --bf16 make products of torch.bfloat16"
    ]


@needs_autocast
def test_autocast_takes_precedence():
    source, previous = pad_batch(LENGTHS), targets()
    model, plain = (make("soft", dtype=torch.float32, **options).train() for options in (BFLOAT16, {}))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model(source, None, previous)[0], plain(source, None, previous)[0])


def test_machine_without_bfloat16_computes_in_float32_and_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: False)
    source, previous = pad_batch(LENGTHS), targets()
    models = (make("soft", dtype=torch.float32, **options) for options in ({}, BFLOAT16))
    with caplog.at_level(logging.WARNING):
        (loss, gradients), (other, found) = (trained(one, source, previous, previous.roll(-1, 1)) for one in models)
    assert torch.equal(loss, other)
    assert all(torch.equal(found[name], gradient) for name, gradient in gradients.items())
    assert [r.message for r in caplog.records] == [
        "--matmul-precision bfloat16: this machine has no instructions for it; products are computed in float32"
    ]


@pytest.mark.parametrize(
    ("capability", "hip", "expected"), [((7, 5), None, False), ((8, 0), None, True), ((7, 5), "6.0", True)]
)
def test_gpus_with_bfloat16_are_those_from_ampere_on(monkeypatch, capability, hip, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_: True)  # by emulation
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert has_bfloat16("cuda") is expected


def test_documents_are_classified():
    results = []
    for options in ({}, BFLOAT16):
        model = build_classifier(dtype=torch.float32, **options).train()
        model.dropout_module.p = 0.0
        logits, _ = model(batch(DOCUMENTS), classification_head_name="head")
        F.cross_entropy(logits, torch.arange(len(DOCUMENTS)) % 3).backward()
        results.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert_close(results[1], results[0])
