"""All that changes stock fairseq, grouped by what it is for, installed when the plugin is imported.

Each patch (:class:`~fairseq_attn_plugin.patches.wrapping.Patch`) is here because without it a stock command stops,
gives a wrong result, runs code of a file, does not resume exactly, or cannot be told what this package offers.
``python -m fairseq_attn_plugin.patches`` prints the list.
"""

from typing import List

from . import (
    command_lines,
    cuda_graphs,
    data_folders,
    decoding,
    messages,
    numbers,
    penalties,
    resuming,
    right_results,
    todays_torch,
    trained_models,
    vocabulary_losses,
)
from .safe_files import checkpoints, literals
from .wrapping import Patch

__all__ = ["PATCHES", "Patch", "install"]

PATCHES: List[Patch] = [
    messages.ERRORS,
    messages.CHECKPOINTS,
    command_lines.HELP_PAGES,
    literals.LITERALS,
    numbers.NUMBERS,
    todays_torch.LOADING,
    todays_torch.BROADCAST,
    right_results.BATCHES,
    resuming.BATCH_ORDER,
    todays_torch.BUCKETS,
    resuming.MULTIRUN,
    right_results.LOG_FILE,
    resuming.PATIENCE,
    resuming.LR_SCHEDULE,
    data_folders.DICTIONARIES,
    resuming.WHOLE_CHECKPOINTS,
    resuming.RESTARTS,  # after patience and multirun, whose count it reads
    trained_models.OVERRIDES,
    trained_models.CHECKPOINT_FILES,
    checkpoints.CHECKED,  # outside of what explains checkpoints
    trained_models.USER_DIRS,  # outside of these, whose messages it completes
    data_folders.CORPORA,
    right_results.SCORER,
    decoding.GENERATION_LOOP,
    decoding.DECODING,
    right_results.DIVERSE_BEAM,
    command_lines.TYPING_ERRORS,
    todays_torch.BFLOAT16,
    right_results.UNKNOWN_WORDS,
    penalties.PENALTIES,
    vocabulary_losses.VOCABULARY_LOSSES,
    cuda_graphs.CUDA_GRAPHS,
    data_folders.DATA,
]


def install() -> None:
    """Install all patches; a second call changes nothing. Needs fairseq; prints nothing."""
    for patch in PATCHES:
        patch.install()
