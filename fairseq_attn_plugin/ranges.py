"""The numbers that options of fairseq may have. fairseq takes others, and fails of them later or computes nonsense.

Those of a whole configuration are checked before anything is built (:mod:`fairseq_attn_plugin.patches.numbers`), those
of a search once more where a generator is built: ``--eval-bleu-args``, keywords of the hub interface and fairseq-attn
have them too.
"""

import math
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from .errors import OptionError
from .options import flag, literal


class Range(NamedTuple):
    """The numbers an option may have: ``least <= x < bound``."""

    least: float
    what: str
    bound: float = math.inf
    size: int = 0  # how many there must be; 0: any number
    whole: bool = False  # whether only whole numbers


# options of models that refine a translation, with their defaults
ITERATIVE = {
    **dict.fromkeys(("retain_iter_history", "print_step"), False),
    **{"iter_decode_eos_penalty": 0.0, "iter_decode_max_iter": 10, "iter_decode_with_beam": 1},
    **dict.fromkeys(("iter_decode_force_max_iter", "iter_decode_with_external_reranker"), False),
}
STEEPEST = 10  # exponent of a length: the power of a thousand words is a number of float32
POSITIVE = Range(1, "at least 1")
NATURAL = Range(0, "0 or more")
ABOVE = Range(5e-324, "above 0")
PROBABILITY = Range(0, "at least 0 and less than 1", 1)
OF_TRAINING = (
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
    (ABOVE, "adam_eps"),  # a parameter without gradient would become 0 / 0
)
OF_SEARCH = (
    (Range(1, "at least 1, a whole number", whole=True), "beam nbest"),
    (NATURAL, "max_len_a max_len_b min_len prefix_size no_repeat_ngram_size"),
    (ABOVE, "temperature"),
    (Range(-STEEPEST, f"from -{STEEPEST} to {STEEPEST}", math.nextafter(STEEPEST, math.inf)), "lenpen"),
    (Range(-math.inf, "a number"), "unkpen diverse_beam_strength diversity_rate lm_weight"),
    (Range(-1, "at least 1, a whole number (-1 or 0: do without)", whole=True), "sampling_topk diverse_beam_groups"),
    (Range(-1, "above 0 and at most 1 (from -1 to 0: all words)", math.nextafter(1, 2)), "sampling_topp"),
)
SEARCH = {name: known for known, names in OF_SEARCH for name in names.split()}
RANGES: Dict[str, Range] = {name: known for known, names in OF_TRAINING for name in names.split()} | SEARCH
UNLIMITED = ("clip_norm", "stop_time_hours", "unkpen")  # inf: no limit; no unknown words
SEARCHES = ("sampling", "match_source_len", "diverse_beam_groups", "diversity_rate")  # above 0: it is chosen


def range_of(name: str) -> Optional[Range]:
    """The numbers an option may have; None if only the model or criterion that has it can tell."""
    is_probability = "dropout" in name and name != "retain_dropout_modules"  # which are names
    return PROBABILITY if is_probability else RANGES.get(name)


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
            _check(name, number, known)


def _check(name: str, number: float, known: Optional[Range]) -> None:
    if isinstance(number, int) and abs(number) >= 2**63:
        raise OptionError(f"{flag(name)} {number}: must be less than 2^63")
    if number == math.inf and name in UNLIMITED:
        return
    if not math.isfinite(number):
        raise OptionError(f"{flag(name)} {number}: must be a finite number")
    whole = known is None or not known.whole or isinstance(number, int)
    if known is not None and not (whole and known.least <= number < known.bound):
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
        value = literal(value.strip()) if expected or value.strip()[:1] in ("(", "[") else None
    parts = value if isinstance(value, (list, tuple)) else [value]
    return tuple(part for part in parts if isinstance(part, (int, float)) and not isinstance(part, bool))


def check_search(args: Any) -> None:
    """Checks the options of a generator, of a command line, of ``--eval-bleu-args`` or of a keyword alike: those that a
    ``GenerationConfig`` of fairseq or a namespace has.

    Raises:
        OptionError: a value that search cannot have, or values that contradict each other
    """
    for name, known in SEARCH.items():
        if hasattr(args, name):
            value = getattr(args, name)
            if not isinstance(value, (int, float)):  # null, or a text: JSON and keywords have both
                raise OptionError(f"{flag(name)} {value!r}: must be {known.what}")
            _check(name, value, known)
    for name in SEARCHES[:2]:
        if not isinstance(getattr(args, name, None), (int, type(None))):
            raise OptionError(f"{flag(name)} {getattr(args, name)!r}: must be true or false")
    chosen = [name for name in SEARCHES if (getattr(args, name, None) or 0) > 0]
    chosen += ["constraints"] if getattr(args, "constraints", None) else []
    if len(chosen) > 1:
        raise OptionError(f"{' and '.join(map(flag, chosen))}: are different searches; choose one")
    for name, default in ITERATIVE.items():
        if getattr(args, name, default) != default:
            raise OptionError(f"{flag(name)}: is for models that refine a translation in iterations; leave it out")
    # without --beam search has a width of 5, in fairseq-train as well
    beam, nbest, groups = (getattr(args, *given) for given in (("beam", 5), ("nbest", 1), ("diverse_beam_groups", -1)))
    if nbest > beam:
        raise OptionError(f"--nbest {nbest}: must be at most --beam {beam}, the hypotheses that search keeps")
    if groups > 1 and beam % groups:
        raise OptionError(f"--diverse-beam-groups {groups}: must divide --beam {beam} into groups of equal size")
