"""Attention without a network: a Gaussian over source positions, after Bal and Sinha, "Modelling Bahdanau Attention
using Election methods aided by Q-Learning".

For step t (from 0) of a sentence with n source positions, the end of sentence (its last one) included, p = n - 1 words,

    c_t  = min( t / rho, n - 1 )                                 the centre; rho target words go with a source word
    a_tj ~ exp( -(j - c_t - mean)^2 / (2 sigma^2) )              where |j - round(c_t)| <= k(p); elsewhere 0

with sum_j a_tj = 1, or with ``--attention-max-normalize`` max_j a_tj = 1. The window k is floor(log_2 p) and the like
(``--gaussian-rule``); halves are rounded up. In the paper both sentences have equally many words: rho = 1.

Nothing depends on the decoder's state: all rows a_t, until the centre reaches the last position (later steps have the
last row), are computed once per sentence, and where no gradient is wanted all contexts, too. A step then looks up a
row. ``--attention-score`` is without effect.

An election (``attn-analysis election``) recommends rule, sigma and mean and measures rho;
``--gaussian-election FILE`` takes them from there. With ``--gaussian-trained`` sigma, mean and rho are trained; the
window's edge has no gradient. Rule and values are part of the checkpoint, which needs no FILE afterwards and whose
values win over the options of whoever loads it.
"""

from __future__ import annotations

import functools
import logging
import math
from dataclasses import dataclass, field
from typing import Any, Callable, ClassVar, Dict, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import OptionError
from ..ops.deferred import matmul, share
from . import register_attention
from ._files import number, read_json
from ._windows import HALF, RULES, window, windows
from .base import Attention, AttentionConfig, AttentionOutput
from .biases import word_positions
from .normalizers import LOG_ZERO, build_normalizer, divide_by_maximum

__all__ = ["ELECTION_FORMAT", "GaussianAttention", "GaussianConfig", "GaussianMemory"]

logger = logging.getLogger(__name__)

ELECTION_FORMAT = "fairseq_attn_plugin election 1"
ELECTION_COMMAND = "attn-analysis election"
# A row is computed for each of so many times as many steps as there are source words.
MOST_WORDS = 1000
# Narrower than this all is at one position; its square is a normal number.
_NARROWEST = 1e-6
# Rows of longer sentences, of which there are few alike, are not kept.
_LONGEST_KEPT = 128
_softmax = build_normalizer("softmax")


@dataclass
class GaussianConfig(AttentionConfig):
    prefix: ClassVar[str] = "gaussian"

    election: Optional[str] = field(
        default=None,
        metadata={"help": "JSON of an election, from which rule, sigma, mean and ratio are taken (default: none)"},
    )
    rule: Optional[str] = field(
        default=None,
        metadata={
            "help": "positions on either side of the centre, by the number p of source words: log4, log3, log2 (floors "
            "of logarithms), half (floor(p / 2)), or a number (default: log2)"
        },
    )
    sigma: Optional[float] = field(
        default=None, metadata={"help": "standard deviation, in source positions (default: 1)"}
    )
    ratio: Optional[float] = field(
        default=None, metadata={"help": "target words per source word: the centre of step t is t / ratio (default: 1)"}
    )
    mean: Optional[float] = field(
        default=None, metadata={"help": "offset of the Gaussian from the centre, in source positions (default: 0)"}
    )
    trained: bool = field(default=False, metadata={"help": "train sigma, mean and ratio"})


class GaussianMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    # [B, R, X], what the steps 0, ..., R - 1 look up, side by side: weights (N columns), scores (N), then with tokens
    # the weights with a vote (N), without them contexts (Dh) where no gradient is wanted
    rows: Tensor
    tokens: Optional[Tensor] = None  # [B, 1, 1, N], source words, where further votes look for them


@register_attention("gaussian")
class GaussianAttention(Attention):
    """Weights from positions alone; see the module's text.

    Scores are the logarithms of the Gaussian before it is normalised, ``LOG_ZERO`` outside the window.
    """

    Config = GaussianConfig
    own_normalizer = True
    takes_max_normalize = True
    config: GaussianConfig

    rule: Tensor  # the number of positions, or -1 - i for RULES[i]
    log_sigma: Tensor
    log_ratio: Tensor
    mean: Tensor

    def __init__(self, query_dim: int, memory_dim: int, config: GaussianConfig):
        super().__init__(query_dim, memory_dim, config)
        self._unread = config.election is not None
        if config.sigma is not None and not 0 < config.sigma < math.inf:
            raise OptionError(f"--gaussian-sigma {config.sigma}: must be above 0")
        if config.ratio is not None and not 0 < config.ratio <= MOST_WORDS:
            raise OptionError(
                f"--gaussian-ratio {config.ratio}: must be above 0 and at most {MOST_WORDS} target words a source word"
            )
        if config.mean is not None and not math.isfinite(config.mean):
            raise OptionError(f"--gaussian-mean {config.mean}: must be a number of source positions")
        rule = "log2" if config.rule is None else str(config.rule)
        window(rule, 1)
        register = self._register_parameter if config.trained else self.register_buffer
        self.register_buffer("rule", torch.tensor(_code(rule)))
        for name in ("log_sigma", "mean", "log_ratio"):
            register(name, torch.zeros(()))
        self._set(rule, _or(config.sigma, 1.0), _or(config.mean, 0.0), _or(config.ratio, 1.0))

    def _register_parameter(self, name: str, value: Tensor) -> None:
        self.register_parameter(name, nn.Parameter(value))

    @torch.no_grad()
    def _set(self, rule: str, sigma: float, mean: float, ratio: float) -> None:
        self.rule.fill_(_code(rule))
        self.log_sigma.fill_(math.log(sigma))
        self.mean.fill_(mean)
        self.log_ratio.fill_(math.log(ratio))

    def read_files(self, source_dictionary: Any, target_dictionary: Any) -> None:
        """Takes rule, sigma, mean and ratio from ``--gaussian-election``.

        Raises:
            OptionError: no such file, another format or vocabulary, values out of range, or an option given beside it
                that says otherwise
        """
        path = self.config.election
        self._unread = False
        if path is None:
            return
        option = "--gaussian-election"
        dictionaries = source_dictionary, target_dictionary
        content = read_json(option, path, ELECTION_FORMAT, ELECTION_COMMAND, *dictionaries)
        recommended = content.get("recommended")
        rule = str(recommended.get("rule")) if isinstance(recommended, dict) else "None"
        window(rule, 1, f"{option} {path}: the rule")
        sigma = number(option, path, content, "recommended", "sigma")
        mean = number(option, path, content, "recommended", "mean")
        ratio = number(option, path, content, "length_ratio")
        _check_mean_window(option, path, content, rule)
        if sigma <= 0:
            raise OptionError(f"{option} {path}: its sigma is {sigma}, must be above 0")
        if not 0 < ratio <= MOST_WORDS:
            raise OptionError(f"{option} {path}: its length_ratio is {ratio}, must be above 0 and at most {MOST_WORDS}")
        values: Dict[str, Any] = {"rule": rule, "sigma": sigma, "mean": mean, "ratio": ratio}
        for name, value in values.items():
            given = getattr(self.config, name)
            if given is not None and (str(given) != value if name == "rule" else not math.isclose(given, value)):
                raise OptionError(
                    f"--gaussian-{name} {given}: {option} {path} says {value}; give one of the two options"
                )
        self._set(rule, sigma, mean, ratio)

    def precompute(
        self, encodings: Tensor, pad_mask: Optional[Tensor] = None, source_tokens: Optional[Tensor] = None
    ) -> GaussianMemory:
        if self._unread:
            raise ValueError(
                f"{self.name} attention has files to read: call read_files(source_dictionary, target_dictionary) first"
            )
        weights, scores, nearest, words = self._rows(encodings, pad_mask)
        kind = encodings.dtype
        columns = [weights.to(kind), scores.to(kind)]
        tokens, voted = self._votes(weights, words, nearest, pad_mask, source_tokens)
        if voted is not None:
            columns.append(voted.to(kind))
        elif not (torch.is_grad_enabled() and (encodings.requires_grad or weights.requires_grad)):
            columns.append((columns[0] @ encodings).to(kind))
        return GaussianMemory(share(encodings), torch.cat(columns, dim=-1), tokens)

    def _rows(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        """Weights and scores ``[B, R, N]``, round(c_t) ``[B, R]``, each word's number ``[B, N]``; in float32 or better.

        Sentences of one length, such as one alone, have the same rows, which are computed once for all batches.
        """
        rule, divided = int(self.rule), self.config.max_normalize
        if self.config.trained and torch.is_grad_enabled():
            words, length = word_positions(encodings, pad_mask)
            values = (self.log_ratio, self.log_sigma, self.mean)
            log_ratio, log_sigma, offset = (value.to(words.dtype) for value in values)
            width = log_sigma.exp().clamp(min=_NARROWEST)
            return (*_rows(words, length, pad_mask, rule, log_ratio.exp(), width, offset, divided), words)
        ratio, sigma = math.exp(float(self.log_ratio)), max(math.exp(float(self.log_sigma)), _NARROWEST)
        mean = float(self.mean)
        batch, size, _ = encodings.shape
        if pad_mask is None and size <= _LONGEST_KEPT:
            dtype = torch.promote_types(encodings.dtype, torch.float32)
            kept = _rows_of_length(size, rule, ratio, sigma, mean, divided, dtype, encodings.device)
            return tuple(part.expand(batch, *part.shape[1:]) for part in kept)  # type: ignore[return-value]
        words, length = word_positions(encodings, pad_mask)
        return (*_rows(words, length, pad_mask, rule, ratio, sigma, mean, divided), words)

    def _votes(
        self,
        weights: Tensor,
        words: Tensor,
        nearest: Tensor,
        pad_mask: Optional[Tensor],
        source_tokens: Optional[Tensor],
    ) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """For a derived mechanism with further votes: the source words ``[B, 1, 1, N]``, and the weights that positions
        with a vote have ``[B, R, N]``."""
        return None, None

    def step(
        self,
        query: Tensor,
        memory: GaussianMemory,
        state: Any = None,
        positions: Optional[Tensor] = None,
        inputs: Optional[Tensor] = None,
    ) -> AttentionOutput:
        if positions is None:
            raise ValueError(f"{self.name} attention needs the argument positions: the decoder step of each query")
        weights, scores, *further = _look_up(memory, positions)
        if memory.tokens is not None:
            weights = self._add_votes(weights, further[0], memory.tokens, inputs)
        elif further:
            return AttentionOutput(further[0], weights, scores, state)
        return AttentionOutput(matmul(weights, memory.encodings), weights, scores, state)

    def _add_votes(self, weights: Tensor, voted: Tensor, tokens: Tensor, inputs: Optional[Tensor]) -> Tensor:
        """Weights ``[B, T, N]`` with the further votes of a derived mechanism."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Any:
        """As torch's, but that buffers never become half precision: with a ratio rounded to a thousandth the centre
        would be a twentieth of a position off after fifty words. (Parameters do: fairseq's optimizers want one type.)
        """
        before = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        super()._apply(fn, *args, **kwargs)
        for name, buffer in before.items():
            moved = self._buffers[name]
            if moved is not None and moved.dtype in (torch.float16, torch.bfloat16):
                self._buffers[name] = buffer.to(moved.device)
        return self

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        self._warn_of_other_values(state_dict, prefix)
        self._unread = False
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _warn_of_other_values(self, state_dict: Dict[str, Any], prefix: str) -> None:
        path = self.config.election
        if path is None or self._unread or self.config.trained:
            return
        stored = [state_dict.get(prefix + name) for name in ("rule", "log_sigma", "mean", "log_ratio")]
        own = [self.rule, self.log_sigma, self.mean, self.log_ratio]
        if any(s is not None and not torch.allclose(s.to(o), o) for s, o in zip(stored, own)):
            logger.warning(f"--gaussian-election {path}: the checkpoint has other values, and these are used")


def _rows(
    words: Tensor,
    length: Tensor,
    pad_mask: Optional[Tensor],
    rule: int,
    ratio: Any,
    sigma: Any,
    mean: Any,
    divided: bool,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Weights and scores ``[B, R, N]`` and round(c_t) ``[B, R]`` of all steps until the centre has arrived.

    Args:
        words, length: from :func:`word_positions`
        pad_mask: ``[B, N]``
        rule: code of the window's rule
        ratio, sigma, mean: rho, sigma and mean, numbers or scalar tensors
        divided: by the maximum instead of by the sum
    """
    width, last = words.size(1), (length - 1).clamp(min=0)
    reached = float(ratio.detach() if isinstance(ratio, Tensor) else ratio) * max(width - 1, 0)
    # 1e-6: rounding must not take away the row in which the centre has arrived
    steps = torch.arange(math.ceil(reached * (1 + 1e-6)) + 1, dtype=words.dtype, device=words.device)
    centre = torch.minimum(steps / ratio, last)
    nearest = torch.floor(centre.detach() + HALF)
    reach = torch.tensor(windows(_rule(rule), width), dtype=words.dtype, device=words.device)[last.long()]
    position = words.unsqueeze(1)
    outside = (position - nearest.unsqueeze(-1)).abs() > reach.unsqueeze(-1)
    if pad_mask is not None:
        outside = outside | pad_mask.unsqueeze(1)
    scores = (position - (centre + mean).unsqueeze(-1)).square() * (-0.5 / sigma / sigma)
    weights = _softmax(scores, outside)
    if divided:
        weights = divide_by_maximum(weights)
    # half precision has room for this and not for any number
    return weights, scores.masked_fill(outside, LOG_ZERO).clamp(min=LOG_ZERO), nearest


@functools.lru_cache(maxsize=128)
def _rows_of_length(
    size: int,
    rule: int,
    ratio: float,
    sigma: float,
    mean: float,
    divided: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """As :func:`_rows` for one sentence without padding, and its words' numbers ``[1, N]``. Nobody writes to them."""
    words = torch.arange(size, dtype=dtype, device=device).unsqueeze(0)
    return (*_rows(words, words.new_full((1, 1), size), None, rule, ratio, sigma, mean, divided), words)


def _look_up(memory: GaussianMemory, positions: Tensor) -> Tuple[Tensor, ...]:
    """The columns of the steps ``positions`` ``[B, T]``: weights, scores, and what there is further."""
    batch, count, columns = memory.rows.shape
    index = positions.clamp(max=count - 1)
    if batch > 1:
        index = index + torch.arange(0, batch * count, count, device=index.device).unsqueeze(1)
    size = memory.encodings.size(1)
    widths = [size, size, columns - 2 * size] if columns > 2 * size else [size, size]
    return F.embedding(index, memory.rows.view(-1, columns)).split(widths, dim=-1)


def _or(value: Optional[float], default: float) -> float:
    return default if value is None else value


def _code(rule: str) -> int:
    return -1 - RULES.index(rule) if rule in RULES else int(rule)


def _rule(code: int) -> str:
    return RULES[-1 - code] if code < 0 else str(code)


def _check_mean_window(option: str, path: str, content: Dict[str, Any], rule: str) -> None:
    """A rule that gave no sentence of the election a neighbour of its centre is none to train a model with."""
    measured = content.get("rules")
    for entry in measured if isinstance(measured, list) else ():
        if isinstance(entry, dict) and entry.get("rule") == rule and "mean_k" in entry:
            k = number(option, path, entry, "mean_k")
            if k <= 0:
                raise OptionError(
                    f"{option} {path}: k of its rule {rule} is {k:g} for all sentences, must be at least 1 for some; "
                    "hold the election on longer sentences, or leave it out and give --gaussian-rule"
                )
