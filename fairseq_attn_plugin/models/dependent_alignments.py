"""Latent alignment models whose alignments depend on each other, and their named architectures.

``lstm_latent_first_order`` is ``lstm_latent`` whose alignment of a word depends on that of the word before.
``--criterion latent_alignment --objective first-order`` trains it by its exact likelihood.

``lstm_posterior`` has posterior attention (Shankar and Sarawagi 2019): the next step reads the posterior of the last
alignment. :mod:`fairseq_attn_plugin.modules.latent.posterior_decoder` has the formulas.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Optional, Tuple, Type

import torch
from torch import Tensor, nn

from ..attention import Attention, ScoredAttention
from ..errors import OptionError
from ..modules.latent.first_order_decoder import FirstOrderDecoder
from ..modules.latent.posterior_decoder import PosteriorDecoder
from ..options import need, option, parse_boolean
from .architectures import SMALL_SIZES, register_architecture
from .latent_lstm import LATENT_SIZES, LatentLSTMConfig, LatentLSTMModel

MOST_WIDTHS = 10_000


@dataclass
class FirstOrderConfig(LatentLSTMConfig):
    """Options of ``lstm_latent_first_order``, besides those of ``lstm_latent``."""

    latent_posterior: str = option("False", "no posterior network: the objective is exact")
    jump_window: int = option(
        5, "widths of jumps with a trained probability, on each side; wider jumps share that of the widest"
    )
    jump_monotonic: bool = option(False, "no word is aligned in front of the word before it")


class FirstOrderModel(LatentLSTMModel):
    """LSTM encoder-decoder with first-order alignments; ``--attention`` is the part that depends on the words."""

    decoder: FirstOrderDecoder
    base_config: ClassVar[Type[Any]] = FirstOrderConfig
    decoder_class = FirstOrderDecoder
    first_order: ClassVar[bool] = True

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        super().check(cfg, task)
        need(1 <= cfg.jump_window <= MOST_WIDTHS, cfg, "jump_window", f"at least 1 and at most {MOST_WIDTHS}")
        if parse_boolean("--latent-posterior", cfg.latent_posterior):
            raise OptionError("--latent-posterior True: first-order alignments have an exact likelihood; leave it out")
        if cfg.latent_topk is not None:
            raise OptionError(
                f"--latent-topk {cfg.latent_topk}: the forward algorithm sums over all alignments; leave it out"
            )
        if cfg.latent_prediction != "auto":
            raise OptionError(
                f"--latent-prediction {cfg.latent_prediction}: first-order alignments have one prediction; leave it out"
            )

    @classmethod
    def check_training(cls, cfg: Any) -> None:
        super().check_training(cfg)
        criterion = (cfg.get("criterion") or {}).get("_name")  # a YAML file may have none
        if criterion != "latent_alignment":  # b_t of the output has no gradient by the words before
            raise OptionError(
                f"--criterion {criterion}: does not train first-order alignments; choose --criterion latent_alignment "
                "--objective first-order"
            )

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "FirstOrderModel":
        model: Any = super().build_model(cfg, task)
        model.decoder.jumps = nn.Parameter(torch.zeros(2 * cfg.jump_window + 1))  # all factors are one at first
        model.decoder.monotonic = cfg.jump_monotonic
        return model

    def forced(self, src_tokens: Tensor, prev_output_tokens: Tensor, target: Tensor) -> Tuple[Any, Dict[str, Tensor]]:
        """The output of the forward pass, and all alignments ``[B, T, N]`` at once, by name.

        ``attention`` is p(z_t | y_<t, x), ``bayes`` the posterior p(z_t | x, y) given the whole target.
        """
        latent = self.alignments(src_tokens, prev_output_tokens, target)
        prediction, posterior = self.decoder.inferred(latent, target)
        weights = {"attention": prediction.exp(), "bayes": posterior}
        return (self.decoder.mixed(latent, prediction), {"attn": [weights["attention"]]}), weights


register_architecture("lstm_latent_first_order", **LATENT_SIZES)(FirstOrderModel)
register_architecture("lstm_latent_first_order_small", **SMALL_SIZES)(FirstOrderModel)


@dataclass
class PosteriorLSTMConfig(LatentLSTMConfig):
    """Options of ``lstm_posterior``, besides those of ``lstm_latent``."""

    posterior_topk: Optional[int] = option(
        None,
        "feed the posterior among the K positions that are most probable under the prior, which saves time (default: "
        "among all)",
    )


def _defines_advance(kind: Type[Attention]) -> bool:
    """Whether a recurrent mechanism advances its own state; what ScoredAttention has is for that of its biases."""
    if kind.advance is ScoredAttention.advance:
        return kind.step is ScoredAttention.step
    return kind.advance is not Attention.advance


class PosteriorLSTMModel(LatentLSTMModel):
    """Latent alignment model that is fed p(z_t | x, y_<=t)."""

    decoder: PosteriorDecoder
    base_config: ClassVar[Type[Any]] = PosteriorLSTMConfig
    decoder_class = PosteriorDecoder

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        super().check(cfg, task)
        if cfg.input_feeding != "context":
            raise OptionError(
                f"--input-feeding {cfg.input_feeding}: posterior attention feeds the posterior's context; must be "
                "context, or choose --arch lstm_latent"
            )
        need(cfg.posterior_topk is None or cfg.posterior_topk >= 1, cfg, "posterior_topk", "at least 1 position")

    @classmethod
    def build_attention(cls, cfg: Any, query_dim: int, memory_dim: int) -> Optional[Attention]:
        attention = super().build_attention(cfg, query_dim, memory_dim)
        if attention is not None and attention.recurrent and not _defines_advance(type(attention)):
            raise OptionError(
                f"--attention {cfg.attention}: does not define advance(), which posterior attention needs; choose "
                "another mechanism, or --arch lstm_latent"
            )
        return attention

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "PosteriorLSTMModel":
        model: Any = super().build_model(cfg, task)
        model.decoder.posterior_topk = cfg.posterior_topk
        return model


register_architecture("lstm_posterior", **LATENT_SIZES)(PosteriorLSTMModel)
register_architecture("lstm_posterior_small", **SMALL_SIZES)(PosteriorLSTMModel)
