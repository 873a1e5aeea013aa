"""``--diverse-beam-groups`` in every batch.

fairseq's ``DiverseBeamSearch`` keeps a number for each sentence of a batch and looks it up by the sentence's number in
the data set: it stops with an IndexError in the first batch that does not begin the data set. The patch passes the
place in the batch instead.
"""

from typing import Any, Callable

from .wrapping import Patch

__all__ = ["PATCH"]


def _by_place(search: Callable[..., Any]) -> Callable[..., Any]:
    def step(
        self: Any,
        step: int,
        lprobs: Any,
        scores: Any,
        prev_output_tokens: Any = None,
        original_batch_idxs: Any = None,
    ) -> Any:
        if original_batch_idxs is not None:
            if step == 0:
                self.sentences = original_batch_idxs
            # [sentences still searched, sentences of the batch], one True in each row
            same = original_batch_idxs.unsqueeze(1) == self.sentences.unsqueeze(0)
            original_batch_idxs = same.int().argmax(1)
        return search(self, step, lprobs, scores, prev_output_tokens, original_batch_idxs)

    return step


PATCH = Patch(
    name="diverse_beam",
    reason="--diverse-beam-groups stops in the first batch that does not begin the data set",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.search:DiverseBeamSearch.step": _by_place},
)
