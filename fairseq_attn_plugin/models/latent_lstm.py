"""LSTM encoder-decoder models with a latent alignment (Deng et al. 2018), and their named architectures.

``lstm_latent`` reads any registered attention as the prior p(z) of the source position from which the next word is
predicted. ``--criterion latent_alignment`` trains it. A posterior network q(z | x, y), which reads the word that is
being predicted, serves the variational objectives; translation does not use it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Optional, Tuple, Type

import torch
from torch import Tensor

from ..attention import NORMALIZERS, Attention
from ..errors import OptionError
from ..modules.encoders.source_encoder import SourceEncoder
from ..modules.latent.alignment_posterior import AlignmentPosterior
from ..modules.latent.latent_alignments import LatentAlignments
from ..modules.latent.latent_decoder import LatentDecoder
from ..ops.likelihoods.mixture_nll import log_likelihoods
from ..ops.precision import precision_of, products_in
from ..options import flag, need_one_of, option, or_default, parse_boolean
from .architectures import SMALL_SIZES, register_architecture, sizes
from .attn_lstm import AttnLSTMModel
from .checks import MOST_LAYERS, check_distribution, check_size, check_softmax
from .configuration import AttnLSTMConfig


@dataclass
class LatentLSTMConfig(AttnLSTMConfig):
    """Options of ``lstm_latent``, besides those of ``attn_lstm``."""

    input_feeding: str = option(
        "context", "what is fed to the next step: context (the prior's mean), or none (no loop over time)"
    )
    decoder_zero_init: bool = option(True, "start the decoder from zeros instead of the encoder's last states")
    latent_posterior: str = option("True", "posterior network; False for objectives that need none")
    posterior_hidden_size: Optional[int] = option(
        None, "units per direction of the posterior's LSTMs (default: --encoder-hidden-size)"
    )
    posterior_layers: Optional[int] = option(None, "layers of the posterior's LSTMs (default: --encoder-layers)")
    posterior_normalizer: str = option(
        "softmax", "how the scores of q become probabilities: softmax, or sparsemax or entmax15, which have zeros"
    )
    latent_topk: Optional[int] = option(
        None, "predict from the K most probable alignments, renormalised (default: all, the exact marginal)"
    )
    latent_prediction: str = option(
        "auto", "marginal, soft (from the mean context), or auto: as the objective that trained the model has it"
    )


class LatentLSTMModel(AttnLSTMModel):
    """LSTM encoder-decoder that predicts each word from one latent source position; ``--attention`` is its prior."""

    decoder: LatentDecoder
    base_config: ClassVar[Type[Any]] = LatentLSTMConfig
    decoder_class = LatentDecoder
    first_order: ClassVar[bool] = False  # whether alignments depend on each other

    def __init__(self, encoder: SourceEncoder, decoder: LatentDecoder):
        super().__init__(encoder, decoder)
        self.posterior: Optional[AlignmentPosterior] = None

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        super().check(cfg, task)
        if cfg.input_feeding == "output":
            raise OptionError(
                "--input-feeding output: in a latent alignment model the attentional output depends on the alignment; "
                "choose context or none"
            )
        check_softmax(cfg, "latent alignment models")
        if not parse_boolean("--decoder-attention", cfg.decoder_attention):
            raise OptionError("--decoder-attention False: a latent alignment model's prior is its attention")
        for name in ("copy_attention", "lexicon"):
            if cfg[name]:
                raise OptionError(
                    f"{flag(name)}: changes one distribution per word, and a latent alignment has one per source "
                    "position; leave it out, or choose an --arch without latent alignment, such as lstm_soft"
                )
        need_one_of(cfg, latent_prediction=("auto", "marginal", "soft"), posterior_normalizer=NORMALIZERS.names())
        limit = getattr(getattr(task, "cfg", None), "max_source_positions", 1024)
        if cfg.latent_topk is not None and not 1 <= cfg.latent_topk <= limit:
            raise OptionError(
                f"--latent-topk {cfg.latent_topk}: must be at least 1 and no larger than the longest source "
                f"(--max-source-positions {limit}); leave it out for the exact marginal"
            )
        check_size(cfg, "posterior_hidden_size")
        check_size(cfg, "posterior_layers", MOST_LAYERS)

    @classmethod
    def build_attention(cls, cfg: Any, query_dim: int, memory_dim: int) -> Optional[Attention]:
        """The prior.

        Raises:
            OptionError: as in ``attn_lstm``, weights that do not sum to one, or that training and evaluation do not
                share
        """
        attention = super().build_attention(cfg, query_dim, memory_dim)
        if attention is not None and attention.hard_in_evaluation:
            raise OptionError(
                f"--attention {cfg.attention}: has expectations in training and choices in translation, which are two "
                "priors of an alignment; choose another --attention, or an --arch without latent alignment, such as "
                "attn_lstm"
            )
        check_distribution(cfg, attention, "prior of an alignment")
        return attention

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "LatentLSTMModel":
        model: Any = super().build_model(cfg, task)
        model.decoder.topk, model.decoder.prediction = cfg.latent_topk, cfg.latent_prediction
        if parse_boolean("--latent-posterior", cfg.latent_posterior):
            own_size = or_default(cfg.encoder_hidden_size, cfg.encoder_embed_dim)
            hidden_size = or_default(cfg.posterior_hidden_size, own_size)
            layers = or_default(cfg.posterior_layers, cfg.encoder_layers)
            sizes = {"hidden_size": hidden_size, "num_layers": layers, "bidirectional": True}
            model.posterior = AlignmentPosterior(
                cls._build_encoder(cfg, task.source_dictionary, model.encoder.embed_tokens, **sizes),
                cls._build_encoder(cfg, task.target_dictionary, model.decoder.embed_tokens, **sizes),
                NORMALIZERS.build(cfg.posterior_normalizer, **{name: cfg[name] for name in NORMALIZERS.options()}),
            )
        return model

    def forward(self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, **kwargs: Any) -> Any:
        """Returns log p(y_t) ``[B, T, V]`` of all words and ``{"attn": [weights [B, T, N]]}``, those of the prior.

        With ``target=...`` it returns :meth:`alignments`, for the criterion.
        """
        if "target" in kwargs:
            wanted = {key: kwargs[key] for key in ("target", "posterior", "recompute", "apart") if key in kwargs}
            with products_in(precision_of(self)):
                return self.alignments(src_tokens, prev_output_tokens, **wanted)
        return super().forward(src_tokens, src_lengths, prev_output_tokens, **kwargs)

    def alignments(
        self,
        src_tokens: Tensor,
        prev_output_tokens: Tensor,
        target: Tensor,
        posterior: bool = True,
        recompute: bool = False,
        apart: bool = False,
    ) -> LatentAlignments:
        """The quantities from which objectives are computed, of ``src_tokens`` ``[B, N]``, and of the words ``[B, T]``.

        Args:
            posterior: whether to compute q(z | x, y), if the model has its network
            recompute: see :meth:`AlignmentPosterior.forward`
            apart: see there; it also leaves the random numbers of the rest unchanged
        """
        if not posterior or self.posterior is None:
            latent = self.decoder.alignments(prev_output_tokens, self.encoder(src_tokens))
            if self.posterior is not None and self.training and torch.distributed.is_initialized():
                # data-parallel wrappers wait for the gradient of every parameter
                unused = sum(parameter.flatten()[0] for parameter in self.posterior.parameters())
                latent = latent._replace(query=latent.query + 0.0 * unused)
            return latent
        # First, so that it is the last in the backward pass, when the activations of the rest are freed.
        devices = [src_tokens.device] if src_tokens.device.type == "cuda" else []
        with torch.random.fork_rng(devices, enabled=apart):
            scores = self.posterior(src_tokens, target, recompute, apart)
        latent = self.decoder.alignments(prev_output_tokens, self.encoder(src_tokens))
        mask = None if latent.pad_mask is None else latent.pad_mask.unsqueeze(1)
        return latent._replace(log_posterior=self.posterior.log_probs(scores, mask), posterior_scores=scores)

    @property
    def posteriors(self) -> Tuple[str, ...]:
        """The alignments that :meth:`forced` adds to the attention; ``posterior`` only if there is a network."""
        return ("bayes",) if self.posterior is None else ("posterior", "bayes")

    def forced(self, src_tokens: Tensor, prev_output_tokens: Tensor, target: Tensor) -> Tuple[Any, Dict[str, Tensor]]:
        """The output of the forward pass, and all alignments ``[B, T, N]`` at once, by name.

        ``attention`` is the prior p(z_t), ``posterior`` the network's q(z_t | x, y), ``bayes`` the exact
        p(z_t | x, y_<=t), proportional to p(z_t) p(y_t | z_t).
        """
        latent = self.alignments(src_tokens, prev_output_tokens, target)
        likelihood = log_likelihoods(latent.words(target, self.decoder.dictionary.pad())).log_likelihood
        weights = {"attention": latent.prior, "bayes": (latent.log_prior + likelihood).softmax(-1)}
        if latent.log_posterior is not None:
            weights["posterior"] = latent.log_posterior.exp()
        return (self.decoder.predict(latent), {"attn": [latent.prior]}), weights


# The sizes of Deng et al. 2018 (IWSLT'14): 2-layer BiLSTM encoder with 512 units per direction, 2-layer decoder of 768.
_ATTENTION = {"attention_score": "additive", "attention_hidden_dim": 512}
_DECODER = {"decoder_hidden_size": 768, "decoder_out_embed_dim": 768}
LATENT_SIZES = sizes(512, 0.3, encoder_bidirectional=True, **_ATTENTION, **_DECODER)

register_architecture("lstm_latent", **LATENT_SIZES)(LatentLSTMModel)
register_architecture("lstm_latent_small", **SMALL_SIZES)(LatentLSTMModel)
