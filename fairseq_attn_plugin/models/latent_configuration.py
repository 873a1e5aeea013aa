"""The configuration of models with a latent alignment, and its checks."""

from dataclasses import dataclass
from typing import Any, Optional

from ..errors import OptionError
from ..options import flag, option, parse_boolean
from .checks import MOST_LAYERS, check_size
from .configuration import AttnLSTMConfig

__all__ = ["LatentLSTMConfig", "check_latent_options"]

ALIGNMENTS = ("prior", "posterior", "bayes")
PREDICTIONS = ("auto", "marginal", "soft")


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
    latent_topk_feed: bool = option(
        False,
        "with --latent-topk, also feed the next step the mean context of these K alignments, in translation and "
        "validation (default: that of all)",
    )
    latent_prediction: str = option(
        "auto", "marginal, soft (from the mean context), or auto: as the objective that trained the model has it"
    )
    latent_alignment: str = option(
        "prior",
        "attention weights to return: prior; or, where the whole target is given (--score-reference), posterior (the "
        "network's q) or bayes (the exact p(z | x, y))",
    )


def check_latent_options(cfg: Any, task: Any) -> None:
    """Checks the options that are particular to a latent alignment.

    Raises:
        OptionError: an option with a wrong value, or options that a latent alignment excludes
    """
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
    if not parse_boolean("--decoder-attention", cfg.decoder_attention):
        raise OptionError("--decoder-attention False: a latent alignment model's prior is its attention")
    for name in ("copy_attention", "lexicon"):
        if cfg[name]:
            raise OptionError(
                f"{flag(name)}: changes one distribution per word, and a latent alignment has one per source position; "
                "leave it out, or choose an --arch without latent alignment, such as lstm_soft"
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
    if cfg.latent_topk_feed and (cfg.latent_topk is None or cfg.input_feeding == "none"):
        lack = "--latent-topk K, the alignments" if cfg.latent_topk is None else "--input-feeding context"
        raise OptionError(f"--latent-topk-feed: needs {lack}; leave it out, or add that")
    check_size(cfg, "posterior_hidden_size")
    check_size(cfg, "posterior_layers", MOST_LAYERS)
