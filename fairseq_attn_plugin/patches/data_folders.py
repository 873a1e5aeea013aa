"""Texts and data folders are checked when they are read, and a checkpoint knows the dictionaries of its training.

- ``fairseq-preprocess --user-dir fairseq_attn_plugin`` looks at its texts first. Stock binarises two texts of different
  lengths, on which a training fails, takes a byte-order mark for a part of the first word and UTF-16 for words, and
  binarises lines twice with several workers where they end by CR LF.
- Stock maps the files of a data folder into memory as they are: one that was cut short, or belongs to another
  dictionary, ends in a trace, or in a training on other sentences.
- Stock numbers words by the lines of ``dict.LANG.txt``, and a checkpoint has numbers only. Data that were prepared anew
  may have the same words in another order: the model then reads and writes other words, without a message. A hash of
  each dictionary is stored in the checkpoint. Checkpoints without hashes are taken as they are.
- Stock trains without alignments where ``--load-alignments`` finds none. Here it is refused.
- A split whose file ends in ``.fasta`` is refused: stock gives its path to a shell.
"""

import contextlib
import os
import struct
import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from fairseq_attn_plugin.errors import OptionError

from ..text.lines import to_utf8
from ..text.vocabulary import describe_vocabulary
from .wrapping import Patch, after, around, before, storing

# ---- texts


def count_lines(path: str) -> int:
    """The number of lines of a text.

    Raises:
        OptionError: the file cannot be read, is empty, is not UTF-8, begins with a byte-order mark, or has NUL bytes or
            carriage returns
    """
    number, fault = 0, ""
    try:
        with open(path, encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                if number == 1 and line.startswith("\ufeff"):
                    fault = "begins with a byte-order mark, a part of the first word; remove it"
                elif "\r" in line:
                    fault = "has a carriage return (CR); end lines by LF, as by sed -i 's/\\r$//'"
                elif "\0" in line:
                    fault = "has NUL bytes; convert the text to UTF-8 (from UTF-16?)"
                if fault:
                    raise OptionError(f"{path}, line {number}: {fault}")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: is not UTF-8 after line {number} ({error.reason}); {to_utf8(error)}") from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not number:
        raise OptionError(f"{path}: is empty")
    return number


def _splits(args: Any) -> Iterator[List[str]]:
    """The texts of each split: source, target and alignments, where they are there."""
    sides: Tuple[Any, ...] = (args.source_lang,) if args.only_source else (args.source_lang, args.target_lang)
    prefixes = [args.trainpref] if args.trainpref else []
    for several in filter(None, (args.validpref, args.testpref)):
        prefixes += several.split(",")
    for prefix in prefixes:
        paths = [f"{prefix}.{side}" if side else prefix for side in sides]
        if args.align_suffix and os.path.exists(f"{prefix}.{args.align_suffix}"):
            paths.append(f"{prefix}.{args.align_suffix}")
        yield paths


@before
def _checking(args: Any) -> None:
    for paths in _splits(args):
        counts = [count_lines(path) for path in paths]
        for path, count in zip(paths[1:], counts[1:]):
            if count != counts[0]:
                raise OptionError(
                    f"{paths[0]} has {counts[0]} lines and {path} has {count}: must have the same number, a line "
                    "for each sentence pair"
                )


CORPORA = Patch(
    name="corpora",
    reason="fairseq-preprocess takes texts of different lengths, binarises lines twice, and stops with traces",
    wraps={"fairseq_cli.preprocess:main": _checking},
    needed=lambda: "fairseq_cli.preprocess" in sys.modules,  # importing it would slow every other tool down
)

# ---- data folders

MAGIC = b"MMIDIDX\x00\x00"  # at the start of an index of memory-mapped data
HEADER = struct.Struct("<9sQBQ")  # magic, version, type of the words, number of sentences
DTYPES = dict(enumerate("u1 i1 i2 i4 i8 f8 f8 u2 u4 u8".split(), 1))  # by fairseq's codes
MOST = 2**28  # words that are looked at: more would take minutes at every start


def check_binarised(path: str, dictionary: Any = None) -> None:
    """Checks memory-mapped data, ``path.idx`` and ``path.bin``; data of older formats are left alone.

    Args:
        path: of the data, without ending
        dictionary: of its words, or None for other numbers (alignments)

    Raises:
        OptionError: a file is cut or has another format, or a word is not in the dictionary
    """

    def need(right: Any, file: str, fault: str) -> None:
        if not right:
            raise OptionError(f"{path}.{file}: {fault}; prepare the data anew by fairseq-preprocess")

    with open(f"{path}.idx", "rb") as stream:
        start = stream.read(HEADER.size)
    if start.startswith(b"TNTIDX\x00\x00"):
        return
    _, _, code, count = HEADER.unpack(start) if len(start) == HEADER.size else (0, 0, 0, 0)
    need(start.startswith(MAGIC) and code in DTYPES, "idx", "is no index of binarised text")
    size, expected = os.path.getsize(f"{path}.idx"), HEADER.size + 12 * count
    need(size == expected, "idx", f"has {size} bytes, and an index of {count} sentences has {expected}")
    need(os.path.isfile(f"{path}.bin"), "bin", "is missing")
    found = os.path.getsize(f"{path}.bin")
    hint = "" if dictionary is not None else " (alignments without one link cannot be read: leave them out)"
    need(found, "bin", f"is empty{hint}")
    sizes = np.memmap(f"{path}.idx", dtype="<i4", mode="r", offset=HEADER.size, shape=count)
    whole = int(sizes.sum(dtype=np.int64)) * np.dtype(DTYPES[code]).itemsize
    need(found == whole, "bin", f"has {found} bytes, and its index speaks of {whole}")
    if dictionary is not None:
        words = np.memmap(f"{path}.bin", dtype=DTYPES[code], mode="r")[:MOST]
        need(words.max() < len(dictionary), "bin", f"has words beyond the {len(dictionary)} of its dictionary")


@before
def _checking_data(path: str, impl: Optional[str], fix_lua_indexing: bool = False, dictionary: Any = None) -> None:
    if impl in (None, "cached", "lazy", "mmap") and os.path.isfile(f"{path}.idx"):
        check_binarised(path, dictionary)


@around
def _without_shell(_build: Any, _dataset: Any, path: str) -> None:
    raise OptionError(f"{path}: FASTA files are not read; binarise the sequences by fairseq-preprocess")


DATA = Patch(
    name="data_folders",
    reason="damaged data end in a trace, or in a training on other sentences; a shell runs names of FASTA files",
    wraps={
        "fairseq.data.indexed_dataset:make_dataset": _checking_data,
        "fairseq.data.fasta_dataset:FastaDataset._build_index": _without_shell,
    },
)

# ---- dictionaries

KEY, LANGUAGES = "dictionaries", "languages"


def hashes(task: Any) -> Dict[str, str]:
    """By language, or by side where the task names none."""
    dicts = getattr(task, "dicts", None)  # of multilingual tasks
    found: Dict[str, Any] = dict(dicts) if isinstance(dicts, Mapping) else {}
    for side in ("source", "target") if not found else ():
        name = getattr(getattr(task, "cfg", None), f"{side}_lang", None) or side
        with contextlib.suppress(AttributeError, NotImplementedError):
            found[name] = getattr(task, f"{side}_dictionary")
    return {name: describe_vocabulary(one)["sha256"] for name, one in found.items() if hasattr(one, "symbols")}


def check_dictionaries(path: str, extra_state: Optional[Dict[str, Any]], task: Any) -> None:
    """Raises OptionError if a checkpoint was trained with other dictionaries than the task has."""
    trained = (extra_state or {}).get(KEY) or {}
    for name, value in hashes(task).items():
        if trained.get(name, value) != value:
            raise OptionError(
                f"checkpoint {path}: was trained with another dictionary of {name!r} than these data have, with other "
                "words or in another order; give the data folder of the training, or prepare data with its dictionary "
                "(fairseq-preprocess --srcdict, --tgtdict)"
            )


def languages_of(state: Dict[str, Any]) -> List[str]:
    """The source and the target of a checkpoint's training; the data folder may have chosen them."""
    task = (state.get("cfg") or {}).get("task")
    if isinstance(task, dict) and task.get("source_lang") and task.get("target_lang"):
        return [task["source_lang"], task["target_lang"]]
    return list((state.get("extra_state") or {}).get(KEY) or {})


def other_direction(path: str, extra_state: Optional[Dict[str, Any]], task: Any) -> Optional[str]:
    """The line for a checkpoint whose :func:`languages_of` are those of the task, in the other order."""
    asked = [getattr(getattr(task, "cfg", None), f"{side}_lang", None) for side in ("source", "target")]
    if asked[0] == asked[1] or (extra_state or {}).get(LANGUAGES) != asked[::-1]:
        return None
    given = "--source-lang {} --target-lang {}".format(*asked)
    return f"{given}: checkpoint {path} translates from {asked[1]} to {asked[0]}; give the languages in this order"


DICTIONARIES = Patch(
    name="dictionaries",
    reason="a model reads and writes other words where the dictionary of its data has another order",
    wraps={
        "fairseq.trainer:Trainer.save_checkpoint": storing(lambda trainer: {KEY: hashes(trainer.task)}),
        "fairseq.trainer:Trainer.load_checkpoint": after(
            lambda extra_state, self, filename, *_, **__: check_dictionaries(filename, extra_state, self.task)
        ),
    },
)


# ---- alignments


@before
def _with_alignments(task: Any, epoch: int, model: Any) -> None:
    """Raises OptionError if training data, loaded with alignments, have none, or a split has another number of them."""
    config: Any = getattr(task, "cfg", None)
    split = getattr(config, "train_subset", "train")
    dataset: Any = getattr(task, "datasets", {}).get(split)
    if not getattr(config, "load_alignments", False) or not hasattr(dataset, "align_dataset"):
        return
    languages = f"{getattr(config, 'source_lang', None)}-{getattr(config, 'target_lang', None)}"
    found = f"--load-alignments: {getattr(config, 'data', None)} has"
    prepare = "prepare the data with fairseq-preprocess --align-suffix SUFFIX and the languages of the training"
    if dataset.align_dataset is None:
        raise OptionError(f"{found} no alignments for the split {split} ({split}.align.{languages}.idx); {prepare}")
    for name, one in task.datasets.items():  # other splits than the training's may have none
        links = getattr(one, "align_dataset", None)
        if links is not None and len(links) != len(one):
            raise OptionError(
                f"{found} {len(links)} alignments for the {len(one)} sentences of the split {name}; {prepare}, one "
                "line for each sentence (fairseq reads none of sets that are joined, as by --combine-val)"
            )


ALIGNMENTS = Patch(
    name="alignments",
    reason="a training whose --load-alignments finds no file learns nothing of alignments, and says nothing",
    wraps={"fairseq.tasks.fairseq_task:FairseqTask.begin_epoch": _with_alignments},
)
