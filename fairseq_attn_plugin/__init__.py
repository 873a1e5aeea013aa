"""LSTM sequence-to-sequence models for fairseq in which the attention mechanism varies.

Importing the package registers its models, tasks, criterions, optimizers and learning-rate schedulers with fairseq,
through ``--user-dir`` as well as in a notebook, and mends stock fairseq (:mod:`fairseq_attn_plugin.patches`). Where
fairseq is not imported yet, this waits until it is. Without fairseq, only the parts that need plain torch work
(``attention``, ``ops``); without torch, records and exported models.
"""

from .registration import register_with_fairseq

__version__ = "0.2.0.dev0"

register_with_fairseq()
