"""Information about the model of a checkpoint."""

import os
from typing import Any, Dict, Iterable, Optional, Tuple

import torch
from torch import Tensor

from .errors import OptionError


def architecture(model: Any) -> Optional[str]:
    """The ``--arch`` or ``model._name`` of a model configuration (a dictionary, a namespace or None), if it has one."""
    for name in ("arch", "_name"):
        value: Optional[str] = model.get(name) if isinstance(model, dict) else getattr(model, name, None)
        if value:
            return value
    return None


def plain_config(config: Any) -> Dict[str, Any]:
    """The configuration of a checkpoint as a plain dictionary, which torch loads safely."""
    from omegaconf import OmegaConf

    plain: Any = config
    if OmegaConf.is_config(config):
        plain = OmegaConf.to_container(config, resolve=False, enum_to_str=True)  # nothing in a file is resolved
    return dict(plain) if isinstance(plain, dict) else {}


def origin(section: Dict[str, Any]) -> Optional[str]:
    """The checkpoint of another training that a training began with; None if it began with random parameters.
    ``section`` is ``checkpoint`` of its configuration."""
    restored = section.get("restore_file")
    own = os.path.realpath(section.get("save_dir") or "checkpoints")
    if not restored or restored == "checkpoint_last.pt" or os.path.realpath(os.path.dirname(restored)) == own:
        restored = section.get("finetune_from_model")  # a checkpoint of its own continues the training
    return os.path.realpath(restored) if restored else None


def check_finite(path: str, parameters: Iterable[Tuple[str, Tensor]]) -> None:
    """Check that all that is computed with the parameters of a checkpoint is not NaN from the start.

    Raises:
        OptionError: one of them holds NaN or an infinity; the message names the first
    """
    for name, value in parameters:
        # the sum is finite unless an element is not, or in rare cases of overflow, and is several times as fast
        wide = torch.float32 if value.dtype in (torch.float16, torch.bfloat16) else None
        if not torch.isfinite(value.detach().sum(dtype=wide)) and not torch.isfinite(value).all():
            raise OptionError(
                f"checkpoint {path}: {name} holds NaN or an infinity, its training diverged; take one from before"
            )
