"""LSTM sequence-to-sequence models for fairseq in which the attention mechanism is the thing that varies.

Importing the package registers its models, tasks and criterions with fairseq, be it through ``--user-dir`` or in a
notebook, and makes stock fairseq work on today's torch (:mod:`fairseq_attn_plugin._compat`). Where fairseq is
not installed only the parts that need plain torch are there (``attention``, ``ops``).
"""

from importlib import import_module
from importlib.util import find_spec

__version__ = "0.1.0"


def _register() -> None:
    if find_spec("fairseq") is not None:
        # first, so that a mistake in what follows is reported as clearly as any other
        import_module("fairseq_attn_plugin._compat").install()
    import_module("fairseq_attn_plugin.attention")
    if find_spec("fairseq") is not None:
        # fairseq imports models/*.py and tasks/*.py of a --user-dir itself, but no criterions, and none without one; a
        # module is imported once, whoever asks first, so that nothing registers twice
        import_module("fairseq_attn_plugin.models")
        import_module("fairseq_attn_plugin.tasks")
        import_module("fairseq_attn_plugin.criterions")
    # last, so that a mechanism of an installed package finds everything
    import_module("fairseq_attn_plugin.attention.entry_points").load_entry_points()


_register()
