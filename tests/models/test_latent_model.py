"""Models with a latent alignment: prediction, posterior, and the criterion that trains them."""

import pytest
import torch
from latent_models import PAD, SOURCES, TARGETS, alignments, criterion, make, needed_by, sample
from models_for_tests import (
    assert_steps_equal_the_whole,
    build,
    data_parallel,
    dictionary,
    fake_task,
    logged,
    needs_autocast,
)
from refusals import refuses

from fairseq_attn_plugin.criterions.objectives import OBJECTIVES, Batch, MovingAverage, Settings, evaluate
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.ops.likelihoods.alignment_blocks import Alignments

import oracles


def test_prediction_is_the_marginal_of_the_formula():
    model, batch = make(), sample()
    log_probs, extra = model(**batch["net_input"])
    latent = alignments(model, batch)
    words = latent.words(batch["target"], PAD)
    for row, step in ((0, 0), (1, 1), (2, 3)):
        real = [j for j in range(6) if batch["net_input"]["src_tokens"][row, j] != PAD]
        given = torch.stack([oracles.word_log_probs(words, row, step, j) for j in real])
        expected = torch.log((extra["attn"][0][row, step, real].unsqueeze(1) * given.exp()).sum(0))
        torch.testing.assert_close(log_probs[row, step], expected)
    normalized = model.get_normalized_probs((log_probs, extra), log_probs=True, sample=None)
    torch.testing.assert_close(normalized.double(), log_probs, rtol=1e-5, atol=1e-5)  # fairseq's own are in float32
    gold = log_probs.gather(-1, batch["target"].unsqueeze(-1)).squeeze(-1)[batch["target"].ne(PAD)]
    torch.testing.assert_close(evaluate(Batch(latent, batch["target"], PAD)).marginal, -gold.sum())


def test_states_do_not_depend_on_the_alignment_and_the_mean_context_is_fed():
    """The recurrence is the one of the ordinary model with input feeding of the context."""
    model = make()
    options = {"attention_score": "additive", "attention_hidden_dim": 128, "decoder_zero_init": True}
    ordinary = build("attn_lstm", input_feeding="context", **options).double().eval()
    ordinary.load_state_dict(
        {name: value for name, value in model.state_dict().items() if name in ordinary.state_dict()}
        | {"decoder.output_projection.weight": model.decoder.output_projection.weight}
    )
    net_input = sample()["net_input"]
    torch.testing.assert_close(*(m(**net_input)[1]["attn"][0] for m in (model, ordinary)))


def test_topk_of_everything_is_the_marginal_and_of_one_is_hard():
    model, batch = make(), sample()
    exact, extra = model(**batch["net_input"])
    model.decoder.topk = 6
    torch.testing.assert_close(model(**batch["net_input"])[0], exact)
    model.decoder.topk = 1
    best = extra["attn"][0].argmax(-1)
    latent = alignments(model, batch)
    expected = oracles.word_log_probs(latent.words(batch["target"], PAD), 1, 1, best[1, 1])
    torch.testing.assert_close(model(**batch["net_input"])[0][1, 1], expected)


def test_steps_of_a_search_equal_the_whole():
    assert_steps_equal_the_whole(make(latent_topk=2), sample()["net_input"]["src_tokens"])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_has_gradients_and_logs(name):
    model, crit = build(**needed_by(name)).double().train(), criterion(objective=name)
    crit.train()
    loss, size, sums = crit(model, sample())
    loss.backward()
    assert size == sum(TARGETS)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert {"bound", "reconstruction", "prior_entropy"} <= set(sums)
    assert ("posterior_entropy" in sums) == (OBJECTIVES[name].posterior)
    for module in (model, crit):
        module.eval()
    with torch.no_grad():
        loss, _, sums = crit(model, sample())
    assert {"nll_loss", "marginal", "soft", "bound", "reconstruction", "prior_correct"} <= set(sums)
    assert loss == sums["nll_loss"] == sums["soft" if name in ("soft", "dirichlet") else "marginal"]


@pytest.mark.parametrize("name", ["soft", "marginal", "hard-enum", "elbo-enum"])
def test_loss_does_not_depend_on_padding_or_batch(name):
    model, crit = make(), criterion(objective=name)
    for mode in (True, False):
        crit.train(mode)
        results = [
            crit(model, sample(*shape))[2] for shape in (("left", None, None), ("right", 8, 7), ("left", 9, None))
        ]
        for other in results[1:]:
            torch.testing.assert_close(other, results[0])
        total = 0.0
        for row in range(len(SOURCES)):
            whole = sample("right")
            alone = {key: value[row : row + 1] for key, value in whole["net_input"].items()}
            alone["src_tokens"] = alone["src_tokens"][:, : SOURCES[row]]
            total += crit(model, {**whole, "net_input": alone, "target": whole["target"][row : row + 1]})[0]
        torch.testing.assert_close(total, results[0]["loss"])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_source_without_words_leaves_the_others_alone(name):
    model, batch = build(**needed_by(name)).double().eval(), sample("right")
    source = batch["net_input"]["src_tokens"].clone()
    source[1] = PAD
    net_input = {**batch["net_input"], "src_tokens": source}
    crit = criterion(objective=name)
    for mode in (True, False):
        torch.manual_seed(0)
        loss, _, sums = crit.train(mode)(model, {**batch, "net_input": net_input})
        assert loss.isfinite() and loss < 20 * sum(TARGETS)
        assert all(torch.as_tensor(value).isfinite() for value in sums.values())
    with torch.no_grad():
        log_probs = model(**net_input)[0]
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(4, 5, dtype=torch.float64))


@pytest.mark.parametrize("name", ["elbo-enum", "marginal"])
@pytest.mark.parametrize("find_unused", [False, True])
def test_data_parallel_wrapper_sees_every_parameter(name, find_unused, tmp_path):
    model = make(torch.float32).train()
    crit = criterion(objective=name).train()
    expected = make(torch.float32).train()
    crit(expected, sample())[0].backward()
    with data_parallel(model, tmp_path, find_unused_parameters=find_unused) as wrapped:
        crit(wrapped, sample())[0].backward()
    for (parameter_name, one), other in zip(model.named_parameters(), expected.parameters()):
        if name == "elbo-enum" or not parameter_name.startswith("posterior"):
            torch.testing.assert_close(one.grad, other.grad)


def test_checkpoints_can_be_averaged():
    assert all(value.is_floating_point() for value in make().state_dict().values())


def test_posterior_sees_the_word_that_is_predicted_and_the_prior_does_not():
    model, batch = make(), sample()
    before, changed = alignments(model, batch), batch["target"].clone()
    changed[0, 2] = 7 if changed[0, 2] != 7 else 8
    after = alignments(model, {**batch, "target": changed})
    assert torch.equal(before.log_prior, after.log_prior)
    assert not torch.allclose(before.log_posterior[0], after.log_posterior[0])
    torch.testing.assert_close(before.log_posterior[1:], after.log_posterior[1:])
    mask = batch["net_input"]["src_tokens"].eq(PAD).unsqueeze(1)
    assert (after.log_posterior.exp().masked_select(mask) == 0).all()
    torch.testing.assert_close(after.log_posterior.exp().sum(-1), torch.ones(4, 5, dtype=torch.float64))


def test_embeddings_are_shared_with_the_posterior():
    model = make()
    assert model.posterior.source.embed_tokens is model.encoder.embed_tokens
    assert model.posterior.target.embed_tokens is model.decoder.embed_tokens
    words = dictionary()
    sizes = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"), 12)
    model = make(task=fake_task(words, words), share_all_embeddings=True, **sizes)
    assert model.posterior.source.embed_tokens is model.posterior.target.embed_tokens
    assert model(**sample()["net_input"])[0].size(-1) == len(words)


def test_alignments_given_the_whole_target():
    model, batch = make(), sample()
    source, target, latent = batch["net_input"]["src_tokens"], batch["target"], alignments(model, batch)
    found, weights = model.forced(source, batch["net_input"]["prev_output_tokens"], target)
    real, prior, words = target.ne(PAD), weights["attention"], latent.words(target, PAD)
    whole, extra = model(**batch["net_input"])
    torch.testing.assert_close(found[0], whole)
    assert "attention_entropy_statistic" in extra["penalties"]
    assert torch.equal(prior, found[1]["attn"][0])
    assert torch.equal(weights["posterior"], latent.log_posterior.exp())
    expected = torch.zeros_like(prior)
    for row, step in real.nonzero().tolist():
        for j in source[row].ne(PAD).nonzero().flatten().tolist():
            f = oracles.word_log_probs(words, row, step, j)[target[row, step]]
            expected[row, step, j] = prior[row, step, j] * f.exp()
    expected = expected / expected.sum(-1, keepdim=True).clamp(min=1e-30)
    torch.testing.assert_close(weights["bayes"][real], expected[real])


def test_the_checkpoint_remembers_how_it_predicts():
    model, batch = make(), sample()
    exact = model(**batch["net_input"])[0]
    criterion(objective="soft").train()(model.train(), batch)
    trained = make()
    trained.load_state_dict(model.state_dict())
    assert trained.decoder.predicts_soft
    soft = trained(**batch["net_input"])[0]
    assert not torch.allclose(soft, exact)
    torch.testing.assert_close(soft.exp().sum(-1), torch.ones(4, 5, dtype=torch.float64))
    trained.decoder.prediction = "marginal"
    torch.testing.assert_close(trained(**batch["net_input"])[0], exact)
    trained.decoder.prediction = "soft"
    assert trained.decoder.predicts_soft


def test_dropout_is_the_same_for_all_alignments_of_a_step():
    model = make(dropout=0.5).train()
    batch = sample()
    latent = alignments(model, batch)
    assert latent.keep.shape == latent.query.shape
    assert set(latent.keep.unique().tolist()) == {0.0, 2.0}
    assert alignments(model.eval(), batch).keep is None


def test_dropout_of_a_linear_output_layer():
    """Of the encodings, the same in all steps, and of the states."""
    model = make(dropout=0.5, output_layer="linear").train()
    model.encoder.eval()
    batch = sample()
    latent = alignments(model, batch)
    width = latent.split
    assert latent.keep is None and latent.memory[..., :width].any() and latent.query[..., width:].any()
    assert not latent.memory[..., width:].any() and not latent.query[..., :width].any()
    features, states = latent.memory[1, :, :width].ne(0), latent.query[..., width:].ne(0)  # the source without padding
    assert torch.equal(features, features[:1].expand(features.shape))
    assert not torch.equal(states[:, 0], states[:, 1])
    assert 0.2 < features.double().mean() < 0.8 and 0.3 < states.double().mean() < 0.7
    assert alignments(model.eval(), batch).memory[1, :, :width].all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_linear_output_layer_pair_by_pair(name, monkeypatch):
    model, batch = build(seed=7, output_layer="linear", **needed_by(name)).double().train(), sample()
    found = []
    for separable in (True, False):
        if not separable:
            monkeypatch.setattr(Alignments, "sums_parts", False)
        torch.manual_seed(8)
        loss, _, sums = criterion(objective=name, label_smoothing=0.1).train()(model, batch)
        model.zero_grad()
        loss.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append((loss.detach(), gradients, {key: float(value) for key, value in sums.items()}))
    torch.testing.assert_close(*found)


@needs_autocast
@pytest.mark.parametrize("name", OBJECTIVES)
def test_autocast_trains_finitely(name):
    model = build(seed=7, **needed_by(name)).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _, sums = criterion(objective=name).train()(model, sample())
    loss.backward()
    expected, _, _ = criterion(objective=name).train()(model, sample())
    assert loss.dtype == torch.float32 and abs(loss - expected) < 0.05 * abs(expected)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_warm_start_trains_the_model_as_soft_and_the_posterior_towards_the_prior():
    """The random numbers included: the model's first updates are those of the objective soft."""
    model, batch = make(dropout=0.3).train(), sample()
    crit, losses = criterion(objective="dirichlet", soft_updates=10).train(), []
    for one in (crit, criterion(objective="soft").train()):
        torch.manual_seed(1)
        losses.append(one(model, batch)[0])
    found, expected = (torch.autograd.grad(loss, [*model.parameters()], allow_unused=True) for loss in losses)
    for (name, _), a, b in zip(model.named_parameters(), found, expected):
        if name.startswith("posterior"):
            assert a.abs().sum() > 0
        else:
            torch.testing.assert_close(a, b)
    crit.updates.number = 10
    assert abs(crit(model, batch)[0] - losses[0]) > 1e-3


def test_validation_of_sentence_averages_is_per_word():
    model = make()
    crit = criterion(objective="elbo-enum", sentence_avg=True)
    assert crit.train()(model, sample())[1] == len(TARGETS)
    assert crit.eval()(model, sample())[2]["sample_size"] == sum(TARGETS)


def test_logged_values_of_two_workers_are_those_of_one():
    model, crit, batch = make(), criterion(objective="elbo-enum").eval(), sample("right")
    halves = []
    for rows in (slice(0, 1), slice(1, 4)):
        part = {name: value[rows] for name, value in batch["net_input"].items()}
        half = {"net_input": part, "target": batch["target"][rows], "ntokens": sum(TARGETS[rows])}
        halves.append(crit(model, half)[2])
    values = logged(crit, [crit(model, sample())[2]])
    assert values == pytest.approx(logged(crit, halves), rel=1e-4)
    assert values["ppl"] == pytest.approx(values["marginal_ppl"], rel=1e-3)
    assert values["ppl"] == pytest.approx(2 ** values["nll_loss"], rel=1e-2)
    assert values["bound"] >= values["marginal"]
    names = {"kl", "posterior_entropy", "prior_accuracy", "posterior_accuracy", "reconstruction_ppl", "soft_ppl"}
    assert names <= set(values)


@refuses(
    ({"objective": "elbo"}, "--objective elbo.*elbo-enum"),
    ({"baseline": "mean"}, "--baseline mean.*soft, none, average"),
    ({"num_samples": 0}, "--num-samples 0.*at least 1"),
    ({"exact_positions": 0}, "--exact-positions 0.*at least 1"),
    ({"objective": "wake-sleep", "num_samples": 1, "control_variates": True}, "--num-samples 1.*at least 2 with"),
    ({"gumbel_tau": 0.0}, "--gumbel-tau 0.0.*above 0"),
    ({"kl_weight": -0.5}, "--kl-weight -0.5.*0 or more"),
)
def test_wrong_options_of_the_criterion(options):
    criterion(**options)


@refuses(
    ({"latent_topk": 0}, "--latent-topk 0.*at least 1"),
    ({"latent_topk": 1025}, "--latent-topk 1025.*1024"),
    ({"latent_prediction": "best"}, "--latent-prediction best.*auto, marginal, soft"),
    ({"input_feeding": "output"}, "--input-feeding output.*context or none"),
    ({"adaptive_softmax_cutoff": "5"}, "--adaptive-softmax-cutoff 5"),
    ({"decoder_attention": "False"}, "--decoder-attention False"),
    ({"posterior_layers": 0}, "--posterior-layers 0.*at least 1"),
    ({"posterior_normalizer": "sparse"}, "--posterior-normalizer sparse.*sparsemax"),
    ({"attention": "sigmoid"}, "--attention sigmoid: .*no prior of an alignment"),
    ({"attention": "mocha"}, "--attention mocha: has expectations in training and choices in translation"),
    ({"attention": "local-p"}, "--attention local-p: .*no prior of an alignment"),
    ({"attention": "structured"}, "--attention structured: .*no prior of an alignment.*--structured-scale 1 they do"),
    ({"attention": "election"}, "--attention election: .*no prior of an alignment.*--attention gaussian"),
    ({"attention_max_normalize": True}, "^--attention-max-normalize: .*no prior of an alignment; leave it out$"),
    ({"attention_max_normalize": True, "attention": "gaussian"}, "^--attention-max-normalize: .*; leave it out$"),
)
def test_wrong_options_of_the_model(options):
    build("lstm_latent_small", **options)


def test_the_posterior_has_the_options_of_its_normalizer():
    model = build("lstm_latent_small", posterior_normalizer="fusedmax", fusedmax_strength=0.7)
    assert model.posterior.normalize.config.strength == 0.7


def test_objectives_and_models_that_do_not_go_together():
    with pytest.raises(OptionError, match="--criterion latent_alignment: .*lstm_latent.*label_smoothed_cross_entropy"):
        criterion(objective="soft")(build("lstm_soft"), sample())
    for objective, options, words in (
        ("wake-sleep", {"latent_posterior": "False"}, "posterior.*--latent-posterior True"),
        ("sparse-marginal", {}, "add --attention-normalizer sparsemax"),
        ("sparse-elbo", {}, "--posterior-normalizer softmax gives one to all; choose sparsemax"),
    ):
        with pytest.raises(OptionError, match=f"--objective {objective}: .*{words}"):
            criterion(objective=objective)(make(**options), sample())


@pytest.mark.parametrize(
    ("dtype", "precision"), [(torch.float64, "float32"), (torch.float32, "bfloat16")], ids=["float64", "bfloat16"]
)
def test_recomputing_the_posterior_changes_nothing(dtype, precision, bfloat16):
    """Neither its dropout nor the precision of its products."""
    model, batch = make(dtype, dropout=0.3, matmul_precision=precision).train(), sample()
    results = []
    for recompute in (False, True):
        torch.manual_seed(3)
        latent = model(**batch["net_input"], target=batch["target"], recompute=recompute)
        words = Batch(latent, batch["target"], PAD)
        loss = OBJECTIVES["elbo-enum"](words, Settings(), MovingAverage()).loss
        results.append((loss, torch.autograd.grad(loss, list(model.parameters()))))
    torch.testing.assert_close(results[0], results[1])
