"""A model that starts from the parameters of a teacher, all but those of its attention.

What reads and writes words is learnt already; in place of the teacher's attention the model has one of its own.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Dict

import torch
from torch import Tensor, nn

from ..checkpoints import architecture
from ..errors import OptionError

__all__ = ["take_parameters"]

logger = logging.getLogger(__name__)

OPTION = "--election-teacher"
ATTENTION = "decoder.attention."
VOCABULARIES = {"source": "encoder.embed_tokens.weight", "target": "decoder.embed_tokens.weight"}


@torch.no_grad()
def take_parameters(model: nn.Module, path: str) -> None:
    """Copies the parameters of the checkpoint ``path`` that ``model`` has, too, but for the attention's.

    Raises:
        OptionError: no such file, no checkpoint of a model of this family, one without attention, other vocabularies,
            other sizes
    """
    state = _read(path)
    teacher: Dict[str, Tensor] = state["model"]
    _check_kind(teacher, state, path)
    own = {name: value for name, value in model.named_parameters() if not name.startswith(ATTENTION)}
    for side, name in VOCABULARIES.items():
        if name in own and name in teacher and len(own[name]) != len(teacher[name]):
            raise OptionError(
                f"{OPTION} {path}: has a {side} vocabulary of {len(teacher[name])} symbols, the data have "
                f"{len(own[name])}; give a teacher that was trained with these data"
            )
    missing = [name for name in own if name not in teacher]
    for name, value in own.items():
        if name in teacher and value.shape != teacher[name].shape:
            raise OptionError(
                f"{OPTION} {path}: {name} is {_shape(teacher[name])} in the teacher and {_shape(value)} in the model; "
                "give the model the teacher's sizes"
            )
    known = model.state_dict().keys()
    # Without a layer or a direction the rest is no model; what else the model does not have, it has chosen not to.
    surplus = [name for name in teacher if name.startswith(("encoder.lstm.", "decoder.lstm.")) and name not in known]
    if surplus:
        raise OptionError(
            f"{OPTION} {path}: has {surplus[0]}{' and others' if len(surplus) > 1 else ''}, which the model lacks; "
            "give the model the teacher's sizes and options"
        )
    for name, value in own.items():
        if name in teacher:
            value.copy_(teacher[name])
    logger.info(f"{OPTION} {path}: {len(own) - len(missing)} of {len(own)} parameters beside the attention's taken")
    if missing:
        logger.warning(f"{OPTION} {path}: has no {', '.join(missing)}: these start at random")


def _read(path: str) -> Dict[str, Any]:
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    if not os.path.isfile(path):
        raise OptionError(f"{OPTION} {path}: no such file; give a checkpoint, such as checkpoint_best.pt")
    try:
        state = load_checkpoint_to_cpu(path)
    except (AttributeError, KeyError, TypeError):  # whatever fairseq stumbles over in a file of another kind
        state = None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise OptionError(f"{OPTION} {path}: is no checkpoint of fairseq-train")
    return state


def _check_kind(teacher: Dict[str, Tensor], state: Dict[str, Any], path: str) -> None:
    if not {"encoder.lstm.weight_ih_l0", "decoder.lstm.weight_ih_l0"} <= teacher.keys():
        cfg = state.get("cfg")
        kind = architecture(state.get("args") if cfg is None else cfg.get("model"))
        raise OptionError(
            f"{OPTION} {path}: is of the architecture {kind or 'unknown'}, whose parameters are others; give a model "
            "of this family, such as lstm_soft (one direction of lstm_agreement: scripts/export_direction.py)"
        )
    # which combines the context with the state, in every model with attention and in no other
    if "decoder.output_projection.weight" not in teacher:
        raise OptionError(
            f"{OPTION} {path}: is a teacher without attention (--decoder-attention False), whose decoder reads no "
            "contexts; give one with attention, such as lstm_soft"
        )


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"
