"""``--lr-scheduler decay_after_rise``: the rate falls after every epoch, from the first rise of the metric on.

Epoch e ends with the validation metric m_e (``--best-checkpoint-metric``). From the first e with m_e > m_{e-1} on,
every epoch ends with

    lr = --lr-shrink * lr

Kim et al. 2017, "Structured Attention Networks", train their translation models in this way, with a shrink of 0.5.
fairseq's ``reduce_lr_on_plateau`` lowers the rate only after those epochs that are no better than the best before.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from ..errors import OptionError
from ..options import need, option


@dataclass
class DecayAfterRiseConfig(FairseqDataclass):
    lr_shrink: float = option(0.5, "factor of the rate after every epoch, once the validation metric has risen")
    lr: List[float] = II("optimization.lr")
    maximize_best_checkpoint_metric: bool = II("checkpoint.maximize_best_checkpoint_metric")


@register_lr_scheduler("decay_after_rise", dataclass=DecayAfterRiseConfig)
class DecayAfterRise(FairseqLRScheduler):  # type: ignore[misc]
    """See the module's text.

    Raises:
        OptionError: several rates, or a factor that is not between 0 and 1
    """

    def __init__(self, cfg: Any, optimizer: Any):
        super().__init__(cfg, optimizer)
        need(0 < cfg.lr_shrink <= 1, cfg, "lr_shrink", "above 0 and at most 1")
        if len(cfg.lr) > 1:
            raise OptionError(
                f"--lr {','.join(map(str, cfg.lr))}: must be one rate for --lr-scheduler decay_after_rise"
            )
        self.lr: float = cfg.lr[0]
        self.last: Optional[float] = None  # the metric of the epoch before
        self.has_risen = False
        self.optimizer.set_lr(self.lr)

    def step(self, epoch: int, val_loss: Optional[float] = None) -> float:
        """The rate after an epoch; without a validation metric it stays."""
        super().step(epoch, val_loss)
        if val_loss is not None:
            if self.last is not None:
                worse = val_loss < self.last if self.cfg.maximize_best_checkpoint_metric else val_loss > self.last
                self.has_risen |= bool(worse)
            self.last = float(val_loss)
            if self.has_risen:
                self.lr *= self.cfg.lr_shrink
        self.optimizer.set_lr(self.lr)
        return self.lr

    def state_dict(self) -> Dict[str, Any]:
        return {"best": self.best, "last": self.last, "has_risen": self.has_risen, "lr": self.lr}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self.best, self.last = state_dict.get("best"), state_dict.get("last")  # another scheduler lacks some
        self.has_risen, self.lr = state_dict.get("has_risen", False), state_dict.get("lr", self.lr)
