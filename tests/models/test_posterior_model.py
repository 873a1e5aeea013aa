"""Posterior attention: against the formula, in training, in a search, and what it refuses."""

import latent_models
import pytest
import torch
from latent_models import PAD, SOURCES, TARGETS, criterion, sample
from models_for_tests import assert_steps_equal_the_whole
from refusals import refuses

from fairseq_attn_plugin.attention import registry
from fairseq_attn_plugin.attention.soft import SoftAttention
from fairseq_attn_plugin.decoding.export.onnx_folder import check_exportable
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.decoder_state import DecoderState
from fairseq_attn_plugin.modules.latent import latent_decoder, posterior_decoder
from fairseq_attn_plugin.ops.likelihoods import alignment_blocks

import oracles

CASES = [
    {},
    {"attention_bias": "markov"},
    {"attention_bias": "markov,fertility", "attention_fertility_weight": 0.0, "posterior_topk": 2},
    {"output_layer": "linear"},
    {"output_layer": "linear", "attention_bias": "markov", "posterior_topk": 2},
    {"output_layer": "linear", "decoder_embed_dim": 30, "share_decoder_input_output_embed": True},
]


def make(dtype=torch.float64, **options):
    options = {"decoder_layers": 1, "latent_posterior": "False", **options}
    decoder = (model := latent_models.make(dtype, arch="lstm_posterior_small", **options)).decoder
    for weight in (decoder.vocabulary[0], getattr(decoder.output_projection, "weight", None)):
        if weight is not None:  # so that words tell alignments
            weight.data *= 8
    return model


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
def test_equals_the_formula_forward_and_backward(options, side):
    model, net_input = make(**options), sample(side)["net_input"]
    factor = torch.randn(24, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    log_probs, extra = model(**net_input)
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = other = 0
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS)):
        tokens = net_input["src_tokens"][row]
        tokens, real = tokens[tokens.ne(PAD)], tokens.ne(PAD)
        assert len(tokens) >= source
        previous = net_input["prev_output_tokens"][row, :target]
        words, priors, _ = oracles.posterior_attention(model, tokens, previous, options.get("posterior_topk"))
        torch.testing.assert_close(log_probs[row, :target], words, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(extra["attn"][0][row, :target][:, real], priors, rtol=1e-9, atol=1e-10)
        size = words.size(-1)
        total, other = total + (log_probs[row, :target] @ factor[:size]).sum(), other + (words @ factor[:size]).sum()
    grads = (torch.autograd.grad(x, parameters, retain_graph=True, materialize_grads=True) for x in (total, other))
    torch.testing.assert_close(*grads, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("gradients", [True, False])
def test_sums_that_could_lose_words_are_computed_one_by_one(gradients, monkeypatch):
    model, net_input = make(output_layer="linear", posterior_topk=2), sample()["net_input"]
    parameters = [p for p in model.parameters() if p.requires_grad]

    def run():
        with torch.set_grad_enabled(gradients):
            log_probs = model(**net_input)[0]
            grads = torch.autograd.grad(log_probs[..., :5].sum(), parameters, allow_unused=True) if gradients else ()
        return log_probs, [grad for grad in grads if grad is not None]

    one_by_one = []
    plain = model.decoder._log_likelihoods
    monkeypatch.setattr(model.decoder, "_log_likelihoods", lambda *rest: one_by_one.append(1) or plain(*rest))
    right = run()
    assert not one_by_one
    monkeypatch.setattr(posterior_decoder, "SAFE_SUMS", (float("inf"), float("inf")))
    found = run()
    assert one_by_one
    torch.testing.assert_close(found, right)
    asked = []
    model.decoder.intervention = lambda query, found: asked.append(1) or found
    torch.testing.assert_close(run(), right)
    assert len(asked) == net_input["prev_output_tokens"].size(1), "an intervention sees each step once"


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("options", CASES, ids=str)
def test_steps_of_a_search_equal_the_whole(options, kept, monkeypatch):
    if not kept:
        monkeypatch.setattr(latent_decoder, "EXPONENTIALS_BYTES", 0)
    model = make(**options)
    _, progress = assert_steps_equal_the_whole(model, sample()["net_input"]["src_tokens"])
    assert isinstance(progress.state, DecoderState)
    assert (progress.memory.exponentials is not None) == (kept and model.decoder.is_linear)


@pytest.mark.parametrize("output_layer", ["tanh", "linear"])
@pytest.mark.parametrize("objective", ["marginal", "hard-enum"])
def test_objectives_train_it(objective, output_layer):
    model = make(posterior_topk=3, output_layer=output_layer).train()
    loss, _, _ = criterion(objective=objective)(model, sample())
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


def test_the_export_refuses_it():
    with pytest.raises(OptionError, match="x.pt: the model feeds the posterior of its alignments .*cannot be exported"):
        check_exportable(make(torch.float32), "x.pt")


class Looks(SoftAttention):
    """Recurrent, and does not say how its state follows from weights."""

    recurrent = True
    advance = registry.Attention.advance


class Counts(SoftAttention):
    """Has a state of its own, and inherits what advances the state of biases."""

    recurrent = True

    def step(self, query, memory, state=None, positions=None):
        return super().step(query, memory, None, positions)._replace(state=state)


@refuses(
    ({"input_feeding": "none"}, "--input-feeding none: posterior attention feeds .*must be context"),
    ({"posterior_topk": 0}, "--posterior-topk 0: must be at least 1"),
    ({"attention": "sigmoid"}, "--attention sigmoid: the weights do not sum to one"),
    ({"attention": "mocha"}, "--attention mocha: has expectations in training and choices in translation"),
    ({"attention": "looks"}, r"--attention looks: does not define advance\(\)"),
    ({"attention": "counts"}, r"--attention counts: does not define advance\(\)"),
)
def test_what_it_refuses(options, monkeypatch):
    monkeypatch.setitem(registry.MECHANISMS.found, "looks", Looks)
    monkeypatch.setitem(registry.MECHANISMS.found, "counts", Counts)
    make(**options)


def test_blocks_of_a_search_change_nothing(monkeypatch):
    model, batch = make(), sample()
    with torch.no_grad():
        whole = model(**batch["net_input"])[0]
        monkeypatch.setattr(alignment_blocks, "BLOCK_BYTES", {"cpu": 1})
        torch.testing.assert_close(model(**batch["net_input"])[0], whole)
