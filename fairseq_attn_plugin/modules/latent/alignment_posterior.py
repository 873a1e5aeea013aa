"""The posterior network of models with a latent alignment."""

from functools import partial
from typing import Callable, Optional

from torch import Tensor, nn

from ...attention.normalizers import Normalizer
from ...ops.deferred import Linear
from ...ops.precision import recomputed
from ..encoders.encoder import LSTMEncoder
from ..rnn import uniform_


class AlignmentPosterior(nn.Module):
    """q(z_t = j | x, y) = normalize_j(g_t . W f_j), f, g the states of bidirectional networks over source and target.

    g_t has read the whole target, y_t included. The embeddings are the model's own (Deng et al. 2018, section 4).
    """

    def __init__(self, source: LSTMEncoder, target: LSTMEncoder, normalize: Normalizer):
        super().__init__()
        self.source, self.target, self.normalize = source, target, normalize
        self.bilinear = uniform_(Linear(source.output_units, target.output_units, bias=False))

    def forward(self, src_tokens: Tensor, target: Tensor, recompute: bool = False, apart: bool = False) -> Tensor:
        """Scores ``[B, T, N]`` of the words ``target`` ``[B, T]``, before the normaliser; meaningless on padding.

        With ``recompute`` the networks run again in the backward pass, instead of keeping their activations, where
        their dropout can be drawn again. (On a GPU cuDNN draws the dropout between layers from a state of its own.)
        With ``apart`` no gradient reaches the shared embeddings: the rest of the model is trained as without a
        posterior.
        """
        rnn = self.source.rnn
        recompute &= src_tokens.device.type == "cpu" or not self.training or rnn.num_layers == 1 or rnn.dropout == 0

        def read(reader: LSTMEncoder, tokens: Tensor) -> Tensor:
            return reader(tokens, train_embeddings=not apart)["encodings"]

        run: Callable[..., Tensor] = partial(recomputed, read, draws=True) if recompute else read
        keys, queries = run(self.source, src_tokens), run(self.target, target)
        return queries @ self.bilinear(keys).transpose(1, 2)

    def log_probs(self, scores: Tensor, mask: Optional[Tensor]) -> Tensor:
        """log q ``[B, T, N]`` of the scores that :meth:`forward` returns; ``mask`` ``[B, 1, N]``, True on padding."""
        return self.normalize.log_weights(self.normalize(scores, mask), scores, mask)
