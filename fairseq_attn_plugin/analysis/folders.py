"""What a subcommand reads: model folders and checkpoints, which their files replace, and which sentences.

The options ``--sentences 3 17 20-25`` and ``--first N`` choose sentences of a corpus.
"""

import argparse
import re
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.analysis.inference.model_options import add_user_dir_option
from fairseq_attn_plugin.analysis.records.files import label_and_path
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import ModelFolder, open_model_folder

BEAM = 5  # width of the search for what is shown of a model folder
_ITEM = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")  # their list must fit into memory


def add_files(parser: Any, help: str) -> None:
    """Adds ``files``, which :func:`with_attention` reads, and for models of folders ``--cpu`` and ``--user-dir``."""
    parser.add_argument("files", nargs="+", metavar="[LABEL=]FILE", help=help)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    add_user_dir_option(parser)


def with_attention(
    texts: Sequence[str], cpu: bool, beam: Optional[int] = None, matrices: Tuple[str, ...] = ()
) -> List[str]:
    """``[LABEL=]FOLDER`` becomes ``LABEL=`` the attention to its test set; see :func:`.attention_file.records_of`."""

    def file_of(model: ModelFolder) -> str:
        from fairseq_attn_plugin.analysis.inference.attention_file import records_of

        return records_of(model, cpu, beam, matrices)

    return _replaced(texts, file_of)


def with_translations(texts: Sequence[str]) -> List[str]:
    """``[LABEL=]FOLDER`` becomes ``LABEL=`` its translation of the test set."""
    return _replaced(texts, lambda model: str(model.test_file("translation")))


def folder_of_test(texts: Sequence[str]) -> Optional[ModelFolder]:
    """The first model folder among ``[LABEL=]FILE``, if there is one, whose test set all of them must have.

    Raises ``OptionError`` if one has another test set, or none.
    """
    folders = list(filter(None, (open_model_folder(label_and_path(text)[1]) for text in texts)))
    tests = [[one.test_file(name).read_bytes() for name in ("source", "reference")] for one in folders]
    for folder, test in zip(folders, tests):
        if test != tests[0]:
            raise OptionError(f"{folder.path}: has another test set than {folders[0].path}; compare models of one")
    return folders[0] if folders else None


def data_of_checkpoint(args: argparse.Namespace) -> None:
    """A checkpoint in the place of a data folder becomes ``path``, and ``data`` the folder that it was trained on.

    Raises ``OptionError`` if the checkpoint names no folder, or one that is not there.
    """
    data = getattr(args, "data", None)
    is_checkpoint = isinstance(data, str) and data.endswith(".pt") and Path(data).is_file()
    if is_checkpoint and getattr(args, "takes_model", False) and args.path is None:
        from fairseq_attn_plugin.analysis.inference.loading import data_of

        args.path = args.data
        args.data = data_of(args.path, "name its dictionaries' folder first, and the checkpoint by --path")


def _replaced(texts: Sequence[str], file_of: Callable[[ModelFolder], str]) -> List[str]:
    """Each ``[LABEL=]FOLDER`` of a model folder by its file. Raises ``OptionError`` for a checkpoint."""
    result = []
    for text in texts:
        label, path = label_and_path(text)
        model = open_model_folder(path)
        if model is not None:
            text = f"{label or Path(path).resolve().name}={file_of(model)}"
        elif path.endswith(".pt") and Path(path).is_file():
            raise OptionError(f"{path}: is a checkpoint; give the file that fairseq-attn extract writes of it")
        result.append(text)
    return result


def add_sentence_options(parser: argparse.ArgumentParser, first: str) -> None:
    """Adds ``--sentences`` and ``--first``, which exclude each other; ``first`` is the default that the help names."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--sentences",
        nargs="+",
        metavar="N",
        help="numbers of sentences, counted from 0, such as 3 17 20-25 or 3,17,20-25",
    )
    group.add_argument("--first", type=int, metavar="N", help=f"the first N sentences; 0: all (default: {first})")


def sentence_numbers(texts: Optional[Sequence[str]], option: str = "--sentences") -> Optional[List[int]]:
    """The numbers that ``--sentences`` names, each once, in the order given.

    ``["3", "5-7,0"]`` gives ``[3, 5, 6, 7, 0]``; None gives None. Raises ``OptionError``, which names ``option``, for
    an item that is not a number or a range.
    """
    if texts is None:
        return None
    numbers: List[int] = []
    for text in texts:
        for item in filter(None, text.replace(",", " ").split()):
            match = _ITEM.fullmatch(item)
            start, end = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if end < start:
                raise OptionError(f"{option} {item}: must be a number, from 0 to 9999999, or a range such as 20-25")
            numbers.extend(range(start, end + 1))
    if not numbers:
        raise OptionError(f"{option}: name at least one sentence, as in 3 17 20-25")
    return list(dict.fromkeys(numbers))
