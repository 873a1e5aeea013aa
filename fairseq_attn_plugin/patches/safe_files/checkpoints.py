"""A checkpoint that is damaged, of another kind or of another training is refused in one line.

``fairseq.checkpoint_utils`` reads all checkpoints by ``torch.load``. The patch looks at the file before and at its
contents after it. Models whose parameters are not finite are refused, since all that is computed with them is NaN,
further updates included.
"""

import os
import re
import zipfile
from types import ModuleType
from typing import Any, BinaryIO, Dict, Optional

import torch
from fairseq import checkpoint_utils
from omegaconf.errors import OmegaConfBaseException

from fairseq_attn_plugin.checkpoints import architecture, check_finite
from fairseq_attn_plugin.errors import OptionError, one_line

from ..data_folders import KEY, LANGUAGES, check_dictionaries, languages_of, other_direction
from ..messages import explained, file_error, own_words, raised_inside
from ..wrapping import Patch, after

# what OmegaConf reads as a reference, as repr shows it; hydra removes quotation marks and backslashes
REFERENCE = re.compile(r"\$[\s'\"\\]*\{[^}]*")

_EXTRA_STATE: Dict[str, Dict[str, Any]] = {}  # what data are compared with, by the path of the checkpoint


# ---- the file and its contents


def cannot_be_read(path: str) -> str:
    """The line for a file that is cut off or of another kind."""
    return (
        f"checkpoint {path} ({os.path.getsize(path)} bytes) cannot be read: it is truncated or not a checkpoint; take "
        "another one from the same folder, or train again"
    )


def check_file(stream: BinaryIO, path: str) -> None:
    """Check the records of a zip file, which is what torch writes since 1.6, against their checksums.

    torch writes the CRC-32 of each record and does not compare it when it reads. A file without checksums
    (``torch.serialization.set_crc32_options(False)``) and a file of older versions of torch pass.

    Raises:
        OptionError: a record is damaged
    """
    start = stream.read(4)
    stream.seek(0)
    if start != b"PK\3\4":  # how torch tells its formats apart
        return
    try:
        with zipfile.ZipFile(stream) as archive:
            damaged = archive.testzip() if any(record.CRC for record in archive.infolist()) else None
    except Exception:  # zipfile raises many kinds for headers that are wrong
        raise OptionError(cannot_be_read(path)) from None
    if damaged is not None:
        raise OptionError(
            f"checkpoint {path} is damaged: {damaged} has another checksum than when it was written; take another one "
            "from the same folder, or train again"
        )
    stream.seek(0)


def check_state(state: Any, path: str) -> None:
    """Check what ``torch.load`` has read, before fairseq uses it.

    Raises:
        OptionError: it is not what fairseq-train writes, or its configuration refers to other values
            (``${oc.env:HOME}``), which fairseq writes out when it saves
    """
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not model:
        bare = isinstance(state, dict) and state and all(map(torch.is_tensor, state.values()))
        raise OptionError(
            f"checkpoint {path}: has no dictionary 'model' of parameters{'; it is a bare state dict' if bare else ''}; "
            "must be a checkpoint that fairseq-train wrote"
        )
    for name in ("args", "cfg"):
        shown = repr(state.get(name))
        for _ in range(3):  # escapes of repr, and those of a literal in the text, which fairseq parses
            found = REFERENCE.search(shown)
            if found is not None:
                raise OptionError(
                    f"checkpoint {path}: {name} has {found[0][:80]}, which refers to another value; must be a "
                    "checkpoint that fairseq-train wrote"
                )
            shown = shown.encode("ascii", "backslashreplace").decode("unicode_escape", "ignore")


class _CheckedTorch(ModuleType):
    """torch, as ``fairseq.checkpoint_utils`` sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(stream: BinaryIO, *args: Any, **kwargs: Any) -> Any:
        check_file(stream, stream.name)
        state = torch.load(stream, *args, **kwargs)
        check_state(state, stream.name)
        _EXTRA_STATE.pop(stream.name, None)  # the last one is the one that was read last
        _EXTRA_STATE[stream.name] = {KEY: (state.get("extra_state") or {}).get(KEY), LANGUAGES: languages_of(state)}
        return state


def read_checked() -> None:
    if not isinstance(checkpoint_utils.torch, _CheckedTorch):
        checkpoint_utils.torch = _CheckedTorch("torch")


# ---- the models


@after
def _usable(loaded: Any, filenames: Any, *_args: Any, **_kwargs: Any) -> None:
    models, _cfg, task = loaded
    for path, model in zip(filenames, models):
        check_dictionaries(path, _EXTRA_STATE.get(path), task)
        other = other_direction(path, _EXTRA_STATE.get(path), task)
        if other is not None and not hasattr(model, "reverse"):  # an agreement model translates in both directions
            raise OptionError(other)
        check_finite(path, model.named_parameters())


@after
def _finite(
    extra_state: Any, self: Any, filename: str, reset_optimizer: bool = False, *_args: Any, **_kwargs: Any
) -> None:
    if extra_state is not None:
        check_finite(filename, self.get_model().named_parameters())
    if not reset_optimizer and any(getattr(part, "reordered", False) for part in self.get_model().modules()):
        # its moments belong to other parameters
        raise OptionError(
            f"checkpoint {filename}: was trained with several biases by an earlier version, whose state of the "
            "optimizer has another order; go on with --reset-optimizer"
        )


# ---- messages


def unreadable_checkpoint(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Whatever torch.load raises inside fairseq's reader: a refused pickle, or a damaged file."""
    path, text = arguments["path"], str(error)
    if isinstance(error, IsADirectoryError):
        return f"checkpoint {path} is a folder: name a file"
    if not raised_inside(error, "torch/serialization"):
        return None
    refused = re.search(r"GLOBAL (\S+)", text)
    if refused is not None:
        return (
            f"refused to read checkpoint {path}: it names {refused[1]}, which is not one of the types of a fairseq "
            "checkpoint and could run code; nothing was executed"
        )
    reason = re.search(r"WeightsUnpickler error:\s*(.*)", text)
    if reason is not None and "Unsupported operand" not in text:
        return f"refused to read checkpoint {path}, nothing was executed: {reason[1]}"
    return cannot_be_read(path)


def other_architecture(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """A training is continued with another model, criterion or optimizer than that of the checkpoint."""
    path, trainer = arguments["filename"], arguments["self"]
    other = re.match(r"(Criterion|Optimizer) does not match; .* (\w+) vs (\w+)\Z", str(error))
    if other is not None:
        return (
            f"checkpoint {path} was trained with {other[2]}, and --{other[1].lower()} asks for {other[3]}: give the "
            "one of its training, or --reset-optimizer"
        )
    if not str(error).startswith("Cannot load model parameters from checkpoint"):
        return None
    cfg = checkpoint_utils.load_checkpoint_to_cpu(path).get("cfg")
    has, asked = architecture(None if cfg is None else cfg.get("model")), architecture(trainer.cfg.model)
    if has and asked and has != asked:
        return (
            f"checkpoint {path} is of architecture {has}, --arch asks for {asked}: give --arch {has}, or another "
            "checkpoint or --save-dir"
        )
    return (
        f"checkpoint {path} does not fit the model: {_words(error.__context__)}; give the options it was trained with, "
        "or another checkpoint or --save-dir"
    )


def other_data(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Decoding takes the model's options from the checkpoint, but the dictionaries from the data folder."""
    if not str(error).startswith("Error(s) in loading state_dict"):
        return None
    path = next(reversed(_EXTRA_STATE), ":".join(arguments["filenames"]))  # of several the one that was read last
    other = other_direction(path, _EXTRA_STATE.get(path), arguments.get("task"))
    overrides, remedy = arguments.get("arg_overrides"), "use the data folder (dictionaries) of its training"
    if overrides and "data" not in overrides:  # as in trained_models
        remedy += f", and do not change the shapes of parameters by the options {overrides}"
    return other or f"checkpoint {path} does not fit: {_words(error)}; {remedy}"


def _words(error: Optional[BaseException]) -> str:
    """The first differences that torch names."""
    return " ".join(str(error).split())[:300].rstrip(".")


def unusable(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Configurations have too many fields to check each."""
    path, line = arguments.get("path") or arguments.get("filename") or ":".join(arguments["filenames"]), one_line(error)
    file = file_error(error) if getattr(error, "filename", None) != path else None
    if line is not None and line not in (own_words(error), file):  # of a configuration: names the field
        return f"checkpoint {path}: {line}" if isinstance(error, OmegaConfBaseException) else None
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return None
    if isinstance(error, AssertionError) and str(error).startswith("Could not infer task type"):
        match = re.search(r"'_name': '?([^',}]*)", str(error))
        task = match.group(1) if match else ""
        return f"checkpoint {path}: its task {task} is not registered; give the code that has it by --user-dir"
    return (
        f"checkpoint {path}: cannot be used with its options and these data: {type(error).__name__}: "
        f"{_words(error)} (FAIRSEQ_ATTN_TRACEBACK=1 shows where)"
    )


CHECKED = Patch(
    name="checked_checkpoints",
    reason="a damaged or foreign checkpoint gives NaN or a stack trace",
    wraps={
        "fairseq.checkpoint_utils:load_checkpoint_to_cpu": explained(unreadable_checkpoint, unusable),
        "fairseq.checkpoint_utils:load_model_ensemble_and_task": lambda load: _usable(
            explained(other_data, unusable)(load)
        ),
        "fairseq.trainer:Trainer.load_checkpoint": lambda load: explained(other_architecture, unusable)(_finite(load)),
    },
    extra=read_checked,
)
