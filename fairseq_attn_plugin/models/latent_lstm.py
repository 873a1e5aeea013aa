"""LSTM encoder-decoder models with a latent alignment (Deng et al. 2018), and their named architectures.

``lstm_latent`` reads any registered attention as the prior p(z) of the source position from which the next word is
predicted. ``--criterion latent_alignment`` trains it; a posterior network q(z | x, y), which sees the word that is
being predicted, serves the variational objectives and is not used to translate.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Optional, Tuple, Type

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .._options import option
from ..attention import Attention
from ..attention.normalizers import log_softmax
from ..errors import OptionError
from ..modules.encoder import LSTMEncoder, uniform_
from ..modules.latent_decoder import LatentAlignments, LatentDecoder
from ..ops.mixture_nll import log_likelihoods
from .attn_lstm import (
    SMALL_SIZES,
    AttnLSTMConfig,
    AttnLSTMModel,
    _boolean,
    _default,
    register_architecture,
)

__all__ = ["AlignmentPosterior", "LatentLSTMConfig", "LatentLSTMModel"]

ALIGNMENTS = ("prior", "posterior", "bayes")
PREDICTIONS = ("auto", "marginal", "soft")


@dataclass
class LatentLSTMConfig(AttnLSTMConfig):  # type: ignore[misc, valid-type]
    input_feeding: str = option(
        "context", "what is fed to the next step: context (the prior's mean), or none (no loop over time)"
    )
    decoder_zero_init: bool = option(True, "start the decoder from zeros instead of the encoder's last states")
    latent_posterior: str = option("True", "posterior network; False for objectives that need none")
    posterior_hidden_size: Optional[int] = option(
        None, "units per direction of the posterior's LSTMs (default: --encoder-hidden-size)"
    )
    posterior_layers: Optional[int] = option(None, "layers of the posterior's LSTMs (default: --encoder-layers)")
    latent_topk: Optional[int] = option(
        None, "predict from the K most probable alignments, renormalised (default: all, the exact marginal)"
    )
    latent_prediction: str = option(
        "auto", "marginal, soft (from the mean context), or auto: as the objective that trained the model has it"
    )
    latent_alignment: str = option(
        "prior",
        "attention weights to return: prior; or, where the whole target is given (--score-reference), posterior (the "
        "network's q) or bayes (the exact p(z | x, y))",
    )


class AlignmentPosterior(nn.Module):
    """q(z_t = j | x, y) = softmax_j(g_t . W f_j), f and g the states of bidirectional LSTMs over source and target.

    g_t has read the whole target, y_t included. The embeddings are the model's own (Deng et al. 2018, section 4).
    """

    def __init__(self, source: LSTMEncoder, target: LSTMEncoder):
        super().__init__()
        self.source, self.target = source, target
        self.bilinear = uniform_(nn.Linear(source.output_units, target.output_units, bias=False))

    def forward(self, src_tokens: Tensor, target: Tensor, recompute: bool = False, apart: bool = False) -> Tensor:
        """Scores ``[B, T, N]`` of the words ``target`` ``[B, T]``, before the softmax; meaningless on padding.

        With ``recompute`` the LSTMs run again on the way back instead of keeping what they need for it, where their
        dropout can be drawn again: on a GPU cuDNN draws that between layers, from a state of its own. With ``apart``
        the rest of the model is trained as if the posterior were not there: no gradient reaches the shared embeddings.
        """
        lstm = self.source.lstm
        recompute &= src_tokens.device.type == "cpu" or not self.training or lstm.num_layers == 1 or lstm.dropout == 0

        def read(reader: LSTMEncoder, tokens: Tensor) -> Tensor:
            return reader(tokens, train_embeddings=not apart)["encodings"]

        if recompute and torch.is_grad_enabled():
            keys, queries = (
                checkpoint(read, *pair, use_reentrant=False)
                for pair in ((self.source, src_tokens), (self.target, target))
            )
        else:
            keys, queries = read(self.source, src_tokens), read(self.target, target)
        return queries @ self.bilinear(keys).transpose(1, 2)


class LatentLSTMModel(AttnLSTMModel):
    """LSTM encoder-decoder that predicts each word from one latent source position; ``--attention`` is its prior."""

    decoder: LatentDecoder
    base_config: ClassVar[Type[Any]] = LatentLSTMConfig
    decoder_class = LatentDecoder

    def __init__(self, encoder: LSTMEncoder, decoder: LatentDecoder):
        super().__init__(encoder, decoder)
        self.posterior: Optional[AlignmentPosterior] = None
        self.num_updates = 0

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        super().check(cfg, task)
        if cfg.input_feeding == "output":
            raise OptionError(
                "--input-feeding output: in a latent alignment model the attentional output depends on the alignment; "
                "choose context or none"
            )
        if cfg.adaptive_softmax_cutoff is not None:
            raise OptionError(
                f"--adaptive-softmax-cutoff {cfg.adaptive_softmax_cutoff}: latent alignment models have an ordinary "
                "softmax only; leave it out"
            )
        if not _boolean("--decoder-attention", cfg.decoder_attention):
            raise OptionError("--decoder-attention False: a latent alignment model's prior is its attention")
        if cfg.lexicon is not None:
            raise OptionError(
                f"--lexicon {cfg.lexicon}: biases one distribution per word, and a latent alignment has one per source "
                "position; leave it out, or choose an --arch without latent alignment, such as lstm_soft"
            )
        for name, known in (("prediction", PREDICTIONS), ("alignment", ALIGNMENTS)):
            value = cfg[f"latent_{name}"]
            if value not in known:
                raise OptionError(f"--latent-{name} {value}: unknown; choose from {', '.join(known)}")
        limit = getattr(getattr(task, "cfg", None), "max_source_positions", 1024)
        if cfg.latent_topk is not None and not 1 <= cfg.latent_topk <= limit:
            raise OptionError(
                f"--latent-topk {cfg.latent_topk}: must be at least 1 and no larger than the longest source "
                f"(--max-source-positions {limit}); leave it out for the exact marginal"
            )
        for name in ("posterior_hidden_size", "posterior_layers"):
            if cfg[name] is not None and cfg[name] < 1:
                raise OptionError(f"--{name.replace('_', '-')} {cfg[name]}: must be at least 1")

    @classmethod
    def build_attention(cls, cfg: Any, query_dim: int, memory_dim: int) -> Optional[Attention]:
        attention = super().build_attention(cfg, query_dim, memory_dim)
        if attention is not None and not attention.normalized:
            given, further = f"--attention {cfg.attention}: its weights", ""
            if cfg.attention_max_normalize:
                given, further = "--attention-max-normalize: weights divided by their maximum", "; leave it out"
            elif cfg.attention == "structured":
                further = "; with --structured-scale 1 they do"
            elif cfg.attention == "election":
                further = "; choose --attention gaussian"
            raise OptionError(f"{given} do not sum to one, so that they are no prior of an alignment{further}")
        return attention

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "LatentLSTMModel":
        model = super().build_model(cfg, task)
        assert isinstance(model, LatentLSTMModel)
        model.decoder.topk, model.decoder.prediction = cfg.latent_topk, cfg.latent_prediction
        model.decoder.alignment = cfg.latent_alignment
        if _boolean("--latent-posterior", cfg.latent_posterior):
            hidden_size = _default(cfg.posterior_hidden_size, model.encoder.lstm.hidden_size)
            layers = _default(cfg.posterior_layers, cfg.encoder_layers)

            def reader(dictionary: Any, embedding: nn.Embedding) -> LSTMEncoder:
                return LSTMEncoder(
                    dictionary,
                    embedding,
                    hidden_size=hidden_size,
                    num_layers=layers,
                    bidirectional=True,
                    dropout_in=_default(cfg.encoder_dropout_in, cfg.dropout),
                    dropout_out=_default(cfg.encoder_dropout_out, cfg.dropout),
                )

            model.posterior = AlignmentPosterior(
                reader(task.source_dictionary, model.encoder.embed_tokens),
                reader(task.target_dictionary, model.decoder.embed_tokens),
            )
        elif cfg.latent_alignment == "posterior":
            raise OptionError(
                "--latent-alignment posterior: the model has no posterior network (--latent-posterior False)"
            )
        return model

    def forward(self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, **kwargs: Any) -> Any:
        """Returns log p(y_t) ``[B, T, V]`` of all words and ``{"attn": [weights [B, T, N]]}``.

        The weights are the prior's, or those that ``--latent-alignment`` names. See :meth:`alignments` for what the
        criterion asks for (``target=...``, ``posterior=...``).
        """
        if "target" in kwargs:
            wanted = {key: kwargs[key] for key in ("target", "posterior", "recompute", "apart") if key in kwargs}
            return self.alignments(src_tokens, prev_output_tokens, **wanted)
        if self.decoder.alignment == "prior":
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **kwargs)
        target = self._complete(prev_output_tokens)
        posterior = self.decoder.alignment == "posterior"
        latent = self.alignments(src_tokens, prev_output_tokens, target, posterior)
        return self.decoder.predict(latent), {"attn": [self._alignment_of(latent, target)]}

    def alignments(
        self,
        src_tokens: Tensor,
        prev_output_tokens: Tensor,
        target: Tensor,
        posterior: bool = True,
        recompute: bool = False,
        apart: bool = False,
    ) -> LatentAlignments:
        """What objectives are computed from; with ``posterior`` also q(z | x, y), where the model has its network
        (``recompute``, ``apart``: see :meth:`AlignmentPosterior.forward`; ``apart`` leaves the random numbers of the
        rest alone, too)."""
        if not posterior or self.posterior is None:
            latent = self.decoder.alignments(prev_output_tokens, self.encoder(src_tokens))
            if self.posterior is not None and self.training and torch.distributed.is_initialized():
                # data-parallel wrappers wait for the gradient of every parameter
                unused = sum(parameter.flatten()[0] for parameter in self.posterior.parameters())
                latent = latent._replace(query=latent.query + 0.0 * unused)
            return latent
        # First, so that it is the last on the way back, when the activations of the rest are gone.
        if apart:
            devices = [src_tokens.device] if src_tokens.device.type == "cuda" else []
            with torch.random.fork_rng(devices):
                scores = self.posterior(src_tokens, target, recompute, apart)
        else:
            scores = self.posterior(src_tokens, target, recompute)
        latent = self.decoder.alignments(prev_output_tokens, self.encoder(src_tokens))
        mask = None if latent.pad_mask is None else latent.pad_mask.unsqueeze(1)
        return latent._replace(log_posterior=log_softmax(scores, mask), posterior_scores=scores)

    @property
    def posteriors(self) -> Tuple[str, ...]:
        """What :meth:`forced` returns besides the attention: ``bayes``, and ``posterior`` where it has its network."""
        return ("bayes",) if self.posterior is None else ("posterior", "bayes")

    def forced(self, src_tokens: Tensor, prev_output_tokens: Tensor, target: Tensor) -> Tuple[Any, Dict[str, Tensor]]:
        """The output of the forward pass, and all alignments ``[B, T, N]`` at once, by name.

        ``attention`` is the prior p(z_t), ``posterior`` the network's q(z_t | x, y), ``bayes`` the exact
        p(z_t | x, y_<=t), proportional to p(z_t) p(y_t | z_t).
        """
        latent = self.alignments(src_tokens, prev_output_tokens, target)
        weights = {"attention": latent.prior, "bayes": self._bayes(latent, target)}
        if latent.log_posterior is not None:
            weights["posterior"] = latent.log_posterior.exp()
        return (self.decoder.predict(latent), {"attn": [latent.prior]}), weights

    def _complete(self, prev_output_tokens: Tensor) -> Tensor:
        """The target of a decoder input: shifted by one, with the end of the sentence."""
        pad, eos = self.decoder.dictionary.pad(), self.decoder.dictionary.eos()
        target = torch.cat(
            [prev_output_tokens[:, 1:], prev_output_tokens.new_full((len(prev_output_tokens), 1), pad)], 1
        )
        positions = torch.arange(target.size(1), device=target.device)
        last = (positions * prev_output_tokens.ne(pad)).amax(1, keepdim=True)
        return target.scatter(1, last, eos).masked_fill(prev_output_tokens.eq(pad), pad)

    def _alignment_of(self, latent: LatentAlignments, target: Tensor) -> Tensor:
        if self.decoder.alignment == "posterior":
            assert latent.log_posterior is not None
            return latent.log_posterior.exp()
        return self._bayes(latent, target)

    def _bayes(self, latent: LatentAlignments, target: Tensor) -> Tensor:
        words = latent.words(target, self.decoder.dictionary.pad())
        return (latent.log_prior + log_likelihoods(words).log_likelihood).softmax(-1)

    def set_num_updates(self, num_updates: int) -> None:
        """fairseq's word how far training is; schedules of the criterion look it up."""
        self.num_updates = num_updates
        super().set_num_updates(num_updates)


# The sizes of Deng et al. 2018 (IWSLT'14): 2-layer BiLSTM encoder with 512 units per direction, 2-layer decoder of 768.
PAPER_SIZES: Dict[str, Any] = {
    "attention_score": "additive",
    "attention_hidden_dim": 512,
    "dropout": 0.3,
    "encoder_embed_dim": 512,
    "encoder_hidden_size": 512,
    "encoder_layers": 2,
    "encoder_bidirectional": True,
    "decoder_embed_dim": 512,
    "decoder_hidden_size": 768,
    "decoder_layers": 2,
    "decoder_out_embed_dim": 768,
}

register_architecture("lstm_latent", **PAPER_SIZES)(LatentLSTMModel)
register_architecture("lstm_latent_small", **SMALL_SIZES)(LatentLSTMModel)
