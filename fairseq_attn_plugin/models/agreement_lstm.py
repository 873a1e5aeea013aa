"""Two LSTM encoder-decoder models of opposite directions in one, and their named architectures.

``--criterion agreement`` trains both directions together and rewards attentions that are each other's transposes (Cohn
et al. 2016, "Incorporating Structural Alignment Biases into an Attentional Neural Translation Model", bilingual
symmetry). Each direction translates by itself: the task's languages choose which, so that ``fairseq-generate DATA -s de
-t en`` and ``-s en -t de`` work with the same checkpoint and the same data folder. A checkpoint names its directions by
their languages (``models.de-en.encoder...``, ``models.en-de.encoder...``).
"""

import copy
from types import SimpleNamespace
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, cast

import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn

from ..attention import attention_class
from ..errors import OptionError
from ..modules.decoder import LSTMDecoder
from ..modules.encoders.source_encoder import SourceEncoder
from ..ops.likelihoods.vocabulary_loss import Targets
from ..options import file_options, flag, parse_boolean
from .architectures import PAPER_SIZES, SMALL_SIZES, register_architecture
from .attn_lstm import AttnLSTMModel, longest
from .checks import check_softmax
from .configuration import AttnLSTMConfig

# Options of files that belong to a language: in the other direction they change places.
_SWAPPED = ("encoder_embed_path", "decoder_embed_path")


def directions_of(state_dict: Dict[str, Any]) -> List[str]:
    """The names of the directions in an agreement model's parameters; none in those of other models."""
    parts = (name.split(".") for name in state_dict)
    return sorted({part[1] for part in parts if len(part) > 3 and part[0] == "models" and "-" in part[1]})


def _name_directions(task_config: Any) -> Tuple[str, str]:
    """The names of the task's direction and of the other one, as module names (which have no dots).

    Raises:
        OptionError: the two languages are the same
    """
    pair = [getattr(task_config, f"{side}_lang", None) or side for side in ("source", "target")]
    if pair[0] == pair[1]:
        raise OptionError(
            f"--source-lang {pair[0]} --target-lang {pair[1]}: an agreement model tells its directions apart by two "
            "different languages"
        )
    source, target = (language.replace(".", "_") for language in pair)
    return f"{source}-{target}", f"{target}-{source}"


class ReverseBatch(NamedTuple):
    """A batch of the opposite direction; N and T are the widths of the source and of the target that were given."""

    prev_output_tokens: Tensor  # [B, N]
    target: Tensor  # [B, N], the source, its words first
    to_front: Tensor  # [B, N], target = source.gather(1, to_front)


class BothDirections(NamedTuple):
    """The outputs of both directions for a batch, ``target`` [B, T] and ``src_tokens`` [B, N]."""

    forward: Tuple[Any, Dict[str, Any]]  # the decoder's output (logits [B, T, V] or losses) of the direction in use
    reverse: Tuple[Any, Dict[str, Any]]  # of the other, [B, N, V'], for reverse_target
    reverse_target: Tensor  # [B, N], the source, its words first
    forward_weights: Tensor  # [B, T, N], attention in the columns of target and src_tokens
    reverse_weights: Tensor  # [B, N, T], attention of the other direction in the same columns


def reverse_batch(src_tokens: Tensor, pad: int, eos: int) -> ReverseBatch:
    """The batch of the opposite direction.

    The target becomes the source unchanged, since the encoder takes padding on either side. A decoder needs its
    words first: the words of the source are moved to the left. fairseq ends both with the end-of-sentence symbol.

    Args:
        src_tokens: ``[B, N]``, padded on either side
        pad, eos: the symbols, the same in both dictionaries
    """
    padding = src_tokens.eq(pad)
    to_front = padding.to(torch.uint8).argsort(dim=1, stable=True)
    words = src_tokens.gather(1, to_front)
    previous = torch.cat([words.new_full((len(words), 1), eos), words[:, :-1]], dim=1)
    return ReverseBatch(previous.masked_fill(words.eq(pad), pad), words, to_front)


class AgreementLSTMModel(AttnLSTMModel):
    """Two :class:`AttnLSTMModel` of opposite directions; ``encoder`` and ``decoder`` are those of the one in use.

    Args:
        models: the two by their names, such as ``de-en``
        direction: the name of the one in use, the task's
        reverse: the name of the other
    """

    def __init__(self, models: Dict[str, AttnLSTMModel], direction: str, reverse: str):
        BaseFairseqModel.__init__(self)
        # In the order of their names, so that an optimizer's state fits whichever of them is in use.
        self.models = nn.ModuleDict({name: models[name] for name in sorted(models)})
        self.direction, self.reverse = direction, reverse

    def of(self, direction: str) -> AttnLSTMModel:
        """The model of one direction, by its name."""
        return cast(AttnLSTMModel, self.models[direction])

    @property
    def encoder(self) -> SourceEncoder:  # type: ignore[override]
        return self.of(self.direction).encoder

    @property
    def decoder(self) -> LSTMDecoder:  # type: ignore[override]
        return self.of(self.direction).decoder

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        super().check(cfg, task)
        check_softmax(cfg, "agreement models")
        if not parse_boolean("--decoder-attention", cfg.decoder_attention):
            raise OptionError("--decoder-attention False: it is their attentions that the two directions agree in")
        for name in file_options(AttnLSTMConfig):
            if cfg[name] is not None and name not in _SWAPPED:
                raise OptionError(
                    f"{flag(name)} {cfg[name]}: was made for one direction, and an agreement model has "
                    "two; leave it out, or choose another --arch"
                )

    @classmethod
    def check_training(cls, cfg: Any) -> None:
        super().check_training(cfg)
        name = cfg["model"]["attention"]
        if "bias" not in attention_class(name).takes:
            raise OptionError(
                f"--attention {name}: has no scores, from which two directions could learn to agree; choose a "
                "mechanism with scores, such as soft"
            )

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "AgreementLSTMModel":
        """Builds both directions from one configuration.

        ``--encoder-embed-path``, ``--decoder-embed-path`` and ``--...-freeze-embed`` belong to the task's source and
        target language: in the other direction they change places. All sizes are those of encoder and decoder.

        Raises:
            OptionError: options with wrong values, or that do not go together
        """
        cls.check(cfg, task)
        direction, reverse = _name_directions(getattr(task, "cfg", None))
        forward = AttnLSTMModel.build_model(cfg, task)
        limits = {"max_source_positions": longest(task, "target"), "max_target_positions": longest(task, "source")}
        reversed_task = SimpleNamespace(
            source_dictionary=task.target_dictionary,
            target_dictionary=task.source_dictionary,
            cfg=SimpleNamespace(**limits),
        )
        reversed_cfg = copy.copy(cfg)
        if not cfg.share_all_embeddings:
            for name in ("embed_path", "freeze_embed"):
                of_encoder, of_decoder = f"encoder_{name}", f"decoder_{name}"
                reversed_cfg[of_encoder], reversed_cfg[of_decoder] = cfg[of_decoder], cfg[of_encoder]
        backward = AttnLSTMModel.build_model(reversed_cfg, reversed_task)
        model = cls({direction: forward, reverse: backward}, direction, reverse)
        model.matmul_precision, model.cuda_graphs = forward.matmul_precision, forward.cuda_graphs
        return model

    def forward(self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, **kwargs: Any) -> Any:
        """Returns logits ``[B, T, V]`` and ``{"attn": [weights [B, T, N]]}`` of the direction in use.

        With ``target=...`` ``[B, T]``, as the criterion calls it, both directions as :class:`BothDirections`.

        Raises:
            OptionError: a criterion that trains only the direction in use
        """
        if "target" in kwargs:
            return self.both(src_tokens, prev_output_tokens, kwargs["target"], kwargs.get("smoothing"))
        if self.training:
            raise OptionError(
                f"--arch lstm_agreement: trains with --criterion agreement, which trains both {self.direction} and "
                f"{self.reverse}; for one direction choose --arch lstm_soft"
            )
        return self.of(self.direction)(src_tokens, src_lengths, prev_output_tokens, **kwargs)

    def both(
        self, src_tokens: Tensor, prev_output_tokens: Tensor, target: Tensor, smoothing: Optional[float] = None
    ) -> BothDirections:
        """Both directions on one batch, their attentions in the same columns.

        With ``smoothing``, the epsilon of label smoothing, the decoders that can do so return losses.
        """
        pad, eos = self.decoder.dictionary.pad(), self.decoder.dictionary.eos()
        other = reverse_batch(src_tokens, pad, eos)
        forward_targets, reverse_targets = (
            None if smoothing is None else Targets(y, pad, smoothing) for y in (target, other.target)
        )
        forward = self.of(self.direction)(src_tokens, None, prev_output_tokens, targets=forward_targets)
        reverse = self.of(self.reverse)(target, None, other.prev_output_tokens, targets=reverse_targets)
        rows = other.to_front.argsort(dim=1).unsqueeze(-1).expand(-1, -1, target.size(1))
        return BothDirections(
            forward, reverse, other.target, forward[1]["attn"][0], reverse[1]["attn"][0].gather(1, rows)
        )

    def load_state_dict(self, state_dict: Dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As fairseq's.

        Raises:
            OptionError: a direction that the checkpoint lacks
        """
        known = directions_of(state_dict)
        if known and self.direction not in known:
            raise OptionError(
                f"--source-lang and --target-lang: the model translates {' and '.join(known)}, not {self.direction}; "
                "choose one of these, or write one to a checkpoint of its own by fairseq-attn export --direction"
            )
        return super().load_state_dict(state_dict, *args, **kwargs)


register_architecture("lstm_agreement", **PAPER_SIZES)(AgreementLSTMModel)
register_architecture("lstm_agreement_small", **SMALL_SIZES)(AgreementLSTMModel)
