"""Attention without a network: a Gaussian over source positions, after Bal and Sinha, "Modelling Bahdanau Attention
using Election methods aided by Q-Learning".

For step t (from 0) of a sentence with n source positions, p = n - 1 of them words and the last one its end,

    c_t  = min( t / rho, n - 1 )                                 the centre; rho target words go with a source word
    a_tj ~ exp( -(j - c_t - mean)^2 / (2 sigma^2) )              where |j - round(c_t)| <= k(p); elsewhere 0

with sum_j a_tj = 1, or max_j a_tj = 1 with ``--attention-max-normalize``. After the centre has reached the last
position all steps have the same weights. The window k is floor(log_2 p) or another rule (``--gaussian-rule``,
:class:`.windows.Rule`). The paper takes equally many words on both sides, rho = 1. ``--attention-score`` has no effect.

An election (``fairseq-attn election``) recommends rule, sigma and mean and measures rho;
``--gaussian-election FILE`` takes them from there. With ``--gaussian-trained`` sigma, mean and rho are trained; the
edge of the window has no gradient. Rule and values are part of the checkpoint, which then needs no FILE; they override
the options of whoever loads it.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Dict, Mapping, NamedTuple, Optional

import torch
from torch import Tensor, nn

from ...errors import OptionError
from ...ops.deferred import matmul, share
from ...ops.devices import constant
from ...options import option, or_default
from ..base import Attention, AttentionConfig, AttentionOutput, word_positions
from ..normalizers import LOG_ZERO, build_normalizer, divide_by_maximum
from ..part_registry import need_own
from ..registry import register_attention
from .election_files import MOST_WORDS, read_recommendation
from .windows import HALF, RULES, Rule

__all__ = ["GaussianAttention", "GaussianConfig", "GaussianMemory"]

logger = logging.getLogger(__name__)

# A Gaussian narrower than this has one position only; its square is a normal number.
_NARROWEST = 1e-6
_MOST_DIGITS = 20  # of a sentence's length, to the base 2
_softmax = build_normalizer("softmax")


@dataclass
class GaussianConfig(AttentionConfig):
    prefix: ClassVar[str] = "gaussian"

    election: Optional[str] = option(
        None, "JSON of an election, from which rule, sigma, mean and ratio are taken (default: none)", file=True
    )
    rule: Optional[str] = option(
        None,
        "positions on either side of the centre, by the number p of source words: log4, log3, log2 (floors "
        "of logarithms), half (floor(p / 2)), or a number (default: log2)",
    )
    sigma: Optional[float] = option(None, "standard deviation, in source positions (default: 1)")
    ratio: Optional[float] = option(
        None, "target words per source word: the centre of step t is t / ratio (default: 1)"
    )
    mean: Optional[float] = option(None, "offset of the Gaussian from the centre, in source positions (default: 0)")
    trained: bool = option(False, "train sigma, mean and ratio")


class GaussianMemory(NamedTuple):
    """All numbers are in float32 or better."""

    encodings: Tensor  # [B, N, Dh]
    tokens: Optional[Tensor]  # [B, 1, 1, N], source words, where further votes look for them
    words: Tensor  # [B, 1, N], the number of each word in its sentence
    last: Tensor  # [B, 1], the number of the last word
    reach: Tensor  # [B, 1, 1], k: positions on either side of the centre
    ratio: Tensor  # [B, 1], rho
    mean: Tensor  # [B, 1]
    slope: Tensor  # [B, 1, 1], -1 / (2 sigma^2)
    padding: Optional[Tensor] = None  # [B, 1, N], True on padding


@register_attention("gaussian")
class GaussianAttention(Attention):
    """Weights from positions alone; see the module's text.

    Scores are the logarithms of the Gaussian before it is normalised, ``LOG_ZERO`` outside the window.
    """

    Config = GaussianConfig
    takes = frozenset({"max_normalize"})
    sparse = True  # outside the window
    config: GaussianConfig

    rule: Tensor  # Rule.code
    log_sigma: Tensor
    log_ratio: Tensor
    mean: Tensor

    def __init__(self, query_dim: int, memory_dim: int, config: GaussianConfig):
        super().__init__(query_dim, memory_dim, config)
        self._unread = config.election is not None
        sigma, mean, ratio = or_default(config.sigma, 1.0), or_default(config.mean, 0.0), or_default(config.ratio, 1.0)
        need_own(0 < sigma < math.inf, config, "sigma", "above 0")
        most = f"above 0 and at most {MOST_WORDS} target words a source word"
        need_own(0 < ratio <= MOST_WORDS, config, "ratio", most)
        need_own(math.isfinite(mean), config, "mean", "a number of source positions")
        rule = Rule.parse(str(or_default(config.rule, "log2")))
        self.register_buffer("rule", torch.tensor(rule.code))
        for name in ("log_sigma", "mean", "log_ratio"):
            if config.trained:
                self.register_parameter(name, nn.Parameter(torch.zeros(())))
            else:
                self.register_buffer(name, torch.zeros(()))
        self._set(rule, sigma, mean, ratio)

    @torch.no_grad()
    def _set(self, rule: Rule, sigma: float, mean: float, ratio: float) -> None:
        self._rule = rule  # on the host
        self.rule.fill_(rule.code)
        self.log_sigma.fill_(math.log(sigma))
        self.mean.fill_(mean)
        self.log_ratio.fill_(math.log(ratio))

    @classmethod
    def reversed_options(cls, options: Mapping[str, Any]) -> Dict[str, Any]:
        """Ratio and mean of the inverse of the line t / ratio + mean."""
        ratio, mean = options["ratio"], options["mean"]
        changed = {}
        if ratio is not None and ratio > 0:
            changed["ratio"] = 1 / ratio
        if mean is not None:
            changed["mean"] = -mean * or_default(ratio, 1.0)
        return changed

    def read_files(self, source_dictionary: Any, target_dictionary: Any) -> None:
        """Takes rule, sigma, mean and ratio from ``--gaussian-election``.

        Raises:
            OptionError: no such file, another format or vocabulary, values out of range, or another option that
                contradicts the file
        """
        path = self.config.election
        self._unread = False
        if path is None:
            return
        values = read_recommendation(path, source_dictionary, target_dictionary)
        for name, value in values._replace(rule=values.rule.name)._asdict().items():  # type: ignore[arg-type]
            given = getattr(self.config, name)
            if given is not None and (str(given) != value if name == "rule" else not math.isclose(given, value)):
                raise OptionError(
                    f"--gaussian-{name} {given}: --gaussian-election {path} says {value}; give one of the two options"
                )
        self._set(*values)

    def precompute(
        self, encodings: Tensor, pad_mask: Optional[Tensor] = None, source_tokens: Optional[Tensor] = None
    ) -> GaussianMemory:
        if self._unread:
            raise ValueError(
                f"{self.name} attention has files to read: call read_files(source_dictionary, target_dictionary) first"
            )
        words, length = word_positions(encodings, pad_mask)
        last = (length - 1).clamp(min=0)
        ratio, sigma = (x.to(last.dtype).exp().expand_as(last) for x in (self.log_ratio, self.log_sigma))
        slope = -0.5 / sigma.clamp(min=_NARROWEST).square()
        return GaussianMemory(
            share(encodings),
            self._words_of_votes(source_tokens),
            words.unsqueeze(1),
            last,
            _reach(self._rule, last).unsqueeze(-1),
            ratio,
            self.mean.to(last.dtype).expand_as(last),
            slope.unsqueeze(-1),
            None if pad_mask is None else pad_mask.unsqueeze(1),
        )

    def _words_of_votes(self, source_tokens: Optional[Tensor]) -> Optional[Tensor]:
        """The source words ``[B, 1, 1, N]`` of a derived mechanism with further votes, None without votes."""
        return None

    def _voted(
        self, weights: Tensor, memory: GaussianMemory, nearest: Tensor, tokens: Tensor, inputs: Optional[Tensor]
    ) -> Tensor:
        """The weights ``[B, T, N]`` with further votes; ``nearest`` ``[B, T, 1]`` is round(c_t)."""
        raise NotImplementedError

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
        dtype = memory.encodings.dtype
        centre = torch.minimum(positions.to(memory.last.dtype) / memory.ratio, memory.last)
        nearest = torch.floor(centre.detach() + HALF).unsqueeze(-1)
        outside = (memory.words - nearest).abs() > memory.reach
        if memory.padding is not None:
            outside = outside | memory.padding
        distance = memory.words - (centre + memory.mean).unsqueeze(-1)
        scores = distance.square() * memory.slope
        weights = _softmax(scores, outside)
        if self.config.max_normalize:
            weights = divide_by_maximum(weights)
        if memory.tokens is not None:
            weights = self._voted(weights, memory, nearest, memory.tokens, inputs)
        weights = weights.to(dtype)
        # Clamped: half precision cannot hold every number.
        scores = scores.masked_fill(outside, LOG_ZERO).clamp(min=LOG_ZERO).to(dtype)
        return AttentionOutput(matmul(weights, memory.encodings), weights, scores, state)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Any:
        """As torch's, except that buffers never become half precision: with a ratio rounded to a thousandth the centre
        would be wrong by a twentieth of a position after fifty words. (Parameters do become half precision: fairseq's
        optimizers need one type.)
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
        self._rule = Rule.from_code(int(self.rule))

    def _warn_of_other_values(self, state_dict: Dict[str, Any], prefix: str) -> None:
        path = self.config.election
        if path is None or self._unread or self.config.trained:
            return
        stored = [state_dict.get(prefix + name) for name in ("rule", "log_sigma", "mean", "log_ratio")]
        own = [self.rule, self.log_sigma, self.mean, self.log_ratio]
        if any(s is not None and not torch.allclose(s.to(o), o) for s, o in zip(stored, own)):
            logger.warning(f"--gaussian-election {path}: the checkpoint has other values, and these are used")


def _reach(rule: Rule, words: Tensor) -> Tensor:
    """k of sentences of so many words, as :meth:`Rule.window`, in the shape of ``words``."""
    if rule.name == "half":
        return torch.floor(words / 2)
    if rule.name not in RULES:
        return (words > 0) * float(rule.name)
    return (words.unsqueeze(-1) >= _powers(int(rule.name[3:]), words.dtype, words.device)).to(words.dtype).sum(-1)


@constant
def _powers(base: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    powers = [float(base**k) for k in range(1, int(_MOST_DIGITS / math.log2(base)) + 1)]
    return torch.tensor(powers, dtype=dtype, device=device)
