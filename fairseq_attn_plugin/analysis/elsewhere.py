"""Subcommands that are commands of their own: they take all words after their name.

``fairseq-attn fairseq-train ...`` is ``fairseq-train ...`` with this package loaded, in any folder. fairseq's own
``--user-dir NAME`` is a folder below the current one or beside fairseq's, not a module that Python would import, and
nothing of a plugin runs before fairseq has found it. Here the package is imported first, and becomes the
``--user-dir`` of a command without one, or its folder of configurations the ``--config-dir``. ``--user-dir NAME`` takes
the name of an installed package too.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from fairseq_attn_plugin.errors import OptionError

__all__ = ["ELSEWHERE", "PLACES", "run_elsewhere"]

PACKAGE = Path(__file__).resolve().parent.parent
# what fairseq's options of folders stand for
PLACES = {"--user-dir": PACKAGE, "--config-dir": PACKAGE / "configs"}
HYDRA_FOLDERS = ("--config-dir", "-cd", "--config-path", "-cp")


def fairseq_command(name: str, words: Sequence[str]) -> None:
    """Runs a command of fairseq in this process, with this package loaded."""
    given = {word.partition("=")[0] for word in words}
    if name == "fairseq-hydra-train":
        first = [] if given & set(HYDRA_FOLDERS) else ["--config-dir", str(PLACES["--config-dir"])]
    else:
        first = [] if "--user-dir" in given else ["--user-dir", str(PLACES["--user-dir"])]
        words = _with_folders(words)
    found = [point for point in entry_points(group="console_scripts", name=name) if "fairseq" in point.module]
    if not found:
        raise OptionError(f"{name}: is not installed in {sys.prefix}; install fairseq, as scripts/setup.sh does")
    sys.argv = [os.path.join(os.path.dirname(sys.argv[0]), name), *first, *words]
    import_module("fairseq")  # this package has waited for it
    found[0].load()()


def _with_folders(words: Sequence[str]) -> List[str]:
    """The words with the folder of an installed package in the place of its name behind ``--user-dir``."""
    from fairseq_attn_plugin.analysis.inference.user_dir import folder_of

    done: List[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--user-dir" and equals:
            word = f"{option}={folder_of(value)}"
        elif done and done[-1] == "--user-dir":
            word = folder_of(word)
        done.append(word)
    return done


def recipe(name: str, words: Sequence[str]) -> None:
    """Runs a recipe."""
    # by its name, since a recipe calls subcommands of this program
    sys.exit(import_module("fairseq_attn_plugin.recipes.cli").main(list(words)))


# subcommand -> what takes its name and its words
ELSEWHERE: Dict[str, Callable[[str, List[str]], None]] = {
    "recipe": recipe,
    "fairseq-preprocess": fairseq_command,
    "fairseq-train": fairseq_command,
    "fairseq-hydra-train": fairseq_command,
    "fairseq-validate": fairseq_command,
    "fairseq-generate": fairseq_command,
    "fairseq-interactive": fairseq_command,
}


def run_elsewhere(words: List[str]) -> None:
    ELSEWHERE[words[0]](words[0], words[1:])
