"""A model that starts from all parameters of a teacher except those of its attention.

The teacher has learnt to read and write words. The model replaces its attention by one of its own.
"""

import logging
import os
from typing import Dict, Optional

import torch
from torch import Tensor, nn

from ..checkpoints import check_finite
from ..errors import OptionError

logger = logging.getLogger(__name__)

OPTION = "--election-teacher"
ATTENTION = "decoder.attention."
COMBINATION = "decoder.output_projection."  # of context and state
LAYERS = ("encoder.lstm.", "encoder.gru.", "decoder.lstm.", "decoder.gru.")


@torch.no_grad()
def take_parameters(model: nn.Module, path: str) -> None:
    """Copies the parameters that an LSTM encoder-decoder shares with a checkpoint, except those of the attention.

    Raises:
        OptionError: the file does not exist, is not a checkpoint of a model of this family, or belongs to a model
            without attention, with other vocabularies or with other sizes
    """
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    if not os.path.isfile(path):
        raise OptionError(f"{OPTION} {path}: no such file; give a checkpoint, such as checkpoint_best.pt")
    teacher: Dict[str, Tensor] = load_checkpoint_to_cpu(path)["model"]
    own = {name: value for name, value in model.named_parameters() if not name.startswith(ATTENTION)}
    missing = [name for name in own if name not in teacher]
    # A teacher may lack upper layers. The model needs every layer and direction of the teacher; other parts may be
    # missing on purpose.
    wrong = [name for name in own if name in teacher and own[name].shape != teacher[name].shape]
    wrong += [name for name in missing if name.endswith(".weight_ih_l0") or name == f"{COMBINATION}weight"]
    known = model.state_dict().keys()
    wrong += [name for name in teacher if name.startswith((*LAYERS, COMBINATION)) and name not in known]
    if wrong:
        theirs, ours = (_shape(parameters.get(wrong[0])) for parameters in (teacher, own))
        raise OptionError(
            f"{OPTION} {path}: {wrong[0]} is {theirs} in the teacher and {ours} in the model; the teacher must have "
            "attention, such as an lstm_soft, and the model's data, sizes, --rnn and --output-layer"
        )
    check_finite(path, ((name, teacher[name]) for name in own if name in teacher))
    for name, value in own.items():
        if name in teacher:
            value.copy_(teacher[name])
    logger.info(f"{OPTION} {path}: {len(own) - len(missing)} of {len(own)} parameters taken, without the attention")
    if missing:
        logger.warning(f"{OPTION} {path}: lacks {', '.join(missing)}, which start at random")


def _shape(tensor: Optional[Tensor]) -> str:
    return "missing" if tensor is None else " x ".join(map(str, tensor.shape)) or "a number"
