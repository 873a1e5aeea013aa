"""The model folder: a trained translator with all that it needs. Commands take its name in the place of a checkpoint.

``fairseq-attn train`` writes it::

    settings.json                      languages, preparation of text, subwords, scores, versions
    model.pt                           the best checkpoint, without the state of the optimizer
    dict.SRC.txt dict.TGT.txt          dictionaries of fairseq
    bpe.codes or sentencepiece.model   the subword model, if there is one
    test.SRC test.TGT                  the test set as text
    test.hyp.TGT                       its translation
    README.md                          a card: data, architecture, scores, command of the training
    training/                          corpus, checkpoints and logs of the training; translating needs none of it

A folder of ``fairseq-attn export`` describes its text by the same settings (:class:`Text`).
"""

import argparse
import os
import re
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .errors import OptionError
from .writing import read_json, whole_file, write_json

FORMAT = "fairseq_attn_plugin model 1"
SETTINGS, MODEL = "settings.json", "model.pt"
NEEDED = {"languages", "subwords", "lowercase", "bpe", "tokenizer", "normalizer"}  # settings
SUBWORD_FILES = {"subword_nmt": "bpe.codes", "sentencepiece": "sentencepiece.model"}


class Text(NamedTuple):
    """How a line becomes tokens, and tokens a line."""

    lowercase: bool
    subwords: str  # how the vocabulary marks subwords: bpe, sentencepiece or none
    bpe_codes: Optional[str] = None
    sentencepiece_model: Optional[str] = None
    tokenizer: Optional[Dict[str, Any]] = None  # of Moses: languages, dash_splits, escape
    normalizer: Optional[str] = None  # one of NORMALIZERS

    def save(self, folder: Path) -> Dict[str, Any]:
        """Copies the subword model into the folder, and returns the settings that describe the text."""
        files = {"subword_nmt": self.bpe_codes, "sentencepiece": self.sentencepiece_model}
        bpe = next((name for name, file in files.items() if file), None)
        if bpe is not None:
            target = folder / SUBWORD_FILES[bpe]
            with whole_file(target, f"{target}: cannot be written") as partial:
                shutil.copyfile(str(files[bpe]), partial)
        return {
            "lowercase": self.lowercase,
            "subwords": self.subwords,
            "bpe": bpe,
            "tokenizer": self.tokenizer,
            "normalizer": self.normalizer,
        }


class ModelFolder(NamedTuple):
    """A folder that ``fairseq-attn train`` wrote."""

    path: Path
    settings: Dict[str, Any]

    @property
    def checkpoint(self) -> str:
        return str(self.path / MODEL)

    @property
    def data(self) -> str:
        """The binarised corpus if it is there, otherwise the folder itself, which has the dictionaries."""
        corpus = self.path / str(self.settings.get("data") or "")
        return str(corpus if any(corpus.glob("dict.*.txt")) else self.path)

    @property
    def languages(self) -> Tuple[str, str]:
        source, target = self.settings["languages"]
        return source, target

    def test_file(self, name: str) -> Path:
        """A file of the test set: ``source``, ``reference`` or ``translation``.

        Raises:
            OptionError: the folder has none
        """
        source, target = self.languages
        names = {"source": f"test.{source}", "reference": f"test.{target}", "translation": f"test.hyp.{target}"}
        file = self.path / names[name]
        if not file.is_file():
            raise OptionError(f"{self.path}: has no test set ({names[name]}); name the files instead of the folder")
        return file

    @property
    def bleu_tokenizer(self) -> str:
        """sacrebleu's tokeniser, with which ``fairseq-attn train`` scored the test set."""
        signature = self.settings.get("scores", {}).get("bleu", {}).get("signature", "")
        found = re.search(r"tok:([^|]+)", signature)
        return found.group(1) if found else "13a"

    def detokenizer(self) -> Callable[[str], str]:
        """What joins the words of a translation to text, as ``fairseq-attn train`` does before it scores them."""
        if self.settings["tokenizer"] is None:
            return str
        from sacremoses import MosesDetokenizer

        moses = MosesDetokenizer(lang=self.languages[1])
        return lambda line: str(moses.detokenize(line.split(), unescape=True))

    def text_options(self) -> Dict[str, Any]:
        """Values of the options that prepare text; those of :func:`.analysis.inference.segmenter.add_text_options`."""
        tokenizer, bpe = self.settings["tokenizer"], self.settings["bpe"]
        file = None if bpe is None else str(self.path / SUBWORD_FILES[bpe])
        return {
            "bpe_codes": file if bpe == "subword_nmt" else None,
            "sentencepiece_model": file if bpe == "sentencepiece" else None,
            "tokenizer": None if tokenizer is None else "moses",
            "moses_no_dash_splits": tokenizer is not None and not tokenizer["dash_splits"],
            "moses_no_escape": tokenizer is not None and not tokenizer["escape"],
            "normalizer": self.settings["normalizer"],
            # auto: the other language may have capital letters
            "case": "auto" if self.settings["lowercase"] else "keep",
        }


def read_settings(folder: Any) -> Dict[str, Any]:
    """The object in ``settings.json`` of a folder; empty if there is none or it is damaged."""
    return read_json(Path(folder) / SETTINGS)


def write_model_folder(folder: Path, checkpoint: Path, dictionaries: Path, text: Text, content: Dict[str, Any]) -> None:
    """Writes a model folder; ``settings.json`` comes last.

    Args:
        folder: exists already
        checkpoint: its state of the optimizer is left out
        dictionaries: folder of ``dict.SRC.txt`` and ``dict.TGT.txt``
        text: how lines become tokens
        content: further settings; ``languages`` is needed, ``data``, the binarised corpus, is relative to the
            folder

    Raises:
        OptionError: a file cannot be written
    """
    import torch
    from fairseq import checkpoint_utils

    from .checkpoints import plain_config

    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    config = plain_config(state["cfg"])
    config["task"].update(zip(("source_lang", "target_lang"), content["languages"]))
    state.update(cfg=config, last_optimizer_state=None)
    with whole_file(folder / MODEL, f"{folder / MODEL}: cannot be written") as partial, open(partial, "wb") as stream:
        torch.save(state, stream)
    for name in [f"dict.{language}.txt" for language in content["languages"]]:
        with whole_file(folder / name, f"{folder / name}: cannot be written") as partial:
            shutil.copyfile(dictionaries / name, partial)
    write_json("--out", folder / SETTINGS, {"format": FORMAT, **content, **text.save(folder)})


def open_model_folder(path: Any) -> Optional[ModelFolder]:
    """The model folder of that name; None for anything else, such as a checkpoint or a folder of data.

    Raises:
        OptionError: the folder is damaged, or its training has not ended
    """
    folder = Path(path)
    settings = read_settings(folder)
    if settings.get("format") != FORMAT:
        if is_training(folder) and not settings:
            raise OptionError(f"{path}: its training has not ended; run the same fairseq-attn train again")
        return None
    languages, bpe, tokenizer = map(settings.get, ("languages", "bpe", "tokenizer"))
    right = not NEEDED - set(settings) and bpe in (None, *SUBWORD_FILES)
    right = right and (tokenizer is None or isinstance(tokenizer, dict) and {*tokenizer} >= {"dash_splits", "escape"})
    if not right or not isinstance(languages, list) or [*map(type, languages)] != [str, str]:
        raise OptionError(f"{folder / SETTINGS}: is damaged; copy it again, or train again")
    files = [MODEL, *(f"dict.{language}.txt" for language in languages)]
    for name in [*files, *([SUBWORD_FILES[bpe]] if bpe else [])]:
        if not (folder / name).is_file():
            raise OptionError(f"{path}: has no {name}; copy the whole folder, or run fairseq-attn train again")
    return ModelFolder(folder, settings)


def is_training(folder: Path) -> bool:
    """Whether ``fairseq-attn train`` has begun to write this folder."""
    # unlike the methods of Path, os.path takes names of any length, such as a sentence in the place of a folder
    return os.path.isfile(folder / "training" / "lock")


def expand(args: argparse.Namespace) -> None:
    """Replaces a model folder among the arguments of a subcommand by the files in it, and sets the options of text.

    ``data`` may name a folder, and then ``--path`` is not needed; so may ``--path`` and ``checkpoint``. An option that
    the user has set stays; ``of_folder`` has the names of the others, for :func:`.options.check_unread`.

    Raises:
        OptionError: the folder is damaged
    """
    folders: List[ModelFolder] = []
    args.of_folder = []
    for name in ("data", "path", "checkpoint"):
        value = getattr(args, name, None)
        found = open_model_folder(value) if isinstance(value, str) and os.path.isdir(value) else None
        if found is None:
            continue
        folders.append(found)
        setattr(args, name, found.data if name == "data" else found.checkpoint)
        if name == "data" and getattr(args, "takes_model", False) and args.path is None:
            args.path = found.checkpoint
        if name == "checkpoint" and getattr(args, "data", "") is None:
            args.data = found.data
            args.of_folder.append("data")
    for name, value in folders[-1].text_options().items() if folders else ():
        if getattr(args, name, value) in (None, False, "auto"):
            setattr(args, name, value)
            args.of_folder.append(name)
