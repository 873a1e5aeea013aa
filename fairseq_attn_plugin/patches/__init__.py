"""All that changes stock fairseq, grouped by what it is for, installed when the plugin is imported.

Each patch (:class:`~fairseq_attn_plugin.patches.wrapping.Patch`) is here because without it a stock command stops,
gives a wrong result, runs code of a file, does not resume exactly, or cannot be told what this package offers.
"""

import os
import sys
from importlib import import_module
from typing import List

from .wrapping import Patch

# what a later patch wraps is outside of what an earlier one wraps: checks of checkpoints see the others' messages, and
# what is asked of a trained model comes after the checks
MODULES = (
    "messages command_lines safe_files.literals numbers todays_torch right_results resuming validation data_folders "
    "safe_files.checkpoints trained_models decoding penalties vocabulary_losses cuda_graphs"
)
_MODULES = [import_module(f"{__name__}.{name}") for name in MODULES.split()]
PATCHES: List[Patch] = [one for module in _MODULES for one in vars(module).values() if isinstance(one, Patch)]


def install() -> None:
    """Install all patches; a second call changes nothing. Needs fairseq; prints nothing."""
    folder, file = os.path.split(os.path.abspath(getattr(sys.modules["__main__"], "__file__", None) or ""))
    if folder in import_module("fairseq_cli").__path__ and hasattr(sys.modules["__main__"], "cli_main"):
        # python -m fairseq_cli.train: patches of a second copy would have no effect
        sys.modules.setdefault(f"fairseq_cli.{file[:-3]}", sys.modules["__main__"])
    for patch in PATCHES:
        patch.install()
