"""Errors under hydra.

``fairseq-hydra-train`` runs inside hydra, which catches every exception and prints its own report with a trace. With
``HYDRA_FULL_ERROR`` set, hydra raises the exception again, and the hook of :mod:`fairseq_attn_plugin.errors` shows it.
"""

import os

from .wrapping import Patch

__all__ = ["PATCH"]


def raise_through_hydra() -> None:
    """Make hydra raise what it has caught, if the plugin is imported inside a hydra job."""
    try:
        from hydra.core.hydra_config import HydraConfig
    except ImportError:
        return
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")


PATCH = Patch(
    name="hydra_errors",
    reason="fairseq-hydra-train reports a mistake in an option with a stack trace",
    checked=("0.12.3.1",),
    extra=raise_through_hydra,
)
