"""The two directions of an agreement model: their names, and the configuration of the opposite one."""

import copy
from types import SimpleNamespace
from typing import Any, Dict, List, Tuple

from ..attention import attention_class, options_of
from ..errors import OptionError

__all__ = ["SWAPPED", "directions_of", "name_directions", "reversed_configuration", "reversed_task"]

# Options of files that belong to a language: in the other direction they change places.
SWAPPED = ("encoder_embed_path", "decoder_embed_path")


def directions_of(state_dict: Dict[str, Any]) -> List[str]:
    """The names of the directions in an agreement model's parameters; none in those of other models."""
    parts = (name.split(".") for name in state_dict)
    return sorted({part[1] for part in parts if len(part) > 3 and part[0] == "models" and "-" in part[1]})


def name_directions(task_config: Any) -> Tuple[str, str]:
    """The names of the task's direction and of the other one, as module names (which have no dots).

    Args:
        task_config: the task's configuration, for ``source_lang`` and ``target_lang``

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


def reversed_configuration(cfg: Any) -> Any:
    """The configuration of the other direction: embeddings follow their language, mechanisms reverse their options."""
    result = copy.copy(cfg)
    if not cfg.share_all_embeddings:
        for name in ("embed_path", "freeze_embed"):
            result[f"encoder_{name}"], result[f"decoder_{name}"] = cfg[f"decoder_{name}"], cfg[f"encoder_{name}"]
    mechanism = attention_class(cfg.attention)
    names = {own.field.name: name for name, own in options_of(mechanism.Config).items()}
    for field, value in mechanism.reversed_options({field: cfg[name] for field, name in names.items()}).items():
        result[names[field]] = value
    return result


def reversed_task(task: Any) -> Any:
    """The parts of a task from which the model of the other direction is built."""
    limits = getattr(task, "cfg", None)
    swapped = {
        "max_source_positions": getattr(limits, "max_target_positions", 1e5),
        "max_target_positions": getattr(limits, "max_source_positions", 1e5),
    }
    return SimpleNamespace(
        source_dictionary=task.target_dictionary,
        target_dictionary=task.source_dictionary,
        cfg=SimpleNamespace(**swapped),
    )
