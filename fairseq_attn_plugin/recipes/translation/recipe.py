"""The description of a recipe of translation, and the settings of its corpus."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple

from ..commands import Shell
from ..data_folder import DataFolder
from ..errors import OptionError
from ..settings import COMMON, CommonSettings, Variables, read_common
from ..training import OptionGroups
from .reading import CorpusReader

__all__ = [
    "DEFAULTS",
    "Corpus",
    "CorpusSettings",
    "Experiment",
    "density_matrix_model",
    "read_corpus_settings",
    "tutorial_schedule",
]

# defaults of the variables of every recipe of translation
DEFAULTS: Dict[str, str] = {
    **COMMON,
    "SRC": "",
    "TGT": "",
    "BPE": "subword-nmt",
    "BPE_SIZE": "8000",
    "CUT": "0",
    "LONGEST": "0",
    "GENERATE_OPTIONS": "",
    "CORPUS_URL": "",
}


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus, and the options of its training.

    Attributes:
        name: of the recipe
        languages: of the two sides of the files
        at_home: content of a folder DATA, for messages
        read: reads the three splits
        training: options of fairseq-train
        preprocess: options of fairseq-preprocess
        generate: options of fairseq-generate
        lowercase: whether scores ignore case
        folder: default of OUT below ``out/``
        tag: distinguishes the corpora of one recipe in the name of the folder
        stamp: settings of the preparation that only this recipe has
        epoch_updates: approximate number of updates of an epoch
        topk: more options of fairseq-generate with TOPK, for models that feed a context
    """

    name: str
    languages: Tuple[str, str]
    at_home: str
    read: Callable[[CorpusReader], None]
    training: OptionGroups
    preprocess: Sequence[str] = ()
    generate: Sequence[str] = ()
    lowercase: bool = False
    folder: str = ""
    tag: str = ""
    stamp: str = ""
    epoch_updates: int = 1000
    topk: Sequence[str] = ()


@dataclass(frozen=True)
class CorpusSettings(CommonSettings):
    """Settings of preparing, translating and scoring.

    Attributes:
        source, target: languages
        bpe: subword-nmt, sentencepiece or none
        bpe_size: merges, or pieces; 0: as many as fit the corpus
        cut: largest number of tokens of a training sentence, longer ones are cut; 0: no limit
        longest: training pairs with more tokens on a side are dropped; 0: no limit
        generate_options: more options of fairseq-generate
        known_subwords: split subwords that train does not have into smaller ones (subword-nmt)
    """

    source: str
    target: str
    bpe: str
    bpe_size: int
    cut: int
    longest: int
    generate_options: Sequence[str] = field(default=())
    known_subwords: bool = False

    @property
    def bpe_tag(self) -> str:
        return self.bpe if self.bpe == "none" else f"{self.bpe}{self.bpe_size}"


def read_corpus_settings(variables: Variables, corpus: Corpus) -> CorpusSettings:
    """The settings of the corpus.

    Raises:
        OptionError: a variable has a wrong value
    """
    source, target = variables.text("SRC"), variables.text("TGT")
    for name, language in (("SRC", source), ("TGT", target)):
        if language not in corpus.languages:
            languages = ", ".join(corpus.languages)
            raise OptionError(f"{name}={language} is not a language of this corpus: expected one of {languages}")
    if source == target:
        (other,) = set(corpus.languages) - {source}
        raise OptionError(f"SRC and TGT are both '{source}': with SRC={source}, TGT must be {other}")
    return CorpusSettings(
        **vars(read_common(variables, corpus.folder or corpus.name, corpus.at_home)),
        source=source,
        target=target,
        bpe=variables.choice("BPE", ("subword-nmt", "sentencepiece", "none")),
        bpe_size=variables.number("BPE_SIZE"),
        cut=variables.number("CUT", meaning=" (0: no sentence is cut)"),
        longest=variables.number("LONGEST", meaning=" (0: no pair is dropped)"),
        generate_options=variables.words("GENERATE_OPTIONS"),
    )


@dataclass(frozen=True)
class Experiment:
    """A corpus with its settings, shared by all stages.

    Attributes:
        corpus: the description
        settings: of the user
        shell: runs the commands
    """

    corpus: Corpus
    settings: CorpusSettings
    shell: Shell

    @property
    def work(self) -> Path:
        settings = self.settings
        tag = f"{self.corpus.tag}." if self.corpus.tag else ""
        return settings.out / f"{settings.source}-{settings.target}.{tag}{settings.bpe_tag}"

    @property
    def data(self) -> DataFolder:
        return DataFolder(self.work, self.shell, self.settings)

    @property
    def data_bin(self) -> Path:
        return self.work / "data" / "bin"

    @property
    def dictionaries(self) -> List[str]:
        return [f"dict.{self.settings.source}.txt", f"dict.{self.settings.target}.txt"]

    @property
    def language_options(self) -> List[str]:
        return ["--source-lang", self.settings.source, "--target-lang", self.settings.target]


def tutorial_schedule(rate: float, updates: int) -> List[str]:
    """Options for the halving of the TensorFlow seq2seq tutorial ("luong234").

    The rate is constant for two thirds of the updates. The rest has four equal parts, and the rate is halved at the
    ends of the first three.
    """
    start = updates * 2 // 3
    part = (updates - start) // 4
    steps = [(1, rate), *((start + part * n, rate / 2**n) for n in (1, 2, 3))]
    rates = ",".join('"%d":%g' % step for step in steps)
    return ["--lr-scheduler", "manual", "--update2lr", "{" + rates + "}"]


def density_matrix_model(variables: Variables) -> List[str]:
    """Options of the models of the attention-density-matrix paper that its architectures do not set.

    Words are predicted from softmax(W [s; c] + b), and the decoder always starts from the encoder's states. The gain of
    the score ``general`` and the bias of forget gates are those of the TensorFlow seq2seq tutorial, whose settings the
    paper takes over. Stock fairseq's ``lstm`` has no such options.
    """
    arch = variables.text("ARCH")
    general = arch in ("lstm_soft", "lstm_adm", "lstm_structured") and not variables.text("ATTENTION")
    gain = ["--attention-score-gain"] if general else []
    if arch == "lstm":
        return []
    return ["--output-layer", "linear", "--decoder-init-dropout", "0", "--forget-bias", "1", *gain]
