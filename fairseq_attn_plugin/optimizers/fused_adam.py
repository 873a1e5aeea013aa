"""``--optimizer fused_adam``: fairseq's Adam, computed by torch's fused kernel in one pass over memory.

The update of a parameter x with gradient g is fairseq's

    m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
    x = (1 - lr wd) x - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps)

torch divides sqrt(v) by sqrt(1 - beta2^t) before it adds eps (Kingma and Ba 2015, Algorithm 1): it is given eps divided
by the same number. Options, state and checkpoints are those of ``--optimizer adam``, and a training may go on with
either.

The factors of gradients (one over the number of words, clipping, the loss scale of half precision) are applied in the
same pass. Until then ``p.grad`` holds the gradients as they were summed.
"""

import logging
import math
from collections import defaultdict
from typing import Any, Callable, Dict, List, Optional, Union

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from torch import Tensor

logger = logging.getLogger(__name__)


class _Adam(Adam):
    """fairseq's Adam with its state.

    Attributes:
        factor: of the gradients in the next update. It is here and not in :class:`FusedAdam`, because some of fairseq's
            wrappers clear the gradients through the inner optimizer alone.
    """

    factor: Union[float, Tensor] = 1.0

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.factor = 1.0
        super().zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update, with gradients multiplied by :attr:`factor`."""
        factor, self.factor = self.factor, 1.0
        divisor = None if isinstance(factor, float) and factor == 1.0 else torch.ones(()) / factor
        for group in self.param_groups:
            # the parameters of one call have one type, one device and one number of updates
            alike: Dict[Any, List[Tensor]] = defaultdict(list)
            for p in (p for p in group["params"] if p.grad is not None):
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] = int(state["step"]) + 1
                alike[p.dtype, p.device, state["step"]].append(p)
            (beta1, beta2), eps = group["betas"], group["eps"]
            for (_, device, step), members in alike.items():
                count = torch.full((), float(step), device=device)  # torch.tensor would make the host wait
                torch._fused_adamw_(
                    members,
                    [p.grad for p in members],
                    *([self.state[p][name] for p in members] for name in ("exp_avg", "exp_avg_sq")),
                    [],
                    [count] * len(members),
                    lr=group["lr"],
                    beta1=beta1,
                    beta2=beta2,
                    weight_decay=group["weight_decay"],
                    eps=eps / math.sqrt(1 - beta2**step),
                    amsgrad=False,
                    maximize=False,
                    grad_scale=None if divisor is None else divisor.to(device),
                    found_inf=None,
                )


@register_optimizer("fused_adam", dataclass=FairseqAdamConfig)
class FusedAdam(FairseqAdam):
    """Adam by torch's fused kernel; fairseq's own where there is none (half precision)."""

    def __init__(self, cfg: Any, params: Any):
        params = list(params)
        super().__init__(cfg, params)
        first = next((p for group in self.param_groups for p in group["params"]), None)
        wide = first is not None and first.dtype in (torch.float32, torch.float64)
        self.fused = first is not None and wide and first.device.type in ("cpu", "cuda")
        if self.fused:
            self._optimizer = _Adam(params, **self.optimizer_config)
        else:
            logger.warning(
                "--optimizer fused_adam: torch has no fused Adam for these parameters "
                f"({'none' if first is None else f'{first.dtype}, {first.device}'}); --optimizer adam is used"
            )

    def multiply_grads(self, c: Union[float, Tensor]) -> None:
        """Multiplies the gradients by ``c`` in the next update."""
        if self.fused:
            self._optimizer.factor = self._optimizer.factor * c
        else:
            super().multiply_grads(c)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Optional[Callable[[Tensor], Tensor]] = None) -> Tensor:
        """Limits the norm of all gradients to ``max_norm`` (if it is above 0) in the next update; returns the norm."""
        if not self.fused:
            return super().clip_grad_norm(max_norm, aggregate_norm_fn)
        grads = [p.grad for p in self.params if p.grad is not None]
        # on a GPU a few kernels for all, where fairseq has two each
        norms = torch._foreach_norm(grads) if grads else [torch.zeros(())]
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms), dtype=torch.float32)
        norm = (norm if aggregate_norm_fn is None else aggregate_norm_fn(norm)) * self._optimizer.factor
        if max_norm > 0:
            self.multiply_grads((float(max_norm) / (norm + 1e-6)).clamp(max=1))
        return norm


# The trainer resumes with an optimizer of the same class name only, and the states are the same.
FusedAdam.__name__ = FairseqAdam.__name__
