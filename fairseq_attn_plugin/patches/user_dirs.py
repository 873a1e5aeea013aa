"""A checkpoint whose code is missing names the folder that it was trained with.

A checkpoint holds the ``--user-dir`` of its training. That folder is code, and whoever made the checkpoint chose it: it
is never imported unless the user names it. Where a name is unknown, the message says which folder may have it.
"""

import os
import re
from typing import Any, Callable, Optional

from fairseq import checkpoint_utils, utils

from fairseq_attn_plugin.errors import OptionError, one_line

from .wrapping import Patch

__all__ = ["PATCH", "user_dir_of"]

# a mechanism, a part of one, an objective, a task or a model that nothing registers
UNKNOWN = re.compile(r"--user-dir|Could not infer (model|task) type")
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def user_dir_of(path: str) -> Optional[str]:
    """The ``--user-dir`` that a checkpoint was trained with, unless it is this package or imported already."""
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    common = (state.get("cfg") or {}).get("common") or state.get("args")
    folder = getattr(common, "user_dir", None)
    if not isinstance(folder, str) or os.path.basename(folder.rstrip(os.sep)) == os.path.basename(OWN):
        return None
    imported = {os.path.realpath(known) for known in getattr(utils.import_user_module, "memo", ())}
    return None if os.path.realpath(folder) in imported else folder


def _names_the_user_dir(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_model_ensemble_and_task(filenames: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return load(filenames, *args, **kwargs)
        except Exception as error:
            line = one_line(error)
            if line is None or not UNKNOWN.search(line):
                raise
            for path in filenames:
                folder = user_dir_of(path)
                if folder is not None:
                    missing = "" if os.path.isdir(folder) else ", which is not there"
                    raise OptionError(
                        f"{line}; {path} was trained with --user-dir {folder}{missing}: code of a checkpoint is not "
                        "imported by itself; name the folder by --user-dir if you trust it"
                    ) from error
            raise

    return load_model_ensemble_and_task


PATCH = Patch(
    name="user_dirs",
    reason="a checkpoint with a mechanism from a --user-dir does not say which folder it needs",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.checkpoint_utils:load_model_ensemble_and_task": _names_the_user_dir},
)
