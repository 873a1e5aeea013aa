"""The decoder of models with first-order alignments: the position of a word depends on that of the word before.

p(z_t = j | z_{t-1} = i) is the softmax of log a_tj + v(j - i): the attention's weights, which depend on the words,
times a trained factor for each width of a jump (Wu and Cotterell 2019;
:mod:`fairseq_attn_plugin.ops.likelihoods.first_order`). The recurrence is fed the mean context of the attention alone,
so that the states depend on no alignment, and

    p(y_t | y_<t) = sum_j b_t(j) p(y_t | z_t = j),     b_t(j) = p(z_t = j | y_<t)

is exact. In a search each hypothesis carries b and the state of its last step. When the next word is chosen, they give
the filter a_t(j), proportional to b_t(j) p(y_t | z_t = j), from which the next b is predicted.
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...ops.likelihoods.first_order import filtered, forward_algorithm, jump_chain, posteriors, predicted
from ...ops.likelihoods.mixture_nll import log_likelihoods
from ...ops.likelihoods.vocabulary_loss import Targets
from ..decoder_state import Progress
from ..encoders.encoder import EncoderOut
from ..recurrent_decoder import PROGRESS
from .latent_alignments import LatentAlignments
from .latent_decoder import LatentDecoder


class _LastStep(NamedTuple):
    """What a hypothesis carries until its next word is known."""

    query: Tensor  # [R, D], of LatentAlignments
    prediction: Tensor  # [R, N], log b


class FirstOrderDecoder(LatentDecoder):
    """A :class:`LatentDecoder` whose alignments depend on each other; the weights that it returns are b.

    Attributes:
        jumps: ``[2 W + 1]``, v of the widths -W to W, the logarithms of trained factors
        monotonic: whether no word is aligned in front of the one before
    """

    predicts_stepwise = False  # b_t depends on all steps so far
    jumps: nn.Parameter
    monotonic = False

    def alignments(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut, incremental_state: Optional[Dict[str, Any]] = None
    ) -> LatentAlignments:
        latent = super().alignments(prev_output_tokens, encoder_out, incremental_state)
        mask = latent.pad_mask
        if mask is None:
            mask = torch.zeros(latent.memory.shape[:2], dtype=torch.bool, device=latent.memory.device)
        table = self.jumps.to(latent.log_prior.dtype)
        if self.training and torch.distributed.is_initialized():
            # data-parallel wrappers wait for the gradient of every parameter, in --soft-updates too
            latent = latent._replace(query=latent.query + 0.0 * table.sum().type_as(latent.query))
        return latent._replace(chain=jump_chain(table, mask, self.monotonic))

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: Optional[Dict[str, Any]] = None,
        targets: Optional[Targets] = None,
        **unused: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Returns log p(y_t | y_<t, x) ``[R, T, V]`` and ``{"attn": [b]}``."""
        before: Optional[Progress] = self.get_incremental_state(incremental_state, PROGRESS)
        last: Optional[_LastStep] = None if before is None else before.state.alignment
        latent = self.alignments(prev_output_tokens, encoder_out, incremental_state)
        rows = len(prev_output_tokens)
        content = latent.log_prior.view(rows, -1, latent.log_prior.size(-1))
        assert latent.chain is not None
        start = latent.chain.start
        chain = latent.chain._replace(start=start.repeat_interleave(rows // len(start), 0))
        pad = self.dictionary.pad()
        if last is None:
            ahead = F.pad(prev_output_tokens[:, 1:], (0, 1), value=pad)
            emissions = _emissions(latent, ahead, pad).view_as(content)
            prediction, _ = forward_algorithm(chain, content, emissions)
        else:
            earlier = latent._replace(query=last.query.view_as(latent.query))
            emission = _emissions(earlier, prev_output_tokens[:, -1:], pad).view(rows, -1)
            past, _ = filtered(last.prediction, emission)
            prediction = predicted(chain, content.squeeze(1), past).unsqueeze(1)
        if incremental_state is not None:
            progress: Progress = self.get_incremental_state(incremental_state, PROGRESS)  # type: ignore[assignment]
            query = latent.query.view(rows, -1, latent.query.size(-1))
            state = progress.state._replace(alignment=_LastStep(query[:, -1], prediction[:, -1]))
            self.set_incremental_state(incremental_state, PROGRESS, progress._replace(state=state))  # type: ignore[arg-type]
        log_probs = self.mixed(latent, prediction.view_as(latent.log_prior)).view(*prediction.shape[:2], -1)
        weights = prediction.exp().type_as(latent.prior) if self.training or self.need_attn else None
        return log_probs, {"attn": [weights]}

    def inferred(self, latent: LatentAlignments, target: Tensor) -> Tuple[Tensor, Tensor]:
        """log b, and p(z_t = j | x, y) given the whole target ``[B, T]``: ``[B, T, N]`` each, without gradients."""
        assert latent.chain is not None
        with torch.no_grad():
            emissions = _emissions(latent, target, self.dictionary.pad())
            prediction, _ = forward_algorithm(latent.chain, latent.log_prior, emissions)
        return prediction, posteriors(latent.chain, latent.log_prior, emissions)


def _emissions(latent: LatentAlignments, words: Tensor, pad: int) -> Tensor:
    """log p(y | j) of the words of R rows, as the tensors of ``latent`` are shaped, zero on padding."""
    return log_likelihoods(latent.words(words.reshape(latent.query.shape[:2]), pad)).log_likelihood
