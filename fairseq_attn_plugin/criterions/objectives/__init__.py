"""The objectives of latent alignment models, in plain torch.

For one word, p(j) is the prior, q(j) the posterior network, log p(y|j) the log-likelihood of the target word under
alignment j, and c the mean context of the prior. Every objective is a loss, summed over words (Deng et al. 2018,
"Latent Alignment and Variational Attention"):

    soft                 -log p(y | c)
    marginal             -log sum_j p(j) p(y|j)
    topk-marginal        -log sum_{j in top K of p} p(j) p(y|j)  (Shankar, Garg and Sarawagi 2018)
    sparse-marginal      the marginal of a sparse p, over its support  (Correia et al. 2020)
    first-order          -log sum_z prod_t p(z_t | z_{t-1}) p(y_t | z_t)  (Wu and Cotterell 2019)
    hard-enum            -sum_j p(j) log p(y|j)
    hard-reinforce       the same, estimated from one or more samples of p
    elbo-enum            -sum_j q(j) log p(y|j) + KL(q || p), the negative variational bound (ELBO), exactly
    sparse-elbo          the same for a sparse q, over its support  (Correia et al. 2020)
    elbo-reinforce       the variational bound, estimated from samples of q
    elbo-gumbel          -log p(y | sum_j z_j h_j) + KL(q || p), z = softmax((log q + Gumbel noise) / tau)
                         (Jang et al. 2017)
    elbo-sum-and-sample  the gradient of elbo-enum from the K most probable positions under q and one sample of the rest
                         (Liu et al. 2019, "Rao-Blackwellized stochastic gradients for discrete distributions")
    wake-sleep           -sum_k w_k [log p(y|z_k) + log p(z_k) + log q(z_k)], z_k ~ q, w_k proportional to
                         p(z_k) p(y|z_k) / q(z_k)  (Bornschein and Bengio 2015; Ba et al. 2015)
    dirichlet            -log p(y | sum_j z_j h_j) + KL(Dir(a_q) || Dir(a_p)), z ~ Dir(a_q) reparameterised

An objective is a function from :class:`Batch`, :class:`Settings` and :class:`MovingAverage` to :class:`Terms`, which
are sums over words in nats. It registers itself with :func:`register_objective`, from the module of its family in this
folder, or from outside the package.
"""

from ...attention import import_all
from .enumerated import evaluate
from .objective import (
    OBJECTIVES,
    Batch,
    MovingAverage,
    Settings,
    Terms,
    entropy,
    having,
    objective_options,
    register_objective,
)

import_all(__name__, __path__)
