"""The criterion of latent alignment models: what it minimises in which update."""

import pytest
import torch
from latent_models import criterion
from test_objectives import NAMES, gradients, leaves, make, words


@pytest.mark.parametrize("updates", [0, 9])
def test_a_warm_start_trains_the_model_as_soft_and_moves_only_the_posterior_to_the_prior(updates):
    """-log p(y | c) + KL(q || p), whose gradient reaches q and not p, whatever the weight of the KL is afterwards."""
    parts = leaves()
    batch = make(parts)
    crit = criterion(objective="elbo-enum", soft_updates=10, kl_weight=0.3).train()
    crit.updates.number = updates
    loss, _ = crit._train(batch)
    soft = sum(-g for _, _, _, g in words(batch))
    kl = sum((q * torch.log(q / p)).sum() for p, q, _, _ in words(batch))
    torch.testing.assert_close(loss, soft + kl)
    expected = gradients(soft, parts)
    expected[NAMES.index("posterior_scores")] = gradients(kl, parts, ["posterior_scores"])[0]
    torch.testing.assert_close(gradients(loss, parts), expected)


@pytest.mark.parametrize(("updates", "weight"), [(10, 0.5), (11, 1.0), (13, 2.0), (40, 2.0)])
def test_after_the_warm_start_the_weight_of_the_kl_rises(updates, weight):
    """-E_q log p(y|z) + w KL(q || p), where w reaches 2 in the fourth update after the warm start."""
    batch = make(leaves())
    crit = criterion(objective="elbo-enum", soft_updates=10, kl_weight=2.0, kl_warmup_updates=4).train()
    crit.updates.number = updates
    loss, _ = crit._train(batch)
    expected = sum(-(q * f).sum() + weight * (q * torch.log(q / p)).sum() for p, q, f, _ in words(batch))
    torch.testing.assert_close(loss, expected)


def test_settings():
    crit = criterion(objective="elbo-gumbel", gumbel_tau=0.7, kl_weight=2.0, kl_warmup_updates=10)
    assert [crit._settings(n).kl_weight for n in (0, 4, 9, 500)] == pytest.approx([0.2, 1.0, 2.0, 2.0])
    assert crit._settings(0).gumbel_tau == 0.7
    assert criterion(objective="wake-sleep")._settings(0).num_samples == 5
    assert criterion(objective="elbo-reinforce")._settings(0).num_samples == 1
