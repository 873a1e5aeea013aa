"""LSTM sequence-to-sequence models for fairseq in which the attention mechanism varies.

Importing the package registers its models, tasks, criterions, optimizers and learning-rate schedulers with fairseq,
through ``--user-dir`` as well as in a notebook, and mends stock fairseq (:mod:`fairseq_attn_plugin.patches`). Without
fairseq, only the parts that need plain torch work (``attention``, ``ops``).
"""

from importlib import import_module
from importlib.util import find_spec

__version__ = "0.1.0"


def _register() -> None:
    if find_spec("fairseq") is not None:
        # first, so that a mistake in the imports below is reported as clearly as any other
        import_module("fairseq_attn_plugin.patches").install()
    import_module("fairseq_attn_plugin.attention")
    if find_spec("fairseq") is not None:
        # fairseq imports models/*.py and tasks/*.py of a --user-dir itself, but not the rest, and none of them
        # without a --user-dir; Python imports a module once, so that nothing is registered twice
        import_module("fairseq_attn_plugin.models")
        import_module("fairseq_attn_plugin.tasks")
        import_module("fairseq_attn_plugin.criterions")
        import_module("fairseq_attn_plugin.optimizers")
        import_module("fairseq_attn_plugin.lr_schedulers")
    # last, so that a mechanism of an installed package finds everything
    import_module("fairseq_attn_plugin.attention.entry_points").load_entry_points()


_register()
