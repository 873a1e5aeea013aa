"""Posterior attention (Shankar and Sarawagi 2019): latent alignment models whose next step reads the posterior of the
last alignment, and their named architectures. :mod:`fairseq_attn_plugin.modules.latent.posterior_decoder` has the
formulas.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Optional, Type

from ..attention import Attention
from ..errors import OptionError
from ..modules.latent.posterior_decoder import PosteriorDecoder
from ..options import option
from .architectures import SMALL_SIZES, register_architecture
from .latent_lstm import LATENT_SIZES, LatentLSTMConfig, LatentLSTMModel

__all__ = ["PosteriorLSTMConfig", "PosteriorLSTMModel"]


@dataclass
class PosteriorLSTMConfig(LatentLSTMConfig):
    """Options of ``lstm_posterior``, besides those of ``lstm_latent``."""

    posterior_topk: Optional[int] = option(
        None,
        "feed the posterior among the K positions that are most probable under the prior, which saves time (default: "
        "among all)",
    )


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
        if cfg.latent_topk_feed:
            raise OptionError(
                "--latent-topk-feed: feeds a context of the prior, and this model feeds the posterior's; leave it out, "
                "or use --posterior-topk"
            )
        if cfg.posterior_topk is not None and cfg.posterior_topk < 1:
            raise OptionError(f"--posterior-topk {cfg.posterior_topk}: must be at least 1 position")

    @classmethod
    def build_attention(cls, cfg: Any, query_dim: int, memory_dim: int) -> Optional[Attention]:
        attention = super().build_attention(cfg, query_dim, memory_dim)
        if attention is not None and attention.recurrent and type(attention).advance is Attention.advance:
            raise OptionError(
                f"--attention {cfg.attention}: does not define advance(), which posterior attention needs; choose "
                "another mechanism, or --arch lstm_latent"
            )
        return attention

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "PosteriorLSTMModel":
        model = super().build_model(cfg, task)
        assert isinstance(model, PosteriorLSTMModel)
        model.decoder.posterior_topk = cfg.posterior_topk
        return model


register_architecture("lstm_posterior", **LATENT_SIZES)(PosteriorLSTMModel)
register_architecture("lstm_posterior_small", **SMALL_SIZES)(PosteriorLSTMModel)
