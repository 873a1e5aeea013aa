"""An encoder of stock fairseq, or of any other plugin, in the place of ours: ``--encoder-arch``."""

from typing import Any, Dict, Optional

import torch
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor, nn

from ...ops.devices import on_gpu
from .source_encoder import EncoderOut, SourceEncoder


class StockEncoder(SourceEncoder):
    """Any encoder that returns ``encoder_out`` under our contract.

    The encodings h_j are its last layer's, those of padding zero. Its states for the decoder are their mean,
    1/n sum_j h_j over the n words, which the decoder projects.

    An encoder returns its result as a tensor or in a list, with positions or sentences first. Where it returns a pair,
    as convolutional encoders do, that is keys and values (Gehring et al. 2017, "Convolutional Sequence to Sequence
    Learning", section 3.3); the encodings are the values, the sum of the last layer's output and the embeddings. How it
    is, a pair of short sentences shows.

    Args:
        dictionary: source dictionary
        stock: the encoder
        max_source_positions: longest source accepted

    Raises:
        ValueError: the encoder does not return a vector for every source position
    """

    def __init__(self, dictionary: Any, stock: nn.Module, max_source_positions: float = 1e5):
        super().__init__(dictionary)
        self.stock, self.padding_idx = stock, dictionary.pad()
        self.kind, self.states, self.num_layers = "stock", (), 1
        self.limit_of_task = max_source_positions
        self.max_source_positions = self._longest()
        if hasattr(stock, "num_attention_layers"):
            # fconv divides its gradients by twice the number of attentions: of keys and values in every decoder layer.
            stock.num_attention_layers = 1
        self.positions_first, self.output_units = self._probe()

    @property
    def embed_tokens(self) -> nn.Embedding:  # type: ignore[override]
        return self.stock.embed_tokens

    def _longest(self) -> float:
        limit = self.stock.max_positions() if hasattr(self.stock, "max_positions") else None
        return self.limit_of_task if limit is None else min(self.limit_of_task, limit)

    def _load_from_state_dict(self, state_dict: Dict[str, Tensor], prefix: str, *others: Any) -> None:
        """A table of positions gets as many rows as it had in training, whatever the limit of the task is now."""
        for name, module in self.stock.named_modules():
            saved = state_dict.get(f"{prefix}stock.{name}.weight")
            if not isinstance(module, LearnedPositionalEmbedding) or saved is None or saved.dim() != 2:
                continue
            if len(saved) != module.num_embeddings:  # else wrappers for several processes keep the parameter
                module.weight = nn.Parameter(module.weight.new_empty(len(saved), module.embedding_dim))
                module.max_positions += len(saved) - module.num_embeddings
                module.num_embeddings = len(saved)
        super()._load_from_state_dict(state_dict, prefix, *others)
        self.max_source_positions = self._longest()

    @torch.no_grad()
    def _probe(self) -> tuple[bool, int]:
        unk, eos = self.dictionary.unk(), self.dictionary.eos()
        tokens = torch.tensor([[unk, unk, eos], [self.padding_idx, unk, eos]])
        self.stock.eval()
        result = self._result(tokens, torch.tensor([3, 2]))
        self.stock.train()
        shape = tuple(getattr(result, "shape", ()))
        if shape[:2] not in ((2, 3), (3, 2)) or len(shape) != 3:
            raise ValueError("its encoder_out is not a vector for every source position")
        return shape[:2] == (3, 2), shape[2]

    def _result(self, src_tokens: Tensor, lengths: Tensor) -> Any:
        returned = self.stock(src_tokens, src_lengths=lengths)
        result = returned["encoder_out"] if isinstance(returned, dict) else None
        return result[-1] if isinstance(result, (list, tuple)) and result else result

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **unused: Any) -> EncoderOut:
        """Encodes a batch ``[B, N]``, padded on either side, which says the lengths; see
        :mod:`~fairseq_attn_plugin.modules.encoders.source_encoder`."""
        pad_mask = src_tokens.eq(self.padding_idx)
        lengths = (~pad_mask).sum(1)
        padding = pad_mask if on_gpu(pad_mask) or bool(pad_mask.any()) else None
        encodings = self._result(src_tokens, lengths)
        if self.positions_first:
            encodings = encodings.transpose(0, 1)
        if padding is not None:
            encodings = encodings.masked_fill(padding.unsqueeze(-1), 0.0)
        mean = encodings.sum(1) / lengths.clamp(min=1).unsqueeze(-1).to(encodings.dtype)
        return self.result(src_tokens, padding, encodings.contiguous(), mean.unsqueeze(1), None)
