"""The optimizers and learning-rate schedulers of this package. Importing it registers them with fairseq."""

from . import decay_after_rise, fused_adam
