"""Gaussian attention with further votes for words that a Q-learned agent names.

Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning", algorithm 1:

    a_ti = gaussian_ti + d   where  i != round(c_t)  and  x_i in words(y_{t-1})

y_{t-1} is the decoder's input at step t, x_i the source word at i, ``words`` a table from target words to the source
words that the agent hops to (``fairseq-attn election --agent``, ``--election-table``), and d
``--election-share``. These words get d also outside the Gaussian's window. The sum is not normalised, so that
the weights sum to more than one. The start of the sentence has no words. Without a table this is ``gaussian``.

The algorithm's ``continue`` at i = j leaves out i <- i + 1, so that a word behind the centre would give its d to the
position before its own. That is taken for a slip.

The table is part of the checkpoint, and overrides the table of whoever loads it.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Optional

import torch
from torch import Tensor

from ...errors import OptionError
from ...options import option
from ..part_registry import need_own
from ..registry import register_attention
from .election_files import read_json
from .gaussian import GaussianAttention, GaussianConfig
from .gaussian_weights import Places

TABLE_FORMAT = "fairseq_attn_plugin words 1"
TABLE_COMMAND = "fairseq-attn election --agent"


@dataclass
class ElectionConfig(GaussianConfig):
    prefix: ClassVar[str] = "election"

    table: Optional[str] = option(
        None, "JSON of the source words that get further votes, by target word (default: none)", file=True
    )
    share: float = option(0.25, "d, what such a vote adds to a weight (default: 0.25, as in the paper)")


@register_attention("election")
class ElectionAttention(GaussianAttention):
    Config = ElectionConfig
    takes = GaussianAttention.takes | {"words"}
    to_normalize = "choose --attention gaussian"
    config: ElectionConfig  # type: ignore[assignment]

    table: Tensor  # [V, H], indices of source words by the index of the target word, filled up with padding's

    def __init__(self, query_dim: int, memory_dim: int, config: ElectionConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(0 <= config.share < math.inf, config, "share", "0 or more")
        if config.share > 0:
            self.normalized = False
        self._unread |= config.table is not None
        self.register_buffer("table", torch.zeros(0, 0, dtype=torch.long))

    def read_files(self, source_dictionary: Any, target_dictionary: Any) -> None:
        """As :meth:`GaussianAttention.read_files`, and takes the table from ``--election-table``.

        Raises:
            OptionError: no such file, another format or vocabulary, a word that the vocabulary lacks, or no words
        """
        super().read_files(source_dictionary, target_dictionary)
        path = self.config.table
        if path is None:
            return
        option = "--election-table"
        content = read_json(option, path, TABLE_FORMAT, TABLE_COMMAND, source_dictionary, target_dictionary)
        rows = _rows(option, path, content.get("words"), source_dictionary, target_dictionary)
        table = torch.full((len(target_dictionary), max(map(len, rows.values()))), source_dictionary.pad())
        for target, sources in rows.items():
            table[target, : len(sources)] = torch.tensor(sources)
        self.table = table.to(self.table.device)

    def _words_of_votes(self, source_tokens: Optional[Tensor]) -> Optional[Tensor]:
        if self.table.numel() == 0 or self.config.share == 0:
            return None
        if source_tokens is None:
            raise ValueError("election attention with a table needs the argument source_tokens")
        return source_tokens[:, None, None, :]

    def _voted(self, weights: Tensor, nearest: Tensor, places: Places) -> Tensor:
        receives = places.words != nearest
        if places.padding is not None:
            receives = receives & ~places.padding
        return weights + self.config.share * receives

    def _add_votes(self, weights: Tensor, voted: Tensor, tokens: Tensor, inputs: Optional[Tensor]) -> Tensor:
        if inputs is None:
            raise ValueError("election attention with a table needs the argument inputs: the decoder's input words")
        named = (self.table[inputs].unsqueeze(-1) == tokens).any(2)  # [B, T, H, N] to [B, T, N]
        return torch.where(named, voted, weights)

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        stored = state_dict.get(prefix + "table")
        if isinstance(stored, Tensor):
            self.table = self.table.new_zeros(stored.shape)  # as wide as the checkpoint's
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _rows(option: str, path: str, words: Any, source: Any, target: Any) -> Dict[int, List[int]]:
    """Indices of source words by the index of the target word."""
    try:
        rows = {target.indices[word]: [source.indices[other] for other in others] for word, others in words.items()}
    except (AttributeError, KeyError, TypeError):
        raise OptionError(
            f"{option} {path}: must have lists of words of the source vocabulary by words of the target's, as "
            f"{TABLE_COMMAND} writes them"
        ) from None
    if not any(rows.values()):
        raise OptionError(
            f"{option} {path}: no target word has a source word; make it again with a lower threshold, or leave it out"
        )
    return rows
