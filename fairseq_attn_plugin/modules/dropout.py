"""fairseq's dropout module with the masks of :mod:`fairseq_attn_plugin.ops.dropout`."""

from typing import Any

from fairseq.modules import FairseqDropout
from torch import Tensor

from ..ops.dropout import dropout


class Dropout(FairseqDropout):
    """As fairseq's: ``--retain-dropout`` keeps it in inference."""

    def forward(self, x: Tensor, inplace: bool = False) -> Any:
        return dropout(x, self.p, self.training or self.apply_during_inference)
