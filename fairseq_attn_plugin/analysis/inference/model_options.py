"""The options that name a model, and ``--user-dir``, which imports a user's own mechanisms and models first.

Every subcommand that loads a model has them. They are kept from torch, which loads slowly.
"""

import os
import traceback
from argparse import Namespace
from importlib.util import find_spec
from typing import Any

from fairseq_attn_plugin.errors import OptionError


def add_model_options(parser: Any) -> None:
    """Adds to a parser or a group ``--path``, ``--model-overrides``, ``--cpu`` and ``--user-dir``, which
    :func:`.loading.load_from_options` reads."""
    parser.set_defaults(takes_model=True)  # see model_folder.expand
    parser.add_argument(
        "--path",
        metavar="FILE",
        help="checkpoint, or several separated by colons, which are averaged (default: that of a model folder)",
    )
    add_overrides_option(parser)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    add_user_dir_option(parser)


def add_overrides_option(parser: Any) -> None:
    text = "model options to change, as in fairseq-generate"
    parser.add_argument("--model-overrides", default="{}", metavar="DICT", help=text)


def add_user_dir_option(parser: Any) -> None:
    """Adds ``--user-dir`` to a parser or a group; ``fairseq-attn`` imports the folder before the subcommand runs."""
    parser.add_argument(
        "--user-dir",
        action="append",
        metavar="FOLDER",
        help="Python package to import first, as with --user-dir of fairseq-train; may be repeated; the folder that a "
        "checkpoint names is not imported by itself",
    )


def folder_of(name: str) -> str:
    """What ``--user-dir NAME`` stands for: a folder, else the folder of the installed package of that name.

    fairseq looks for folders only, and an installation for editing puts no code beside fairseq. Any other name stays.
    """
    if name.isidentifier() and not os.path.isdir(name) and name != "__main__":
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            return spec.submodule_search_locations[0]
    return name


def import_user_dir(folder: str) -> None:
    """Imports a folder, or an installed package by its name, as fairseq imports a folder.

    First comes its ``__init__.py``, then come the modules of its ``tasks/`` and ``models/``.

    A folder that is already imported is not imported again.

    Raises:
        OptionError: the folder does not exist, its name belongs to another module, or its code fails; the message then
            names the file and the line
    """
    from fairseq import utils

    folder = folder_of(folder)
    if not os.path.isdir(folder):
        raise OptionError(f"--user-dir {folder}: there is no such folder; must be a Python package to import")
    try:
        utils.import_user_module(Namespace(user_dir=folder))
    except Exception as error:
        # fairseq remembers a folder before it imports it, and would skip it at the next call
        utils.import_user_module.memo.discard(os.path.abspath(folder))
        raise OptionError(f"--user-dir {folder}: cannot be imported: {_describe(error, folder)}") from error


def _describe(error: Exception, folder: str) -> str:
    """Kind and message of an error, and the last place inside the folder that led to it."""
    inside = os.path.realpath(folder) + os.sep
    places = [
        f"{frame.filename}, line {frame.lineno}: "
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.realpath(frame.filename).startswith(inside)
    ]
    text = " ".join(str(error).split())
    return f"{places[-1] if places else ''}{type(error).__name__}: {text}"
