"""A model that starts from all parameters of a teacher except those of its attention.

The teacher has learnt to read and write words. The model replaces its attention by one of its own.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Dict

import torch
from torch import Tensor, nn

from ..checkpoints import architecture, check_finite
from ..errors import OptionError

__all__ = ["take_parameters"]

logger = logging.getLogger(__name__)

OPTION = "--election-teacher"
ATTENTION = "decoder.attention."
COMBINATION = "decoder.output_projection."  # of context and state


@torch.no_grad()
def take_parameters(model: nn.Module, path: str) -> None:
    """Copies the parameters that ``model`` shares with a checkpoint, except those of the attention.

    Args:
        model: an LSTM encoder-decoder
        path: checkpoint of the teacher

    Raises:
        OptionError: the file does not exist, is not a checkpoint of a model of this family, or belongs to a model
            without attention, with other vocabularies or with other sizes
    """
    state = _read(path)
    teacher: Dict[str, Tensor] = state["model"]
    own = {name: value for name, value in model.named_parameters() if not name.startswith(ATTENTION)}
    _check_kind(teacher, state, path, own)
    missing = [name for name in own if name not in teacher]
    for name, value in own.items():
        if name in teacher and value.shape != teacher[name].shape:
            raise OptionError(
                f"{OPTION} {path}: {name} is {_shape(teacher[name])} in the teacher and {_shape(value)} in the model; "
                "give the model the teacher's sizes and data"
            )
    known = model.state_dict().keys()
    # The model needs every layer and direction of the teacher; other parts may be missing on purpose.
    needed = ("encoder.lstm.", "encoder.gru.", "decoder.lstm.", "decoder.gru.", COMBINATION)
    surplus = [name for name in teacher if name.startswith(needed) and name not in known]
    if surplus:
        raise OptionError(
            f"{OPTION} {path}: has {surplus[0]}{' and others' if len(surplus) > 1 else ''}, which the model lacks; "
            "give the model the teacher's sizes and options"
        )
    check_finite(path, ((name, teacher[name]) for name in own if name in teacher))
    for name, value in own.items():
        if name in teacher:
            value.copy_(teacher[name])
    logger.info(f"{OPTION} {path}: {len(own) - len(missing)} of {len(own)} parameters taken, without the attention")
    if missing:
        logger.warning(f"{OPTION} {path}: lacks {', '.join(missing)}, which start at random")


def _read(path: str) -> Dict[str, Any]:
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    if not os.path.isfile(path):
        raise OptionError(f"{OPTION} {path}: no such file; give a checkpoint, such as checkpoint_best.pt")
    state: Dict[str, Any] = load_checkpoint_to_cpu(path)
    return state


def _check_kind(teacher: Dict[str, Tensor], state: Dict[str, Any], path: str, own: Dict[str, Tensor]) -> None:
    if not {name for name in own if name.endswith(".weight_ih_l0")} <= teacher.keys():
        cfg = state.get("cfg")
        kind = architecture(state.get("args") if cfg is None else cfg.get("model"))
        raise OptionError(
            f"{OPTION} {path}: has the architecture {kind or 'unknown'}, whose parameters differ; give a model of this "
            "family with the same --rnn, such as lstm_soft (for one direction of lstm_agreement see fairseq-attn "
            "export --direction)"
        )
    # Without it in the model (--output-layer linear), a teacher without attention has another size of the vocabulary's
    # matrix.
    if f"{COMBINATION}weight" in own and f"{COMBINATION}weight" not in teacher:
        raise OptionError(
            f"{OPTION} {path}: has no attentional layer (--decoder-attention False or --output-layer linear); give a "
            "teacher with attention and the model's --output-layer, such as lstm_soft"
        )


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"
