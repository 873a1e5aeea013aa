"""A checkpoint knows the dictionaries of its training.

Stock fairseq numbers words by the lines of ``dict.LANG.txt``, and a checkpoint has numbers only. Data that were
prepared anew may have the same words in another order: the model then reads and writes other words, without a message.
The patch stores a hash of each dictionary in the checkpoint. Training goes on, and models are loaded, with these
dictionaries only. Checkpoints without hashes are taken as they are.
"""

import hashlib
from typing import Any, Callable, Dict, Optional

from fairseq_attn_plugin.errors import OptionError

from .wrapping import Patch

__all__ = ["PATCH", "check_dictionaries"]

KEY = "dictionaries"


def _hashes(task: Any) -> Dict[str, str]:
    """By language, or by side where the task names none."""
    found = {}
    for side in ("source", "target"):
        try:
            dictionary = getattr(task, f"{side}_dictionary")
        except (AttributeError, NotImplementedError):
            continue
        if hasattr(dictionary, "symbols"):
            name = getattr(getattr(task, "cfg", None), f"{side}_lang", None) or side
            found[name] = hashlib.sha256("\n".join(dictionary.symbols).encode()).hexdigest()
    return found


def check_dictionaries(path: str, extra_state: Optional[Dict[str, Any]], task: Any) -> None:
    """Raises OptionError if a checkpoint was trained with other dictionaries than the task has."""
    trained = (extra_state or {}).get(KEY) or {}
    for name, value in _hashes(task).items():
        if trained.get(name, value) != value:
            raise OptionError(
                f"checkpoint {path}: was trained with another dictionary of {name!r} than these data have, with other "
                "words or in another order; give the data folder of the training, or prepare data with its dictionary "
                "(fairseq-preprocess --srcdict, --tgtdict)"
            )


def _with_hashes(save: Callable[..., Any]) -> Callable[..., Any]:
    def save_checkpoint(self: Any, filename: str, extra_state: Dict[str, Any]) -> Any:
        return save(self, filename, {**extra_state, KEY: _hashes(self.task)})

    return save_checkpoint


def _checked(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_checkpoint(self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        extra_state = load(self, filename, *args, **kwargs)
        check_dictionaries(filename, extra_state, self.task)
        return extra_state

    return load_checkpoint


PATCH = Patch(
    name="dictionaries",
    reason="a model reads and writes other words where the dictionary of its data has another order",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.trainer:Trainer.save_checkpoint": _with_hashes,
        "fairseq.trainer:Trainer.load_checkpoint": _checked,
    },
)
