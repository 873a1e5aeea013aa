"""Numbers in options that fairseq takes as they come, and then fails of, runs on with, or computes nonsense with.

Every tool sets up a task from the section ``task`` of a whole configuration, before anything is built. The numbers of
all its sections are checked there, from a command line as well as from YAML. A task without a dataclass is not checked,
nor is the configuration of a checkpoint, which may be older than a range. Options of search are checked where a
generator is built (:func:`fairseq_attn_plugin.decoding.options.check_search`).
"""

import ast
import math
import re
from argparse import Namespace
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import flag

from .messages import explained
from .wrapping import Patch


class Range(NamedTuple):
    """The numbers an option may have: ``least <= x < bound``."""

    least: float
    what: str
    bound: float = math.inf
    size: int = 0  # how many there must be; 0: any number


POSITIVE = Range(1, "at least 1")
NATURAL = Range(0, "0 or more")
PROBABILITY = Range(0, "at least 0 and less than 1", 1)
BY_RANGE = (
    (
        POSITIVE,
        "batch_size batch_size_valid max_tokens max_tokens_valid update_freq max_source_positions max_target_positions "
        "num_shards t_mult required_seq_len_multiple log_interval save_interval validate_interval ema_update_freq",
    ),
    (
        NATURAL,
        "validate_after_updates data_buffer_size shard_id max_valid_steps buffer_size stop_time_hours max_epoch "
        "save_interval_updates validate_interval_updates max_update lr weight_decay ignore_prefix_size power min_lr "
        "end_learning_rate warmup_updates max_lr force_anneal lr_patience",
    ),
    (PROBABILITY, "momentum label_smoothing"),
    (Range(0, "two numbers, each at least 0 and less than 1, as in '(0.9, 0.98)'", 1, size=2), "adam_betas"),
    (Range(1, "at least 1 and less than 2^31", 2**31), "required_batch_size_multiple"),
    (Range(0, "0 to 1000", 1001), "num_workers"),
    (Range(5e-324, "above 0"), "adam_eps"),  # a parameter without gradient would become 0 / 0
)
RANGES: Dict[str, Range] = {name: known for known, names in BY_RANGE for name in names.split()}
UNLIMITED = ("clip_norm", "stop_time_hours")  # inf says that there is no limit


def range_of(name: str) -> Optional[Range]:
    """The numbers an option may have; None if only the model or criterion that has it can tell."""
    return PROBABILITY if "dropout" in name else RANGES.get(name)


def check_numbers(cfg: Any) -> None:
    """Checks the numbers in all sections of a configuration.

    Raises:
        OptionError: one is not a finite number of 64 bits, or not in its range
    """
    for name, value in _leaves(cfg):
        known = range_of(name)
        numbers = _numbers(value, known is not None)
        if known is not None and known.size and len(numbers) != known.size:
            raise OptionError(f"{flag(name)} {value}: must be {known.what}")
        if known is not None and isinstance(value, (list, str)) and not numbers:
            raise OptionError(f"{flag(name)} {value or repr('')}: must be a number, {known.what}")
        for number in numbers:
            if isinstance(number, int) and abs(number) >= 2**63:
                raise OptionError(f"{flag(name)} {number}: must be less than 2^63")
            if number == math.inf and name in UNLIMITED:
                continue
            if not math.isfinite(number):
                raise OptionError(f"{flag(name)} {number}: must be a finite number")
            if known is not None and not known.least <= number < known.bound:
                raise OptionError(f"{flag(name)} {number}: must be {known.what}")


def _leaves(cfg: Any) -> Iterator[Tuple[str, Any]]:
    for name, value in cfg.items():
        if isinstance(value, dict):
            yield from _leaves(value)
        elif name != "_name":
            yield name, value


def _numbers(value: Any, expected: bool) -> Tuple[float, ...]:
    """The numbers of a value, or of its parts: ``(0.9, 0.98)`` is a string in fairseq, as is ``0.9,0.98``."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value.strip()) if expected or value.strip()[:1] in ("(", "[") else ()
        except (ValueError, SyntaxError):
            return ()
    parts = value if isinstance(value, (list, tuple)) else [value]
    return tuple(part for part in parts if isinstance(part, (int, float)) and not isinstance(part, bool))


def check_together(cfg: Any) -> None:
    """Checks what the sections of a configuration say together.

    The classes of the model and of the criterion may have ``check_training(cfg)`` for this.

    Raises:
        OptionError: options that contradict each other
    """
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import MODEL_REGISTRY

    dataset = cfg.get("dataset") or {}
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


def _checking(setup: Callable[..., Any]) -> Callable[..., Any]:
    def setup_task(cfg: Any, **options: Any) -> Any:
        from omegaconf import OmegaConf

        whole = cfg._get_parent() if OmegaConf.is_config(cfg) else None
        if whole is not None and not options.get("from_checkpoint"):
            sections = _sections(whole)
            check_numbers(sections)
            check_together(sections)
        return setup(cfg, **options)

    return setup_task


def _no_number(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """The options of a command line become a configuration, and some values are parsed only then."""
    from fairseq.dataclass.utils import interpret_dc_type

    for name, own in arguments["data_class"].__dataclass_fields__.items():
        value = getattr(arguments["args"], name, None)
        numeric = isinstance(value, str) and interpret_dc_type(own.type) in (int, float)
        if numeric and isinstance(error, (SyntaxError, ValueError)) and not re.fullmatch(r"[-+.\deE]+", str(value)):
            return f"{flag(name)} {value!r}: must be a number"
    return None


NUMBERS = Patch(
    name="numbers",
    reason="fairseq trains with a dropout of nan, and fails of other numbers with a stack trace",
    wraps={
        "fairseq.tasks:setup_task": _checking,
        "fairseq.dataclass.utils:_override_attr": explained(_no_number),
    },
)
