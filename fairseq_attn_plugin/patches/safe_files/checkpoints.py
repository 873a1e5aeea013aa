"""Checkpoints are checked when they are read, and what is built from them is not larger than they are.

``fairseq.checkpoint_utils`` reads all checkpoints by ``torch.load``. The patch puts
:mod:`.contents` before and after it. While fairseq builds the models of checkpoints, the number of their
parameters is bounded by the number in the files: sizes such as ``encoder_layers`` come from the files, too. Models
whose parameters are not finite are refused, since all that is computed with them is NaN, further updates included.
"""

import contextlib
import inspect
import os
import re
import traceback
from types import ModuleType
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional

import torch
from fairseq import checkpoint_utils
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_attn_plugin.checkpoints import architecture, check_finite
from fairseq_attn_plugin.errors import OptionError, one_line

from ..data_folders import check_dictionaries
from ..messages import explained, file_error, own_words, raised_inside
from ..wrapping import Patch
from .contents import cannot_be_read, check_file, check_state

__all__ = ["CHECKED", "Limit"]


class _CheckedTorch(ModuleType):
    """torch, as ``fairseq.checkpoint_utils`` sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(stream: BinaryIO, *args: Any, **kwargs: Any) -> Any:
        path = stream.name
        size = check_file(stream, path)
        state = torch.load(stream, *args, **kwargs)
        if isinstance(state, dict) and isinstance(state.get("cfg"), DictConfig):  # of fairseq 1.0.0a0
            state["cfg"] = OmegaConf.to_container(state["cfg"], resolve=False)
        check_state(state, path, size)
        for limit in _LIMITS:
            limit.add(path, state)
        return state


def read_checked() -> None:
    if not isinstance(checkpoint_utils.torch, _CheckedTorch):
        checkpoint_utils.torch = _CheckedTorch("torch")


# ---- what is built


class Limit:
    """Counts what models have while they are built, and stops at several times what their files have.

    A model may have parameters that are built and left out again, or that its file lacks; a file that asks for far
    more is wrong.
    """

    FACTOR, ALWAYS = 4, (4_000_000, 4_000)

    def __init__(self) -> None:
        self.path = ""
        self.elements, self.modules = self.ALWAYS
        self.extra: Dict[str, Any] = {}  # by file, what it has beside the parameters

    def add(self, path: str, state: Dict[str, Any]) -> None:
        """Allow what a further file has."""
        self.path, self.extra[path] = path, state.get("extra_state")
        self.elements += self.FACTOR * sum(one.numel() for one in state["model"].values() if torch.is_tensor(one))
        self.modules += 10 * self.FACTOR * len(state["model"])

    def take(self, number: int, modules: int = 0) -> None:
        """Raises OptionError if there are more elements or modules than are left."""
        self.elements -= number
        self.modules -= modules
        if self.elements < 0 or self.modules < 0:
            raise OptionError(
                f"checkpoint {self.path}: its options ask for a model that is larger than its parameters; take another "
                "one, or leave out sizes in --model-overrides"
            )


_LIMITS: List[Limit] = []  # of the loads that run, the outermost first


@contextlib.contextmanager
def _limited() -> Iterator[Limit]:
    limit = Limit()

    def parameter(_module: Any, _name: str, value: Optional[torch.Tensor]) -> None:
        limit.take(0 if value is None else value.numel(), 1)

    def module(_module: Any, _name: str, _value: Any) -> None:
        limit.take(0, 1)

    with contextlib.ExitStack() as hooks:
        hooks.callback(torch.nn.modules.module.register_module_parameter_registration_hook(parameter).remove)
        hooks.callback(torch.nn.modules.module.register_module_module_registration_hook(module).remove)
        _LIMITS.append(limit)
        hooks.callback(_LIMITS.remove, limit)
        yield limit


def _bounded(load: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(load)

    def load_model_ensemble_and_task(filenames: Any, *args: Any, **kwargs: Any) -> Any:
        state = signature.bind(filenames, *args, **kwargs).arguments.get("state")
        with _limited() as limit:
            if state is not None:
                limit.add(filenames[0], state)
            result = load(filenames, *args, **kwargs)
        for path, extra_state in limit.extra.items():
            check_dictionaries(path, extra_state, result[2])
        for path, model in zip(filenames, result[0]):
            check_finite(path, model.named_parameters())
        return result

    return load_model_ensemble_and_task


def _bounded_table(make: Callable[..., None]) -> Callable[..., None]:
    """The table of sines is not a parameter, and has as many rows as the options have positions."""

    def __init__(self: Any, embedding_dim: int, padding_idx: int, init_size: int = 1024, **options: Any) -> None:
        if _LIMITS and embedding_dim * init_size > max(16_000_000, _LIMITS[-1].elements):
            _LIMITS[-1].take(embedding_dim * init_size)
        make(self, embedding_dim, padding_idx, init_size, **options)

    return __init__


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
    """A training is continued with another model than that of the checkpoint."""
    if not str(error).startswith("Cannot load model parameters from checkpoint"):
        return None
    path, trainer = arguments["filename"], arguments["self"]
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
    files = ":".join(arguments["filenames"])
    return f"checkpoint {files} does not fit: {_words(error)}; use the data folder (dictionaries) of its training"


def _words(error: Optional[BaseException]) -> str:
    """The first differences that torch names."""
    return " ".join(str(error).split())[:300]


_LIBRARIES = {"fairseq_attn_plugin", "fairseq", "torch", "numpy", "omegaconf", "hydra"}
_STANDARD_LIBRARY = ("<frozen", os.path.dirname(os.__file__) + os.sep)


def _of_others(error: Exception) -> bool:
    """Whether code of a --user-dir or of another package takes part."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        file, package = frame.f_code.co_filename, frame.f_globals.get("__name__", "").split(".")[0]
        standard = file.startswith(_STANDARD_LIBRARY) and "-packages" not in file
        if package not in _LIBRARIES and not standard:
            return True
    return False


def unusable(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Configurations have too many fields to check each. Faults in the code of a --user-dir keep their trace."""
    path, line = arguments.get("path") or arguments.get("filename") or ":".join(arguments["filenames"]), one_line(error)
    file = file_error(error) if getattr(error, "filename", None) != path else None
    if line is not None and line not in (own_words(error), file):  # of a configuration: names the field
        return f"checkpoint {path}: {line}" if isinstance(error, OmegaConfBaseException) else None
    if isinstance(error, torch.cuda.OutOfMemoryError) or _of_others(error):
        return None
    if isinstance(error, AssertionError) and str(error).startswith("Could not infer task type"):
        match = re.search(r"'_name': '?([^',}]*)", str(error))
        task = match.group(1) if match else ""
        return f"checkpoint {path}: its task {task} is not registered; give the code that has it by --user-dir"
    text = " ".join(str(error).split())[:200]
    return (
        f"checkpoint {path}: cannot be used with its options and these data: {type(error).__name__}: {text} "
        "(FAIRSEQ_ATTN_TRACEBACK=1 shows where)"
    )


def _finite(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_checkpoint(self: Any, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        extra_state = load(self, filename, reset_optimizer, *args, **kwargs)
        if extra_state is not None:
            check_finite(filename, self.get_model().named_parameters())
        if not reset_optimizer and any(getattr(part, "reordered", False) for part in self.get_model().modules()):
            # its moments belong to other parameters
            raise OptionError(
                f"checkpoint {filename}: was trained with several biases by an earlier version, whose state of the "
                "optimizer has another order; go on with --reset-optimizer"
            )
        return extra_state

    return load_checkpoint


CHECKED = Patch(
    name="checked_checkpoints",
    reason="a crafted checkpoint takes any amount of memory and time, a damaged one gives NaN or a stack trace",
    wraps={
        "fairseq.checkpoint_utils:load_checkpoint_to_cpu": explained(unreadable_checkpoint, unusable),
        "fairseq.checkpoint_utils:load_model_ensemble_and_task": lambda load: explained(other_data, unusable)(
            _bounded(load)
        ),
        "fairseq.trainer:Trainer.load_checkpoint": lambda load: explained(other_architecture, unusable)(_finite(load)),
        "fairseq.modules.sinusoidal_positional_embedding:SinusoidalPositionalEmbedding.__init__": _bounded_table,
    },
    extra=read_checked,
)
