"""The optimizers of this package. Importing it registers them with fairseq."""

from . import fused_adam

__all__ = ["fused_adam"]
