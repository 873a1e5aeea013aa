"""All that changes stock fairseq, one file for each change, installed when the plugin is imported.

Each patch (:class:`~fairseq_attn_plugin.patches.wrapping.Patch`) is here because without it a stock command stops,
gives a wrong result, or cannot be told what this package offers. ``python -m fairseq_attn_plugin.patches`` prints the
list.
"""

from typing import List

from . import (
    batches,
    broadcast,
    checkpoint_files,
    corpora,
    coverage,
    decoding,
    diverse_beam,
    explained_checkpoints,
    explained_errors,
    generation_loop,
    hydra_errors,
    loading,
    lr_schedule,
    multirun,
    numbers,
    overrides,
    patience,
    penalties,
    root_logger,
    scorer,
    unknown_words,
    vocabulary_losses,
)
from .wrapping import Patch

__all__ = ["PATCHES", "Patch", "install"]

PATCHES: List[Patch] = [
    root_logger.PATCH,  # first: it watches the first import of fairseq
    explained_errors.PATCH,
    explained_checkpoints.PATCH,
    hydra_errors.PATCH,
    numbers.PATCH,
    loading.PATCH,
    broadcast.PATCH,
    batches.PATCH,
    multirun.PATCH,
    patience.PATCH,
    lr_schedule.PATCH,
    overrides.PATCH,
    checkpoint_files.PATCH,
    corpora.PATCH,
    scorer.PATCH,
    generation_loop.PATCH,
    decoding.PATCH,
    diverse_beam.PATCH,
    coverage.PATCH,
    unknown_words.PATCH,
    penalties.PATCH,
    vocabulary_losses.PATCH,
]


def install() -> None:
    """Install all patches; a second call changes nothing. Needs fairseq; prints nothing."""
    for patch in PATCHES:
        patch.install()
