"""The lines of :mod:`fairseq_attn_plugin._explain` that have to do with reading checkpoints."""

import glob
import os
import re
from typing import Any, Optional

from fairseq_attn_plugin._trace import get, is_inside, local


def model_not_found(error: BaseException) -> Optional[str]:
    match = re.match(r"Model file not found: (.*)", str(error))
    if match is None:
        return None
    folder = os.path.dirname(match.group(1)) or "."
    return "--path %s: no such file; %s" % (match.group(1), _contents(folder, "*.pt", "checkpoints"))


def unreadable_checkpoint(error: BaseException) -> Optional[str]:
    """Whatever torch.load raises under fairseq's reader: a refused pickle, or a file that is damaged."""
    path = local(error, "load_checkpoint_to_cpu", "path")
    if isinstance(error, IsADirectoryError) and path is not None:
        return "checkpoint %s is a folder: name a file; %s" % (path, _contents(path, "*.pt", "checkpoints"))
    if path is None or not is_inside(error, "torch/serialization", innermost=False):
        return None
    text = str(error)
    refused = re.search(r"GLOBAL (\S+)", text)
    if refused is not None:
        return (
            "refused to read checkpoint %s: it names %s, which is none of the types of a fairseq checkpoint and "
            "could run code; nothing was executed" % (path, refused.group(1))
        )
    reason = re.search(r"WeightsUnpickler error: (.*)", text)
    if reason is not None and "Unsupported operand" not in text:
        return "refused to read checkpoint %s, nothing was executed: %s" % (path, reason.group(1))
    return (
        "checkpoint %s (%d bytes) cannot be read: it is truncated or no checkpoint; take another one of the "
        "same folder, or train again" % (path, os.path.getsize(path))
    )


def other_architecture(error: BaseException) -> Optional[str]:
    match = re.match(r"Cannot load model parameters from checkpoint (.*); please ensure", str(error))
    if match is None:
        return None
    state, trainer = local(error, "load_checkpoint", "state"), local(error, "load_checkpoint", "self")
    has, asked = architecture(get(state, "cfg", "model")), architecture(get(trainer, "cfg", "model"))
    if has and asked and has != asked:
        return (
            "checkpoint %s is of architecture %s, --arch asks for %s: give --arch %s, or another checkpoint or "
            "--save-dir" % (match.group(1), has, asked, has)
        )
    return (
        "checkpoint %s does not fit the model%s: %s; give the options it was trained with, or another "
        "checkpoint or --save-dir"
        % (match.group(1), " (--arch %s)" % asked if asked else "", _mismatch(error.__context__))
    )


def other_data(error: BaseException) -> Optional[str]:
    """Decoding takes the model's options from the checkpoint, but the dictionaries from the data folder."""
    path = local(error, "load_model_ensemble_and_task", "filename")
    if path is None or not str(error).startswith("Error(s) in loading state_dict"):
        return None
    return "checkpoint %s does not fit: %s; use the data folder (dictionaries) that it was trained with" % (
        path,
        _mismatch(error),
    )


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


def architecture(model: Any) -> Optional[str]:
    """The ``--arch`` or ``model._name`` of a model configuration of either kind."""
    return get(model, "arch") or get(model, "_name")


def _contents(folder: str, pattern: str, what: str) -> str:
    if not os.path.isdir(folder):
        return "there is no folder %s" % folder
    names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(folder, pattern)))
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return "%s has the %s %s" % (folder, what, shown) if names else "%s has no %s" % (folder, what)


RULES = [model_not_found, unreadable_checkpoint, other_architecture, other_data]
