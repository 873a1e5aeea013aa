"""Mistakes in reading checkpoints become one line, as in :mod:`.explained_errors`."""

import glob
import os
import re
from typing import Any, Callable, Dict, Optional

from fairseq_attn_plugin.checkpoints import architecture
from fairseq_attn_plugin.errors import explain_by

from .checkpoint_contents import cannot_be_read
from .explaining import Explanation, explained, raised_inside
from .wrapping import Patch

__all__ = ["EXPLANATIONS", "PATCH", "model_not_found"]


def unreadable_checkpoint(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Whatever torch.load raises inside fairseq's reader: a refused pickle, or a damaged file."""
    path = arguments["path"]
    if isinstance(error, IsADirectoryError):
        return "checkpoint %s is a folder: name a file; %s" % (path, _contents(path, "*.pt", "checkpoints"))
    if not raised_inside(error, "torch/serialization", innermost=False):
        return None
    text = str(error)
    refused = re.search(r"GLOBAL (\S+)", text)
    if refused is not None:
        return (
            "refused to read checkpoint %s: it names %s, which is not one of the types of a fairseq checkpoint and "
            "could run code; nothing was executed" % (path, refused.group(1))
        )
    reason = re.search(r"WeightsUnpickler error:\s*(.*)", text)
    if reason is not None and "Unsupported operand" not in text:
        return "refused to read checkpoint %s, nothing was executed: %s" % (path, reason.group(1))
    return cannot_be_read(path)


def other_architecture(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """A training is continued with another model than that of the checkpoint."""
    if not str(error).startswith("Cannot load model parameters from checkpoint"):
        return None
    from fairseq import checkpoint_utils

    path, trainer = arguments["filename"], arguments["self"]
    cfg = checkpoint_utils.load_checkpoint_to_cpu(path).get("cfg")
    has, asked = architecture(None if cfg is None else cfg.get("model")), architecture(trainer.cfg.model)
    if has and asked and has != asked:
        return (
            "checkpoint %s is of architecture %s, --arch asks for %s: give --arch %s, or another checkpoint or "
            "--save-dir" % (path, has, asked, has)
        )
    return (
        "checkpoint %s does not fit the model%s: %s; give the options it was trained with, or another "
        "checkpoint or --save-dir" % (path, " (--arch %s)" % asked if asked else "", _mismatch(error.__context__))
    )


def other_data(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Decoding takes the model's options from the checkpoint, but the dictionaries from the data folder."""
    if not str(error).startswith("Error(s) in loading state_dict"):
        return None
    files = arguments["filenames"]
    # fairseq builds each model of an ensemble right after it has read its checkpoint
    path = files[0] if len(files) == 1 else _LAST_READ["path"]
    return "checkpoint %s does not fit: %s; use the data folder (dictionaries) that it was trained with" % (
        path,
        _mismatch(error),
    )


def model_not_found(error: BaseException) -> Optional[str]:
    """A rule: fairseq's message names the file."""
    match = re.match(r"Model file not found: (.*)", str(error))
    if match is None:
        return None
    folder = os.path.dirname(match.group(1)) or "."
    return "--path %s: no such file; %s" % (match.group(1), _contents(folder, "*.pt", "checkpoints"))


_LAST_READ: Dict[str, str] = {}


def _reading(load: Callable[..., Any]) -> Callable[..., Any]:
    """Explains why a checkpoint cannot be read, and remembers the path of the one that was read last."""
    read = explained(unreadable_checkpoint)(load)

    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        _LAST_READ["path"] = path
        return read(path, *args, **kwargs)

    return load_checkpoint_to_cpu


def _mismatch(error: Optional[BaseException]) -> str:
    text = " ".join(str(error).split())
    match = re.search(
        r"size mismatch for (\S+): copying a param with shape torch\.Size\((.*?)\) from checkpoint, "
        r"the shape in current model is torch\.Size\((.*?)\)",
        text,
    )
    if match is not None:
        return "%s is %s in the checkpoint and %s in the model" % match.groups()
    match = re.search(r"(Missing|Unexpected) key\(s\) in state_dict: (\S+?)[,.]? ", text + " ")
    if match is not None:
        where = "checkpoint" if match.group(1) == "Missing" else "model"
        return "the %s has no %s" % (where, match.group(2).strip('"'))
    return text[:200] or "its parameters differ"


def _contents(folder: str, pattern: str, what: str) -> str:
    if not os.path.isdir(folder):
        return "there is no folder %s" % folder
    names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(folder, pattern)))
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return "%s has the %s %s" % (folder, what, shown) if names else "%s has no %s" % (folder, what)


EXPLANATIONS: Dict[str, Explanation] = {
    "fairseq.trainer:Trainer.load_checkpoint": other_architecture,
    "fairseq.checkpoint_utils:load_model_ensemble_and_task": other_data,
}


def _show() -> None:
    explain_by(model_not_found)


PATCH = Patch(
    name="explained_checkpoints",
    reason="fairseq answers a checkpoint that is missing, damaged or of another model with a stack trace",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.checkpoint_utils:load_checkpoint_to_cpu": _reading,
        **{target: explained(explanation) for target, explanation in EXPLANATIONS.items()},
    },
    extra=_show,
)
