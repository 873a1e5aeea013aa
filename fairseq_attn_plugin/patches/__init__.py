"""All that changes stock fairseq, one file for each change, installed when the plugin is imported.

Each patch (:class:`~fairseq_attn_plugin.patches.wrapping.Patch`) is here because without it a stock command stops,
gives a wrong result, or cannot be told what this package offers. ``python -m fairseq_attn_plugin.patches`` prints the
list.
"""

from typing import List

from . import (
    batch_order,
    batches,
    bfloat16,
    broadcast,
    buckets,
    checked_checkpoints,
    checkpoint_files,
    corpora,
    coverage,
    cuda_graphs,
    data_folders,
    decoding,
    dictionaries,
    diverse_beam,
    explained_checkpoints,
    explained_errors,
    fasta,
    generation_loop,
    help_pages,
    hydra_errors,
    literals,
    loading,
    log_file,
    lr_schedule,
    multirun,
    numbers,
    overrides,
    patience,
    penalties,
    save_dir,
    scorer,
    typing_errors,
    unknown_words,
    user_dirs,
    vocabulary_losses,
    whole_checkpoints,
)
from .wrapping import Patch

__all__ = ["PATCHES", "Patch", "install"]

PATCHES: List[Patch] = [
    explained_errors.PATCH,
    explained_checkpoints.PATCH,
    hydra_errors.PATCH,
    help_pages.PATCH,
    literals.PATCH,
    numbers.PATCH,
    fasta.PATCH,
    loading.PATCH,
    broadcast.PATCH,
    batches.PATCH,
    batch_order.PATCH,
    buckets.PATCH,
    multirun.PATCH,
    log_file.PATCH,
    patience.PATCH,
    lr_schedule.PATCH,
    dictionaries.PATCH,
    whole_checkpoints.PATCH,
    save_dir.PATCH,  # after patience and multirun, whose count it reads
    overrides.PATCH,
    checkpoint_files.PATCH,
    checked_checkpoints.PATCH,  # outside of what explains checkpoints
    user_dirs.PATCH,  # outside of these, whose messages it completes
    corpora.PATCH,
    scorer.PATCH,
    generation_loop.PATCH,
    decoding.PATCH,
    diverse_beam.PATCH,
    coverage.PATCH,
    typing_errors.PATCH,
    bfloat16.PATCH,
    unknown_words.PATCH,
    penalties.PATCH,
    vocabulary_losses.PATCH,
    cuda_graphs.PATCH,
    data_folders.PATCH,
]


def install() -> None:
    """Install all patches; a second call changes nothing. Needs fairseq; prints nothing."""
    for patch in PATCHES:
        patch.install()
