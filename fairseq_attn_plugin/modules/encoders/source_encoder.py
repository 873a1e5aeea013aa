"""What an encoder of a translation model returns, and what all encoders have in common.

``encoder_out`` is a dictionary. B sentences have N source positions and encodings of Dh units:

- ``encodings`` ``[B, N, Dh]``, zero on padding, in the coordinates of the given ``src_tokens``
- ``hidden`` ``[B, L, Dh]``, states from which the decoder starts; L is the encoder's ``num_layers``
- ``cell`` ``[B, L, Dh]``, likewise, or None where the encoder has no such states
- ``tokens`` ``[B, N]``, the words
- ``pad_mask`` ``[B, N]``, True on padding; None without padding
- ``rows`` ``[R]``, the sentence of each row of the decoder
"""

from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from ...attention import index_rows
from ...ops.devices import constant_on_gpu
from ..source_memory import follow

EncoderOut = Dict[str, Any]


class SourceEncoder(FairseqEncoder):
    """An encoder whose results exist once per sentence, also in a beam search."""

    embed_tokens: nn.Embedding
    padding_idx: int
    output_units: int  # Dh
    num_layers: int  # L
    states: Tuple[str, ...]  # of a decoder's layers that can start from the encoder's own: "hidden", "cell"
    max_source_positions: float  # the longest source accepted

    def result(
        self, src_tokens: Tensor, pad_mask: Optional[Tensor], encodings: Tensor, hidden: Tensor, cell: Optional[Tensor]
    ) -> EncoderOut:
        """``encoder_out`` of a batch before a search, with a row for each sentence."""
        rows = _first_rows(src_tokens.size(0), src_tokens.device)
        states = {"hidden": hidden, "cell": cell}
        return {"encodings": encodings, **states, "tokens": src_tokens, "pad_mask": pad_mask, "rows": rows}

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Reorders the rows of the decoder for beam search.

        The hypotheses of a sentence share its encodings: the tensors keep one entry per sentence, and ``rows`` says
        which sentence each row of the decoder translates. Entries move only when sentences do, for example when one of
        them is finished.
        """
        rows, sentences = follow(encoder_out["rows"], new_order)
        if sentences is not None:
            encoder_out = index_rows(encoder_out, sentences)
        return {**encoder_out, "rows": rows}

    def max_positions(self) -> float:
        return self.max_source_positions


@constant_on_gpu
def _first_rows(size: int, device: torch.device) -> Tensor:
    return torch.arange(size, device=device)
