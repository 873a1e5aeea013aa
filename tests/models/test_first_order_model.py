"""Models with first-order alignments: exact likelihood and gradients, padding, steps, refusals."""

import latent_models
import pytest
import torch
from latent_models import PAD, alignments, criterion, sample
from models_for_tests import LENGTHS, assert_steps_equal_the_whole, build, fake_task, pad_batch
from refusals import refuses

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.dependent_alignments import FirstOrderConfig, FirstOrderModel
from fairseq_attn_plugin.ops.likelihoods.first_order import forward_algorithm

ARCH = "lstm_latent_first_order_small"


def make(monotonic=False, **options):
    model = latent_models.make(arch=ARCH, jump_monotonic=monotonic, jump_window=2, **options)
    model.decoder.jumps.data = torch.tensor([-1.5, 0.5, 0.3, 2.0, -0.7], dtype=torch.float64)
    return model


def log_likelihoods(model, batch):
    """log p(y_t | y_<t, x) ``[B, T]`` by the formulas, from the logits of all pairs, differentiable."""
    target = batch["target"]
    latent = alignments(model, batch)
    features = torch.tanh(latent.memory.unsqueeze(1) + latent.query.unsqueeze(2))
    log_probs = (features @ latent.weight.t() + latent.bias).log_softmax(-1)
    index = target[:, :, None, None].expand(*log_probs.shape[:3], 1)
    emissions = log_probs.gather(-1, index).squeeze(-1).masked_fill(target.eq(PAD).unsqueeze(-1), 0.0)
    return forward_algorithm(latent.chain, latent.log_prior, emissions)[1]


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("feeding", ["context", "none"])
def test_objective_equals_backpropagation_through_all_logits(monotonic, feeding):
    model, batch = make(monotonic, input_feeding=feeding), sample()
    expected = -log_likelihoods(model, batch).sum()
    wanted = torch.autograd.grad(expected, list(model.parameters()), allow_unused=True)
    model.train()
    loss, size, logged = criterion(objective="first-order")(model, batch)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(logged["marginal"], expected.detach())
    assert [one is None for one in found] == [one is None for one in wanted]
    both = ([grad for grad in some if grad is not None] for some in (found, wanted))
    torch.testing.assert_close(*both, rtol=1e-9, atol=1e-11)
    assert dict(zip(dict(model.named_parameters()), found))["decoder.jumps"].any()


def test_forward_and_validation_give_the_likelihood():
    model, batch = make(), sample()
    with torch.no_grad():
        expected = log_likelihoods(model, batch)
        log_probs, extra = model(**batch["net_input"])
        gold = log_probs.gather(-1, batch["target"].unsqueeze(-1)).squeeze(-1)
        real = batch["target"].ne(PAD)
        torch.testing.assert_close(gold[real], expected[real])
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones_like(expected))
        loss, _, logged = criterion(objective="first-order").eval()(model, batch)
    torch.testing.assert_close(loss, -expected[real].sum())
    torch.testing.assert_close(logged["nll_loss"], loss)
    assert logged["soft"] > 0 and logged["prior_correct"] >= 0


@pytest.mark.parametrize("monotonic", [False, True])
def test_padding_changes_nothing(monotonic):
    model, real = make(monotonic), sample()["target"].ne(PAD)
    with torch.no_grad():
        plain, *others = (model(**sample(*shape)["net_input"])[0] for shape in ((), ("left", 9), ("right", 8)))
    for other in others:
        torch.testing.assert_close(other[real], plain[real])


@pytest.mark.parametrize("monotonic", [False, True])
def test_steps_of_a_search_equal_the_whole(monotonic):
    with torch.no_grad():
        assert_steps_equal_the_whole(make(monotonic), pad_batch(LENGTHS))


def test_posterior_alignments():
    """p(z | x, y) knows the words to come; the last word has none, where filter and posterior agree."""
    model, batch = make(True), sample()
    source, previous = (batch["net_input"][key] for key in ("src_tokens", "prev_output_tokens"))
    with torch.no_grad():
        (log_probs, _), weights = model.forced(source, previous, batch["target"])
        real = batch["target"].ne(PAD)
        torch.testing.assert_close(log_probs[real], model(**batch["net_input"])[0][real])
    for found in weights.values():
        torch.testing.assert_close(found[real].sum(-1), torch.ones(int(real.sum()), dtype=torch.float64))
    mean = (weights["bayes"] * torch.arange(source.size(1))).sum(-1)
    assert all((row[:-1] <= row[1:] + 1e-9).all() for row in (mean[i][real[i]] for i in range(len(real))))
    assert set(model.posteriors) | {"attention"} == set(weights)


@refuses(
    ({"latent_posterior": "True"}, "--latent-posterior True: first-order"),
    ({"latent_topk": 3}, "--latent-topk 3: the forward algorithm"),
    ({"latent_prediction": "soft"}, "--latent-prediction soft"),
    ({"jump_window": 0}, "--jump-window 0: must be at least 1"),
    ({"attention": "sigmoid"}, "--attention sigmoid"),
)
def test_refused_options(options):
    build(ARCH, fake_task(), **options)


def test_refused_objectives():
    with pytest.raises(OptionError, match="--objective marginal: takes alignments as independent"):
        criterion(objective="marginal")(make(), sample())
    with pytest.raises(OptionError, match="--objective first-order: needs alignments that depend"):
        criterion(objective="first-order")(latent_models.make(), sample())
    options = {**vars(FirstOrderConfig()), "_name": "lstm_latent_first_order"}
    for given, name in (({"_name": "cross_entropy"}, "cross_entropy"), (None, None)):
        with pytest.raises(OptionError, match=f"--criterion {name}: .* --objective first-order"):
            FirstOrderModel.check_training({"model": options, "criterion": given})
