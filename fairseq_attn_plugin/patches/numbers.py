"""Numbers in options that fairseq takes as they come, and then fails of, runs on with, or computes nonsense with.

Every tool sets up a task from the section ``task`` of a whole configuration, before anything is built. The numbers of
all its sections are checked there, from a command line as well as from YAML. With a task without a dataclass, that of a
training is checked. The configuration of a checkpoint, which may be older than a range, is not.
"""

import logging
import re
from argparse import Namespace
from typing import Any, Dict, Optional

import torch

from ..errors import OptionError
from ..options import flag
from ..ranges import check_numbers
from .messages import explained
from .wrapping import Patch, before

logger = logging.getLogger(__name__)


def check_together(cfg: Any) -> None:
    """Raises OptionError for sections of a configuration that contradict each other.

    The classes of the model and of the criterion may have ``check_training(cfg)`` for this.
    """
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import MODEL_REGISTRY

    common, dataset = cfg.get("common") or {}, cfg.get("dataset") or {}
    if common.get("amp") and (common.get("cpu") or not torch.cuda.is_available()):
        logger.warning("--amp: has no effect without a GPU: everything is computed in float32; leave it out")
    part, parts = dataset.get("shard_id") or 0, dataset.get("num_shards") or 1
    if part >= parts:
        raise OptionError(f"--shard-id {part}: must be less than --num-shards {parts}")
    for section, registry in (("model", MODEL_REGISTRY), ("criterion", CRITERION_REGISTRY)):
        chosen = cfg.get(section)
        name = chosen.get("_name") if isinstance(chosen, dict) else None
        check = getattr(registry.get(name), "check_training", None)
        if check is not None:
            check(cfg)


def _sections(cfg: Any) -> Dict[str, Any]:
    """A configuration as a dictionary. What refers to another value that is not there is left out."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    found: Dict[str, Any] = {}
    for name in cfg:
        try:
            value = cfg[name]
        except OmegaConfBaseException:  # it may be there when it is needed, as ${hydra:run.dir} is
            continue
        if isinstance(value, Namespace):  # the options of a model or task without a dataclass
            value = vars(value)
        elif OmegaConf.is_dict(value):
            value = _sections(value)
        elif OmegaConf.is_list(value):
            value = list(value)
        found[name] = value
    return found


def check_configuration(cfg: Any) -> None:
    """Raises OptionError as ``check_numbers`` and :func:`check_together` do; ``cfg`` is a whole configuration."""
    sections = _sections(cfg)
    check_numbers(sections)
    check_together(sections)


@before
def _checking(cfg: Any, **options: Any) -> None:
    from omegaconf import OmegaConf

    whole = cfg._get_parent() if OmegaConf.is_config(cfg) else None
    if whole is not None and not options.get("from_checkpoint"):
        check_configuration(whole)


def _no_number(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """The options of a command line become a configuration, and some values are parsed only then."""
    from fairseq.dataclass.utils import interpret_dc_type

    for name, own in arguments["data_class"].__dataclass_fields__.items():
        value = getattr(arguments["args"], name, None)
        numeric = isinstance(value, str) and interpret_dc_type(own.type) in (int, float)
        if numeric and isinstance(error, (SyntaxError, ValueError)) and not re.fullmatch(r"[-+.\deE]+", str(value)):
            return f"{flag(name)} {value!r}: must be a number"
    return None


@before
def _checking_around_a_namespace(cfg: Any, *_args: Any, **_options: Any) -> None:
    if isinstance(cfg.get("task"), Namespace):  # a task without a dataclass does not know the whole configuration
        check_configuration(cfg)


NUMBERS = Patch(
    name="numbers",
    reason="fairseq trains with a dropout of nan, and fails of other numbers with a stack trace",
    wraps={
        "fairseq.tasks:setup_task": _checking,
        "fairseq.distributed.utils:call_main": _checking_around_a_namespace,
        "fairseq.dataclass.utils:_override_attr": explained(_no_number),
    },
)
