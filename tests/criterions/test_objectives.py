"""The objectives of latent alignment models: exact ones against full enumeration, estimators against their formula for
the same samples, or by their mean over many."""

import math

import pytest
import torch
from refusals import refuses

from fairseq_attn_plugin.attention.normalizers import LOG_ZERO, log_softmax
from fairseq_attn_plugin.criterions.latent_alignment import READ_BY, LatentAlignmentConfig, check_read
from fairseq_attn_plugin.criterions.objectives import OBJECTIVES, MovingAverage, Settings, evaluate
from fairseq_attn_plugin.criterions.objectives.objective import dirichlet_kl, sample
from fairseq_attn_plugin.criterions.objectives.sampled import concentrations
from fairseq_attn_plugin.modules.latent.latent_alignments import top_positions
from fairseq_attn_plugin.testing import check_objective
from fairseq_attn_plugin.testing.objectives import PAD
from fairseq_attn_plugin.testing.objectives import draw_leaves as leaves
from fairseq_attn_plugin.testing.objectives import make_batch as make

import oracles

NAMES = ("prior_scores", "posterior_scores", "memory", "query", "weight", "bias")


def places(batch):
    """Sentence and step of every word."""
    return batch.target.ne(PAD).nonzero().tolist()


def words(batch):
    """(log p, log q, log p(y|j)) over the real positions of every word, and log p(. | c), by the formulas."""
    latent = batch.latent
    alignments = latent.words(batch.target, PAD)
    for row, step in places(batch):
        y, real = batch.target[row, step], (~latent.pad_mask[row]).nonzero().flatten().tolist()
        p = latent.prior[row, step, real]
        q = None if latent.log_posterior is None else latent.log_posterior[row, step, real].exp()
        f = torch.stack([oracles.word_log_probs(alignments, row, step, j)[y] for j in real])
        context = (p.unsqueeze(1) * latent.memory[row, real]).sum(0)
        hidden = torch.tanh(context + latent.query[row, step])
        logits = latent.weight @ hidden + latent.bias
        yield p, q, f, (logits - logits.logsumexp(0))[y]


EXACT = {
    "first-order": lambda p, q, f, g: -torch.log((p * f.exp()).sum()),  # equal jumps
    "sparse-marginal": lambda p, q, f, g: -torch.log((p * f.exp()).sum()),
    "topk-marginal": lambda p, q, f, g: -torch.log((p * f.exp()).sum()),  # of 5 positions, more than there are
    "sparse-elbo": lambda p, q, f, g: -(q * f).sum() + (q * torch.log(q / p)).sum(),
    "soft": lambda p, q, f, g: -g,
    "marginal": lambda p, q, f, g: -torch.log((p * f.exp()).sum()),
    "hard-enum": lambda p, q, f, g: -(p * f).sum(),
    "elbo-enum": lambda p, q, f, g: -(q * f).sum() + (q * torch.log(q / p)).sum(),
}


def gradients(loss, parts, names=NAMES):
    values = torch.autograd.grad(loss, [parts[name] for name in names], retain_graph=True, allow_unused=True)
    return [torch.zeros_like(parts[name]) if g is None else g for g, name in zip(values, names)]


def run(name, batch, **options):
    return OBJECTIVES[name](batch, Settings(**options), MovingAverage())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_keeps_the_contract(name):
    """Finite gradients, none of which reaches padding, among others."""
    check_objective(name)


@pytest.mark.parametrize("name", EXACT)
def test_exact_objectives_equal_enumeration(name):
    parts = leaves()
    batch = make(parts)
    expected = sum(EXACT[name](*word) for word in words(batch))
    terms = run(name, batch)
    torch.testing.assert_close(terms.loss, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients(terms.loss, parts), gradients(expected, parts), rtol=1e-10, atol=1e-12)


def test_evaluation_equals_enumeration():
    batch = make(leaves())
    values = evaluate(batch, topk=2)

    def total(function):
        return sum(function(*word) for word in words(batch)).detach()

    def restricted(p, q, f, g):
        best = p.argsort(descending=True)[:2]
        return -torch.log((p[best] / p[best].sum() * f[best].exp()).sum())

    torch.testing.assert_close(values.soft, total(EXACT["soft"]))
    torch.testing.assert_close(values.marginal, total(EXACT["marginal"]))
    torch.testing.assert_close(values.hard, total(EXACT["hard-enum"]))
    torch.testing.assert_close(values.topk, total(restricted))
    torch.testing.assert_close(values.reconstruction + values.kl, total(EXACT["elbo-enum"]))
    for name in ("marginal", "elbo-enum"):  # the counts of training and of validation are the same
        terms = run(name, batch)
        assert (terms.prior_correct, terms.posterior_correct) == (values.marginal_correct, values.posterior_correct)
        torch.testing.assert_close(terms.marginal, values.marginal)
    assert run("soft", batch).prior_correct == values.soft_correct
    assert 0 < values.marginal_correct + values.posterior_correct < 10


def many(copies=40, steps=250, sources=(4,), shift=0.0):
    """One word ``copies * steps`` times, with its own leaves each time: the rows of a gradient are samples of it."""
    one = leaves(sources, steps=1, seed=5)
    for name in ("prior_scores", "posterior_scores"):
        one[name] = (one[name].detach() + shift).requires_grad_()
    parts = {}
    for name, value in one.items():
        if name in ("prior_scores", "posterior_scores", "query"):
            parts[name] = value.detach().expand(copies, steps, -1).clone().requires_grad_()
        elif name == "memory":
            parts[name] = value.detach().expand(copies, -1, -1).clone().requires_grad_()
        else:
            parts[name] = value
    batch = make(parts, sources * copies, (steps,) * copies)
    target = torch.full_like(batch.target, 4)
    single = make(one, sources, (1,))
    return one, single._replace(target=target[:1, :1]), parts, batch._replace(target=target)


def assert_mean(samples, exact, slack=1e-9):
    """The mean of independent samples (dimension 0) lies within five standard errors of ``exact``."""
    samples = samples.flatten(1)
    error = samples.std(0) / math.sqrt(len(samples))
    assert ((samples.mean(0) - exact.flatten()).abs() <= 5 * error + slack).all()


ESTIMATORS = [
    ("hard-reinforce", "hard-enum", {}),
    ("hard-reinforce", "hard-enum", {"baseline": "none"}),
    ("hard-reinforce", "hard-enum", {"baseline": "average"}),
    ("elbo-reinforce", "elbo-enum", {}),
    ("elbo-reinforce", "elbo-enum", {"num_samples": 3}),
    ("elbo-sum-and-sample", "elbo-enum", {"exact_positions": 2}),
    ("hard-reinforce", "hard-enum", {"smoothing": 0.3}),
    ("elbo-sum-and-sample", "elbo-enum", {"exact_positions": 2, "smoothing": 0.3}),
]


@pytest.mark.parametrize(("name", "exact", "options"), ESTIMATORS)
def test_stochastic_gradients_have_the_exact_mean(name, exact, options):
    torch.manual_seed(1)
    one, single, parts, batch = many()
    reference = run(exact, single, smoothing=options.get("smoothing", 0.0))
    expected = dict(zip(NAMES, gradients(reference.loss, one)))
    terms = run(name, batch, **options)
    samples = dict(zip(NAMES, gradients(terms.loss, parts)))
    for key in ("prior_scores", "posterior_scores", "query"):
        assert_mean(samples[key].flatten(0, 1), expected[key])
    assert_mean(samples["memory"] / batch.target.size(1), expected["memory"])
    for value, wanted in ((terms.loss, reference.loss), (terms.reconstruction, reference.reconstruction)):
        torch.testing.assert_close(value / batch.target.numel(), wanted, rtol=0.02, atol=0.02)
    # the gradient of q is one of samples; hard-reinforce has no q
    spread = samples["posterior_scores"].flatten(0, 1).std(0)
    assert (spread > 1e-6).any() or name == "hard-reinforce"


def test_sum_and_sample_of_all_positions_is_enumeration():
    for count in (3, 4, 9):  # with K = N - 1 the rest is one position
        parts = leaves((4, 3))
        batch = make(parts, (4, 3))
        one = gradients(run("elbo-sum-and-sample", batch, exact_positions=count).loss, parts)
        torch.testing.assert_close(one, gradients(run("elbo-enum", batch).loss, parts), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("count", [1, 2])
def test_the_gradient_of_sum_and_sample_is_its_formula(count):
    """-sum_top q_j (f_j - b) - (1 - Q) log q(z) (f(z) - b) for q, with b the mean of f over the top positions, and
    -sum_top q_j f_j - (1 - Q) f(z) for the model, word by word, for the same samples."""
    parts = leaves((4, 3))
    batch = make(parts, (4, 3))
    torch.manual_seed(5)
    terms = run("elbo-sum-and-sample", batch, exact_positions=count)
    torch.manual_seed(5)
    log_q = batch.log_posterior.detach()
    drawn = sample(log_q.scatter(-1, log_q.topk(count).indices, LOG_ZERO), 1)
    expected = batch.kl()
    for (row, step), (_, q, f, _) in zip(places(batch), words(batch)):
        top, z = q.topk(count).indices, drawn[row, step, 0] - batch.latent.pad_mask[row].sum()
        constant, known = q[top].detach(), f.detach()
        rest, b = 1 - constant.sum(), (constant * known[top]).sum() / constant.sum()
        expected = expected - (q[top] * (known[top] - b)).sum() - rest * torch.log(q[z]) * (known[z] - b)
        expected = expected - (constant * f[top]).sum() - rest * f[z]
    torch.testing.assert_close(gradients(terms.loss, parts), gradients(expected, parts), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("variates", [False, True])
def test_wake_sleep_is_the_formula(variates):
    """-sum_k w_k log p(y|z_k) + (w_k - b_k) log p(z_k) + (w_k - 1/K) log q(z_k), word by word, for the same samples.
    Control variates are b_k and 1 / K; their value is zero."""
    parts, count = leaves(), 4
    batch = make(parts)
    losses = []
    for control in (not variates, variates):
        torch.manual_seed(5)
        losses.append(run("wake-sleep", batch, num_samples=count, control_variates=control).loss)
    torch.testing.assert_close(*losses)
    torch.manual_seed(5)
    drawn = sample(batch.log_posterior, count)
    expected = 0
    for (row, step), (p, q, f, _) in zip(places(batch), words(batch)):
        z = drawn[row, step] - batch.latent.pad_mask[row].sum()
        ratio = (p[z] / q[z]).detach()
        w = ratio * f[z].detach().exp()
        w, b = w / w.sum(), ratio / ratio.sum()
        expected = expected - (w * f[z] + (w - variates * b) * p[z].log() + (w - variates / count) * q[z].log()).sum()
    torch.testing.assert_close(gradients(losses[1], parts), gradients(expected, parts), rtol=1e-9, atol=1e-11)


def test_gumbel_is_its_formula_and_tends_to_samples():
    parts = leaves()
    batch = make(parts)
    torch.manual_seed(4)
    terms = run("elbo-gumbel", batch, gumbel_tau=0.7)
    torch.manual_seed(4)
    noise = -torch.empty_like(batch.log_posterior).exponential_().log()
    z = ((batch.log_posterior + noise) / 0.7).softmax(-1)
    hidden = torch.tanh(z @ batch.latent.memory + batch.latent.query)
    log_probs = (hidden @ batch.latent.weight.t() + batch.latent.bias).log_softmax(-1)
    gold = log_probs.gather(-1, batch.target.unsqueeze(-1)).squeeze(-1)
    expected = -(gold * batch.real).sum() + batch.kl()
    torch.testing.assert_close(terms.loss, expected)
    torch.testing.assert_close(gradients(terms.loss, parts), gradients(expected, parts), rtol=1e-9, atol=1e-11)
    values = [run("elbo-gumbel", batch, gumbel_tau=1e-3).reconstruction.detach() for _ in range(400)]
    assert_mean(torch.stack(values).unsqueeze(1), evaluate(batch).reconstruction)


def test_dirichlet_with_two_positions_against_quadrature():
    """With N = 2 a Dirichlet is a Beta distribution: its expectation is an integral over one number."""
    torch.manual_seed(5)
    one, single, parts, batch = many(sources=(2,), shift=2.0)  # a, b > 1: no poles at 0 and 1
    prior, posterior = concentrations(single)
    a, b = posterior[0, 0]
    z = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    log_density = (a - 1) * z.log() + (b - 1) * (1 - z).log() + (a + b).lgamma() - a.lgamma() - b.lgamma()
    mixed = torch.stack([z, 1 - z], 1) @ single.latent.memory[0] + single.latent.query[0]
    log_probs = (torch.tanh(mixed) @ single.latent.weight.t() + single.latent.bias).log_softmax(-1)[:, 4]
    reconstruction = -(log_density.exp() * log_probs).mean()
    beta = torch.distributions.Beta
    kl = torch.distributions.kl_divergence(beta(a, b), beta(*prior[0, 0]))
    mask = torch.zeros_like(prior, dtype=torch.bool)
    torch.testing.assert_close(dirichlet_kl(posterior, prior, mask)[0, 0], kl)
    exact = dict(zip(NAMES, gradients(reconstruction + kl, one)))
    terms = run("dirichlet", batch)
    samples = dict(zip(NAMES, gradients(terms.loss, parts)))
    torch.testing.assert_close(terms.reconstruction / batch.target.numel(), reconstruction, rtol=0.02, atol=0.01)
    for name in ("prior_scores", "posterior_scores", "query"):
        assert_mean(samples[name].flatten(0, 1), exact[name], slack=1e-3)


def test_dirichlet_kl_in_float32():
    """Large concentrations that hardly differ: the KL is a small difference of large numbers."""
    draw = torch.Generator().manual_seed(0)
    p = (5 + 4 * torch.rand(1, 1, 60, generator=draw)).exp()
    q = p * (1 + 1e-3 * torch.randn(1, 1, 60, generator=draw))
    mask = torch.zeros(1, 1, 60, dtype=torch.bool)
    expected = torch.distributions.kl_divergence(*(torch.distributions.Dirichlet(x.double()) for x in (q, p)))
    torch.testing.assert_close(dirichlet_kl(q, p, mask).double(), expected, rtol=1e-3, atol=1e-6)


def test_sampling_follows_the_distribution_and_never_draws_padding():
    torch.manual_seed(6)
    probs = torch.tensor([0.5, 0.0, 0.3, 0.2])
    drawn = sample(probs.log().clamp(min=LOG_ZERO).expand(1, 1, 4), 40000).flatten()
    counts = torch.bincount(drawn, minlength=4) / len(drawn)
    assert counts[1] == 0
    assert ((counts - probs).abs() < 5 * (probs * (1 - probs) / len(drawn)).sqrt() + 1e-9).all()


def test_top_positions_of_a_short_sentence():
    mask = torch.tensor([[True, True, False], [False, False, False]])
    logs = log_softmax(torch.tensor([[[9.0, 9.0, 0.0]], [[1.0, 3.0, 2.0]]]), mask[:, None])
    weights, index = top_positions(logs, 2)
    torch.testing.assert_close(weights.exp().sum(-1), torch.ones(2, 1))
    assert index[0, 0, 0] == 2 and weights[0, 0, 1].exp() == 0 and index[1, 0].tolist() == [1, 2]
    assert top_positions(logs, 7)[1].size(-1) == 3


def test_moving_average():
    average = MovingAverage(0.9)
    assert [float(average.update(torch.tensor(x))) for x in (2.0, 3.0, 2.0)] == pytest.approx([2.0, 2.0, 2.1])


def options_of_criterion(**options):
    return {**vars(LatentAlignmentConfig()), **options}


@refuses(
    ({"objective": "elbo-enum", "baseline": "none"}, "--baseline none: --objective elbo-enum does not read it"),
    ({"objective": "elbo-gumbel", "exact_positions": 2}, "or choose elbo-sum-and-sample"),
    ({"objective": "marginal", "topk_positions": 3}, "or choose topk-marginal"),
    ({"objective": "elbo-enum", "control_variates": True}, "or choose wake-sleep"),
    ({"objective": "wake-sleep", "kl_weight": 0.5}, r"--kl-weight 0\.5: --objective wake-sleep does not read it"),
    ({"objective": "soft", "soft_updates": 5}, "--soft-updates 5: has no effect with --objective soft"),
)
def test_options_that_no_one_reads_are_refused(options):
    check_read(options_of_criterion(**options))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_defaults_go_with_every_objective(name):
    check_read(options_of_criterion(objective=name))
    read = {option: 2 for option, objectives in READ_BY.items() if name in objectives}
    check_read(options_of_criterion(objective=name, **read))
