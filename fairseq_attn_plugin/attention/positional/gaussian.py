"""Attention without a network: a Gaussian over source positions, after Bal and Sinha, "Modelling Bahdanau Attention
using Election methods aided by Q-Learning".

The weights depend on positions only; :mod:`.gaussian_weights` has the formula. The window
k is floor(log_2 p) or another rule (``--gaussian-rule``, :class:`.windows.Rule`). The
paper takes equally many words on both sides, rho = 1.

All rows a_t of a sentence of moderate length are computed once, and where no gradient is needed all contexts, too. A
step then looks up a row. In longer sentences each step computes its row. ``--attention-score`` has no effect.

An election (``fairseq-attn election``) recommends rule, sigma and mean and measures rho;
``--gaussian-election FILE`` takes them from there. With ``--gaussian-trained`` sigma, mean and rho are trained; the
edge of the window has no gradient. Rule and values are part of the checkpoint, which then needs no FILE; they override
the options of whoever loads it.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import OptionError
from ...ops.deferred import matmul, share
from ...ops.devices import on_gpu
from ...options import option, or_default
from ..base import Attention, AttentionConfig, AttentionOutput
from ..part_registry import need_own
from ..registry import register_attention
from .election_files import MOST_WORDS, read_recommendation
from .gaussian_weights import NARROWEST, Curve, Places, places_of, steps_of, weights_at
from .windows import MOST_POSITIONS, Rule


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
    encodings: Tensor  # [B, N, Dh]
    tokens: Optional[Tensor] = None  # [B, 1, 1, N], source words, where further votes look for them
    # [B, R, X], what the steps 0, ..., R - 1 look up, side by side: weights (N columns), scores (N), then with tokens
    # the weights with a vote (N), without them contexts (Dh) where no gradient is needed
    rows: Optional[Tensor] = None
    places: Optional[Places] = None  # where there are no rows


@register_attention("gaussian")
class GaussianAttention(Attention):
    """Weights from positions alone; see the module's text.

    Scores are the logarithms of the Gaussian before it is normalised, ``LOG_ZERO`` outside the window.
    """

    Config = GaussianConfig
    takes = frozenset({"max_normalize"})
    sparse = True  # outside the window
    config: GaussianConfig
    # The table of a sentence has N^2 numbers. Longer sentences compute the row of each step, in time linear in N.
    _longest_table = 256

    rule: Tensor  # Rule.code
    log_sigma: Tensor
    log_ratio: Tensor
    mean: Tensor

    def __init__(self, query_dim: int, memory_dim: int, config: GaussianConfig):
        super().__init__(query_dim, memory_dim, config)
        self._unread = config.election is not None
        sigma, mean, ratio = or_default(config.sigma, 1.0), or_default(config.mean, 0.0), or_default(config.ratio, 1.0)
        need_own(0 < sigma < math.inf, config, "sigma", "above 0")
        most = f"from {1 / MOST_WORDS} to {MOST_WORDS} target words a source word"
        need_own(1 / MOST_WORDS <= ratio <= MOST_WORDS, config, "ratio", most)
        need_own(abs(mean) <= MOST_POSITIONS, config, "mean", f"from -{MOST_POSITIONS} to {MOST_POSITIONS} positions")
        rule = Rule.parse(str(or_default(config.rule, "log2")))
        self.register_buffer("rule", torch.tensor(rule.code))
        self._known: Dict[str, Any] = {}  # by name: which tensor it was, and its number
        for name in ("log_sigma", "mean", "log_ratio"):
            if config.trained:
                self.register_parameter(name, nn.Parameter(torch.zeros(())))
            else:
                self.register_buffer(name, torch.zeros(()))
        self._set(rule, sigma, mean, ratio)

    @torch.no_grad()
    def _set(self, rule: Rule, sigma: float, mean: float, ratio: float) -> None:
        self.rule.fill_(rule.code)
        self.log_sigma.fill_(math.log(sigma))
        self.mean.fill_(mean)
        self.log_ratio.fill_(math.log(ratio))

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
        places = places_of(encodings, pad_mask, Rule.from_code(int(self._number("rule"))))
        tokens = self._words_of_votes(source_tokens)
        if encodings.size(1) > self._longest_table:
            return GaussianMemory(share(encodings), tokens, places=places)
        curve = self._curve(encodings.dtype)
        columns = self._columns(steps_of(places, curve.ratio), places, curve, tokens is not None, encodings.dtype)
        if tokens is None and not (torch.is_grad_enabled() and (encodings.requires_grad or columns[0].requires_grad)):
            columns.append(columns[0] @ encodings)
        return GaussianMemory(share(encodings), tokens, torch.cat(columns, dim=-1))

    def _curve(self, dtype: torch.dtype) -> Curve:
        divided = self.config.max_normalize
        if self.config.trained and (torch.is_grad_enabled() or on_gpu(self.log_sigma)):  # no wait in each step
            kind = torch.promote_types(dtype, torch.float32)
            log_ratio, log_sigma, mean = (x.to(kind) for x in (self.log_ratio, self.log_sigma, self.mean))
            return Curve(log_ratio.exp(), log_sigma.exp().clamp(min=NARROWEST), mean, divided)
        ratio, sigma, mean = map(self._number, ("log_ratio", "log_sigma", "mean"))
        return Curve(math.exp(ratio), max(math.exp(sigma), NARROWEST), mean, divided)

    def _columns(self, steps: Tensor, places: Places, curve: Curve, votes: bool, dtype: torch.dtype) -> List[Tensor]:
        """Weights, scores, and, if there are ``votes``, the weights that positions with a vote have, of some steps."""
        weights, scores, nearest = weights_at(steps, places, curve)
        further = [self._voted(weights, nearest, places)] if votes else []
        return [column.to(dtype) for column in (weights, scores, *further)]

    def _number(self, name: str) -> float:
        """A parameter or buffer on the host. A buffer is read after a change only: a GPU has to be waited for."""
        scalar = getattr(self, name)
        if isinstance(scalar, nn.Parameter):  # optimizers change parameters without leaving a trace
            return float(scalar)
        seen = (scalar._version, scalar.device, scalar.data_ptr())
        if self._known.get(name, (None,))[0] != seen:
            self._known[name] = (seen, float(scalar))
        return self._known[name][1]

    def _words_of_votes(self, source_tokens: Optional[Tensor]) -> Optional[Tensor]:
        """The source words ``[B, 1, 1, N]`` of a derived mechanism with further votes, None without votes."""
        return None

    def _voted(self, weights: Tensor, nearest: Tensor, places: Places) -> Tensor:
        """The weights ``[B, T, N]`` that positions with a further vote have."""
        raise NotImplementedError

    def _add_votes(self, weights: Tensor, voted: Tensor, tokens: Tensor, inputs: Optional[Tensor]) -> Tensor:
        """Weights ``[B, T, N]``, those of :meth:`_voted` where the ``inputs`` ``[B, T]`` name the source word."""
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
        if memory.rows is not None:
            weights, scores, *further = _look_up(memory.rows, memory.encodings.size(1), positions)
        else:
            assert memory.places is not None
            dtype, votes = memory.encodings.dtype, memory.tokens is not None
            weights, scores, *further = self._columns(positions, memory.places, self._curve(dtype), votes, dtype)
        if memory.tokens is not None:
            weights = self._add_votes(weights, further[0], memory.tokens, inputs)
        elif further:
            return AttentionOutput(further[0], weights, scores, state)
        return AttentionOutput(matmul(weights, memory.encodings), weights, scores, state)

    def for_export(self) -> GaussianAttention:
        """A copy whose steps compute their weights: the size of the table would be that of the recorded batch."""
        other = copy.copy(self)
        other._longest_table = -1
        return other

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
        self._unread = False
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _look_up(rows: Tensor, size: int, positions: Tensor) -> Tuple[Tensor, ...]:
    """The columns of the steps ``positions`` ``[B, T]``: weights and scores, ``size`` each, and what else there is."""
    batch, count, columns = rows.shape
    index = positions.clamp(max=count - 1)
    if batch > 1:
        index = index + torch.arange(0, batch * count, count, device=index.device).unsqueeze(1)
    widths = [size, size, columns - 2 * size] if columns > 2 * size else [size, size]
    return F.embedding(index, rows.view(-1, columns)).split(widths, dim=-1)
