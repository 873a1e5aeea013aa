"""Sends a model folder to a repository of a Hugging Face Hub, and takes one from there.

``huggingface_hub`` does the transfer. It finds the user's token where ``hf auth login`` put it, or in ``HF_TOKEN``;
``HF_ENDPOINT`` is another hub.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Iterator, Optional

from fairseq_attn_plugin.analysis.hub.card import model_card
from fairseq_attn_plugin.analysis.hub.packing import FILES, pack, unpack
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import SETTINGS, ModelFolder, open_model_folder

__all__ = ["check_name", "pull", "push"]

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


def check_name(name: str) -> None:
    """Raises ``OptionError`` unless the name is of the form ``USER/MODEL``."""
    if not _NAME.fullmatch(name):
        raise OptionError(f"{name}: must be the name of a repository, USER/MODEL, as in anna/lstm-de-en")


def push(path: str, name: str, private: bool = False, message: str = "Upload a model") -> str:
    """Sends a model folder.

    Args:
        path: of the folder
        name: of the repository, ``USER/MODEL``; it is created if it does not exist
        private: a new repository is visible to its owner only
        message: of the commit

    Returns:
        the address of the commit

    Raises:
        OptionError: the folder is no model folder, a package is not installed, or the transfer failed
    """
    check_name(name)
    folder = open_model_folder(path)
    if folder is None:
        raise OptionError(f"{path}: is no model folder; push takes what fairseq-attn train writes")
    client = _client()
    with tempfile.TemporaryDirectory() as place:
        pack(folder, Path(place))
        (Path(place) / "README.md").write_text(model_card(folder, name), encoding="utf-8")
        with _in_one_line(f"push {name}"):
            api = client.HfApi()
            api.create_repo(name, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=name, folder_path=place, commit_message=message))


def pull(name: str, path: Optional[str] = None, revision: Optional[str] = None) -> ModelFolder:
    """Takes a model folder.

    Args:
        name: of the repository, ``USER/MODEL``
        path: folder to write, which must not exist or be empty (default: ``MODEL``)
        revision: branch, tag or commit (default: the newest commit)

    Raises:
        OptionError: the folder exists, a package is not installed, the transfer failed, or the repository has other
            files
    """
    check_name(name)
    shown = Path(path or name.rpartition("/")[2])
    out = Path(os.path.realpath(shown))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OptionError(f"{shown}: exists; name another folder: pull {name} FOLDER")
    client = _client()
    with tempfile.TemporaryDirectory() as place:
        with _in_one_line(f"pull {name}"):
            client.snapshot_download(name, revision=revision, local_dir=place, allow_patterns=list(FILES))
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=out.parent) as beside:
                partial = Path(beside) / "model"  # a folder with the usual permissions
                partial.mkdir()
                try:
                    unpack(Path(place), partial)
                except OptionError as error:
                    raise OptionError(str(error).replace(place, name).replace(str(partial), str(shown))) from None
                _move(partial, out)
        except OSError as error:
            raise OptionError(f"{shown}: cannot be written: {error.strerror or error}") from None
    return ModelFolder(shown, open_model_folder(shown).settings)  # type: ignore[union-attr]


def _move(made: Path, out: Path) -> None:
    """To ``out``, which does not exist, or is empty and stays the same folder: a shell may be in it."""
    if not out.exists():
        os.replace(made, out)
        return
    for file in sorted(made.iterdir(), key=lambda file: file.name == SETTINGS):  # the settings come last
        os.replace(file, out / file.name)


def _client() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise OptionError("needs huggingface_hub: pip install 'fairseq_attn_plugin[hub]'") from None
    return huggingface_hub


@contextlib.contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """The client raises exceptions of several packages: of HTTP, of the connection, of names and tokens."""
    try:
        yield
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        hint = "; hf auth login, or HF_TOKEN, gives a token" if "token" in str(error).lower() else ""
        raise OptionError(f"{what}: {reason}{hint}") from error
