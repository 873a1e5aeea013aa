"""A translation lexicon that biases the decoder.

(Arthur et al. 2016, "Incorporating Discrete Translation Lexicons into Neural Machine Translation", sections 3.1 and
3.2.1.)

With a_tj the attention of step t and f_j the source words

    P_lex(e | t) = sum_j a_tj P_lex(e | f_j),   p(y_t = e) = softmax_e(W_v o_t + b_v + log(P_lex(e | t) + epsilon))

The network then learns only where to look for a word that the lexicon knows. Weights that do not sum to one are divided
by their sum, so that P_lex is a distribution (its sum is below one where the lexicon's is).
"""

import logging
from typing import Any, Dict, Optional

import torch
from torch import Tensor, nn

from fairseq_attn_plugin.text.lexicon import read_lexicon

from ..errors import OptionError

logger = logging.getLogger(__name__)

OPTION = "--lexicon"


class LexiconBias(nn.Module):
    """Adds log(P_lex + epsilon) to the logits of a decoder.

    Without a lexicon it is inactive and adds nothing to checkpoints. The lexicon has a row for each of the S symbols of
    the source vocabulary. K is the largest number of translations of a word.

    Attributes:
        entries: ``[S, K]``, indices of target words; arbitrary where the probability is zero
        probabilities: ``[S, K]``, P_lex(e | f), zero where a word has fewer than K entries
        epsilon: added to P_lex; a smaller one makes the lexicon stronger
    """

    entries: Tensor
    probabilities: Tensor

    def __init__(self, epsilon: float = 1e-3):
        super().__init__()
        self.epsilon = epsilon
        self.register_buffer("entries", torch.zeros(0, 0, dtype=torch.long))
        self.register_buffer("probabilities", torch.zeros(0, 0))

    @property
    def active(self) -> bool:
        """Whether there is a lexicon."""
        return len(self.entries) > 0

    def read(self, path: str, source_dictionary: Any, target_dictionary: Any) -> None:
        """Reads lines of source, target and probability, as ``fairseq-attn lexicon`` writes them, and keeps the entries
        whose words are in both vocabularies.

        Raises:
            OptionError: the file cannot be read, a line is malformed, or no entry has both words in the vocabularies
        """
        lexicon = read_lexicon(path, OPTION, probabilities=True)
        sources, targets = source_dictionary.indices, target_dictionary.indices
        rows = {}
        for source, listed in lexicon.items():
            known = [entry for entry in listed if entry.target in targets and entry.probability > 0]
            if source in sources and known:
                rows[sources[source]] = known
        if not rows:
            raise OptionError(
                f"{OPTION} {path}: none of its {len(lexicon)} source words has a translation within the vocabularies "
                "of the data; make it from the same words or subwords (fairseq-attn lexicon --level)"
            )
        width = max(map(len, rows.values()))
        entries = torch.zeros(len(source_dictionary), width, dtype=torch.long)
        probabilities = torch.zeros(len(source_dictionary), width)
        for row, known in rows.items():
            entries[row, : len(known)] = torch.tensor([targets[entry.target] for entry in known])
            probabilities[row, : len(known)] = torch.tensor([entry.probability for entry in known])
        self.entries = entries.to(self.entries.device)
        self.probabilities = probabilities.to(self.probabilities)
        logger.info(
            f"{OPTION} {path}: {sum(map(len, rows.values())):,} translations of {len(rows):,} of "
            f"{len(source_dictionary):,} source symbols"
        )

    def forward(
        self, logits: Tensor, weights: Tensor, tokens: Tensor, normalized: bool = True, words: Optional[Tensor] = None
    ) -> Tensor:
        """The logits with the bias.

        Args:
            logits: ``[R, T, V]`` of R = B * beam rows, the rows of a sentence are neighbours
            weights: attention ``[R, T, N]``, zero on padding
            tokens: the source words ``[B, N]``
            normalized: whether the weights sum to one
            words: ``[V]``, ascending, where the logits are those of a shortlist
        """
        sentences = tokens.size(0)
        # Sums and logarithms of probabilities need more than half precision.
        full = torch.promote_types(weights.dtype, torch.float32)
        attention = weights.to(full).reshape(sentences, -1, weights.size(-1))
        if not normalized:
            attention = attention / attention.sum(-1, keepdim=True).clamp(min=1e-6)
        entries, probabilities = self.entries[tokens].flatten(1), self.probabilities[tokens].to(full)
        share = (attention.unsqueeze(-1) * probabilities.unsqueeze(1)).flatten(2)
        if words is not None:
            places = torch.searchsorted(words, entries).clamp(max=len(words) - 1)
            share, entries = share * words[places].eq(entries).unsqueeze(1), places
        mixture = share.new_zeros(*attention.shape[:2], logits.size(-1))
        mixture = mixture.scatter_add(2, entries.unsqueeze(1).expand_as(share), share)
        return logits + (mixture + self.epsilon).log().to(logits.dtype).view_as(logits)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if self.active:
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Takes the lexicon of a checkpoint, of any size. A checkpoint without one keeps a lexicon that was read."""
        own = {prefix + name: getattr(self, name) for name in ("entries", "probabilities")}
        if not any(name in state_dict for name in own):
            return
        for name in set(own).intersection(state_dict):
            setattr(self, name[len(prefix) :], own[name].new_zeros(state_dict[name].shape))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
