"""The objectives of latent alignment models, in plain torch.

For one word, p(j) is the prior, q(j) the posterior network, log p(y|j) the log-likelihood of the target word under
alignment j, and c the mean context of the prior. Every objective is a loss, summed over words (Deng et al. 2018,
"Latent Alignment and Variational Attention"):

    soft                 -log p(y | c)
    marginal             -log sum_j p(j) p(y|j)
    hard-enum            -sum_j p(j) log p(y|j)
    hard-reinforce       the same, estimated from one or more samples of p
    elbo-enum            -sum_j q(j) log p(y|j) + KL(q || p)
    elbo-reinforce       the same, estimated from samples of q
    elbo-gumbel          -log p(y | sum_j z_j h_j) + KL(q || p), z = softmax((log q + Gumbel noise) / tau)
                         (Jang et al. 2017)
    elbo-sum-and-sample  the gradient of elbo-enum from the K most probable positions under q and one sample of the rest
                         (Liu et al. 2019, "Rao-Blackwellized stochastic gradients for discrete distributions")
    wake-sleep           -sum_k w_k [log p(y|z_k) + log p(z_k) + log q(z_k)], z_k ~ q, w_k proportional to
                         p(z_k) p(y|z_k) / q(z_k)  (Bornschein and Bengio 2015; Ba et al. 2015)
    dirichlet            -log p(y | sum_j z_j h_j) + KL(Dir(a_q) || Dir(a_p)), z ~ Dir(a_q) reparameterised

An objective is a function from :class:`Batch`, :class:`Settings` and :class:`MovingAverage` to :class:`Terms`, which
are sums over words in nats. To add an objective, write the function in the module of its family and add it to
``OBJECTIVES``.
"""

from typing import Dict

from .batch import BASELINES, Batch, MovingAverage, Objective, Settings, Terms
from .divergences import dirichlet_kl, entropy, kl_divergence, sample
from .enumerated import elbo_enum, hard_enum, marginal, soft
from .evaluation import Evaluation, evaluate
from .relaxed import concentrations, dirichlet, elbo_gumbel
from .sampled import elbo_reinforce, elbo_sum_and_sample, hard_reinforce, wake_sleep

__all__ = [
    "BASELINES",
    "NEEDS_POSTERIOR",
    "OBJECTIVES",
    "Batch",
    "Evaluation",
    "MovingAverage",
    "Objective",
    "Settings",
    "Terms",
    "concentrations",
    "dirichlet_kl",
    "entropy",
    "evaluate",
    "kl_divergence",
    "sample",
]

OBJECTIVES: Dict[str, Objective] = {
    "soft": soft,
    "marginal": marginal,
    "hard-enum": hard_enum,
    "hard-reinforce": hard_reinforce,
    "elbo-enum": elbo_enum,
    "elbo-reinforce": elbo_reinforce,
    "elbo-gumbel": elbo_gumbel,
    "elbo-sum-and-sample": elbo_sum_and_sample,
    "wake-sleep": wake_sleep,
    "dirichlet": dirichlet,
}
NEEDS_POSTERIOR = tuple(name for name in OBJECTIVES if not name.startswith(("soft", "marginal", "hard")))
