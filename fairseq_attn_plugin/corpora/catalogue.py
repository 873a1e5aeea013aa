"""The corpora: where their files are, how many sentences they have, and what their text becomes."""

from __future__ import annotations

import argparse
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.toy_corpus import generate, write

from . import imdb, iwslt14, polarity, yahoo_answers, yelp2013
from .downloads import Download
from .errors import CorpusError, OptionError
from .files import find, read_lines, write_lines
from .pair_splits import split_pairs
from .parallel import AS_IT_IS, Treatment, import_split
from .tools import run_quietly

__all__ = ["CORPORA", "Corpus", "Job", "language_of"]


@dataclass(frozen=True)
class Job:
    """A preparation in progress.

    Attributes:
        corpus: its description
        args: options of the command
        folder: that the corpus is read from
        to: folder that is written; the text goes to ``to/text``
        languages: of the two sides, or none
    """

    corpus: Corpus
    args: argparse.Namespace
    folder: Path
    to: Path
    languages: Tuple[str, ...]

    @property
    def strict(self) -> bool:
        """Whether the corpus is downloaded: fewer sentences than published are an error."""
        return self.args.data is None

    @property
    def text(self) -> Path:
        return self.to / "text"

    def split(
        self,
        split: str,
        files: Sequence[str],
        pairs: int,
        treatment: Treatment = AS_IT_IS,
        tokenized: Optional[Sequence[str]] = None,
        folder: Optional[Path] = None,
    ) -> None:
        """Reads a split of so many published pairs into ``text/SPLIT.LANGUAGE``; see :func:`.parallel.import_split`."""
        import_split(
            folder or self.folder,
            files,
            self.languages,
            self.text / split,
            treatment=treatment,
            tokenized=tokenized,
            at_least=pairs,
            strict=self.strict,
            expected=self.corpus.expected,
            jobs=self.args.jobs,
        )


@dataclass(frozen=True)
class Corpus:
    """A published corpus.

    Attributes:
        expected: content of a folder ``--data``, for messages
        read: writes the text
        languages: of the two sides; none: labelled documents
        downloads: the files on the servers, given the options
        options: names of the options that only some corpora have
    """

    expected: str
    read: Callable[[Job], None]
    languages: Tuple[str, ...] = ()
    downloads: Callable[[argparse.Namespace], List[Download]] = lambda args: []
    options: Tuple[str, ...] = ()


# --- Multi30k: captions of images; SHA-256 of the files of task 1

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K_FILES = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}


def _multi30k(job: Job) -> None:
    for split, name, pairs in (("train", "train", 29000), ("valid", "val", 1014), ("test", "test_2016_flickr", 1000)):
        treatment = Treatment(tokenize=True, lowercase=True, drop_empty=split == "train", raw=split != "train")
        job.split(split, (f"{name}.de", f"{name}.en"), pairs, treatment, (f"{name}.tok.de", f"{name}.tok.en"))


# --- IWSLT'15 English-Vietnamese as preprocessed at Stanford: TED talks

IWSLT15 = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi/"
IWSLT15_FILES = {
    "train.en": "c26dfeed74b6bf3752f5ca552f2412456f0de153f7c804df8717931fb3a5c78a",
    "train.vi": "707206edf2dc0280273952c7b70544ea8a1363aa69aaeb9d70514b888dc3067d",
    "tst2012.en": "b8fbcd0d4199d41276421d1f7228298df67dd9e2c5c134c2ee8cdf3ec27801e2",
    "tst2012.vi": "01004078b3f36b0c46e81b65fc6851230b3c823405c76d1d82ef3b786b512ff0",
    "tst2013.en": "3860ce60bc5b85d96cc2d3d580cf1bc9d62440e939c1b964676d3607c4e8f1df",
    "tst2013.vi": "29af16842808da2812b8fd4d47fc05d082ba870e60ab7755090ad04b380994cd",
}


def _iwslt15(job: Job) -> None:
    for split, name, pairs in (("train", "train", 133000), ("valid", "tst2012", 1553), ("test", "tst2013", 1268)):
        job.split(split, (f"{name}.en", f"{name}.vi"), pairs, Treatment(drop_empty=split == "train"))


# --- IWSLT'14 German-English: TED talks, the archive of WIT3 or tokenised files


def _iwslt14(job: Job) -> None:
    for folder in (job.folder, job.folder / "de-en"):
        if iwslt14.holds_archive(folder):
            iwslt14.extract(folder, job.to)
            options = {"tokenize": True, "keep_punctuation": True, "lowercase": True}
            job.split("all", ("all.de", "all.en"), 167000, Treatment(**options), folder=job.to)
            job.split("test", ("test.de", "test.en"), 6750, Treatment(**options, raw=True), folder=job.to)
            iwslt14.split(job.text)
            return
    missing = [f"train.{language}.gz" for language in ("de", "en") if not find(job.folder, f"train.{language}")]
    if missing:
        raise CorpusError(
            f"the training part is missing in {job.folder}: no {', '.join(missing)} (or unzipped); expected "
            f"{job.corpus.expected}"
        )
    job.split("train", ("train.de", "train.en"), 160000, Treatment(drop_empty=True))
    job.split("valid", ("valid.de", "valid.en"), 7282)
    job.split("test", ("test.de", "test.en"), 6750)


# --- WMT'16 English-Romanian: Europarl v7, with --setimes also SETIMES2

EUROPARL = Download("https://www.statmt.org/europarl/v7/ro-en.tgz", least=40000000)
NEWS = "https://data.statmt.org/wmt16/translation-task/"
SETIMES = Download("https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-ro.txt.zip", least=10000000)


def _wmt16_downloads(args: argparse.Namespace) -> List[Download]:
    found = [EUROPARL._replace(members=["europarl-v7.ro-en.ro", "europarl-v7.ro-en.en"])]
    for archive, name in (("dev", "newsdev2016"), ("test", "newstest2016")):
        members = [f"{archive}/{name}-roen-src.ro.sgm", f"{archive}/{name}-roen-ref.en.sgm"]
        found.append(Download(f"{NEWS}{archive}.tgz", least=1000000, members=members))
    if args.setimes:
        found.append(SETIMES._replace(members=["SETIMES.en-ro.ro", "SETIMES.en-ro.en"]))
    return found


def _wmt16(job: Job) -> None:
    train = Treatment(tokenize=True, drop_empty=True)
    job.split("train", ("europarl-v7.ro-en.en", "europarl-v7.ro-en.ro"), 399000, train)
    if job.args.setimes:
        job.split("setimes", ("SETIMES.en-ro.en", "SETIMES.en-ro.ro"), 213000, train)
        for language in job.languages:
            with open(job.text / f"train.{language}", "ab") as stream:
                stream.write((job.text / f"setimes.{language}").read_bytes())
    for split, name in (("valid", "newsdev2016"), ("test", "newstest2016")):
        files = (f"{name}.en|{name}-roen-ref.en.sgm", f"{name}.ro|{name}-roen-src.ro.sgm")
        job.split(split, files, 1999, Treatment(tokenize=True, raw=True))


# --- Tatoeba: pairs of manythings.org/anki, which grow from year to year

ANKI = "https://www.manythings.org/anki/"
# codes of the languages there that have one of two letters
LANGUAGES = dict(
    code.split(":")
    for code in """
    afr:af ara:ar aze:az bel:be ben:bn bos:bs bul:bg cat:ca ces:cs cmn:zh dan:da deu:de ell:el epo:eo est:et
    eus:eu fin:fi fra:fr gle:ga glg:gl heb:he hin:hi hrv:hr hun:hu ido:io ind:id isl:is ita:it jpn:ja kat:ka
    kaz:kk kor:ko lat:la lit:lt lvs:lv mar:mr mkd:mk nld:nl nno:nn nob:nb oci:oc pes:fa pol:pl por:pt ron:ro
    rus:ru slk:sk slv:sl spa:es sqi:sq srp:sr swe:sv swh:sw tam:ta tel:te tgl:tl tha:th tur:tr uig:ug ukr:uk
    urd:ur uzb:uz vie:vi
""".split()
)
LEAST = {"spa": (100000, 2000000), "vie": (7000, 200000)}  # pairs, bytes of the archive


def _code(pair: str) -> str:
    if not re.fullmatch("[a-z]{3}-eng", pair):
        raise OptionError(f"--pair {pair}: must be a name of {ANKI}, as in spa-eng or deu-eng")
    return pair[:3]


def language_of(pair: str, given: str) -> str:
    """The language of a pair beside English: ``given``, unless it is empty.

    Raises:
        OptionError: it is another language than that of the pair
    """
    code = _code(pair)
    known = LANGUAGES.get(code, code)
    if given not in ("", known, code):
        raise OptionError(f"--language {given}: must be {known}, the language of --pair {pair} beside English")
    return given or known


def _tatoeba_downloads(args: argparse.Namespace) -> List[Download]:
    code = _code(args.pair)
    bytes_ = LEAST.get(code, (1, 1000))[1]
    return [Download(f"{ANKI}{args.pair}.zip", least=bytes_, members=[f"{code}.txt"])]


def _tatoeba(job: Job, treatment: Treatment, equal_words: bool = False) -> None:
    code = _code(job.args.pair)
    split_pairs(
        *(job.folder, f"{code}.txt", job.languages, job.to),
        at_least=LEAST.get(code, (1, 0))[0],
        strict=job.strict,
        equal_words=equal_words,
    )
    for split in ("train", "valid", "test"):
        job.split(split, [f"{split}.{language}" for language in job.languages], 1, treatment, folder=job.to)


def _election(job: Job) -> None:
    # one token per word between white space: both sides of a pair have the same number of tokens
    equal = Treatment(bare_words=True, lowercase=True)
    every = Treatment(tokenize=True, lowercase=True, raw=True)
    _tatoeba(job, equal if job.args.equal_words else every, job.args.equal_words)


# --- the synthetic corpus of the package


def _toy(job: Job) -> None:
    folder = job.folder
    if job.strict:
        folder = job.to / "generated"
        write(generate(job.args.seed), folder)
    for split in ("train", "valid", "test"):
        job.split(split, (f"{split}.vr", f"{split}.dm"), 1, folder=folder)
        links = find(folder, f"{split}.align")
        if links is None:
            raise CorpusError(f"{split}.align is missing in {folder}: expected {job.corpus.expected}")
        lines = [line.split() for line in read_lines(links)]
        write_lines(job.text / f"{split}.align", map(" ".join, lines))
        swapped = (" ".join("-".join(reversed(link.split("-"))) for link in line) for line in lines)
        write_lines(job.text / f"{split}.dm-vr.align", swapped)


# --- documents

POLARITY = Download("https://www.cs.cornell.edu/people/pabo/movie-review-data/review_polarity.tar.gz", least=2000000)
IMDB = Download("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz", least=80000000)
YELP = Download("http://ir.hit.edu.cn/~dytang/paper/emnlp2015/emnlp-2015-data.7z", least=100000000)
YAHOO = Download(
    "https://s3.amazonaws.com/fast-ai-nlp/yahoo_answers_csv.tgz",
    least=300000000,
    members=["yahoo_answers_csv/train.csv", "yahoo_answers_csv/test.csv"],
)


def _polarity(job: Job) -> None:
    polarity.write_fold(job.folder, job.args.fold, job.text, job.strict)


def _yelp(job: Job) -> None:
    archive, done = job.folder / YELP.name, job.folder / "unpacked"
    if job.strict and not done.is_file():
        tools = [tool for tool in ("7z", "7za", "bsdtar") if shutil.which(tool)]
        if not tools:
            raise OptionError(
                f"{archive} needs 7z, 7za or bsdtar: install one, or unpack it and give --data FOLDER with "
                f"{job.corpus.expected}"
            )
        seven = ["x", "-y", f"-o{job.folder}", archive]
        command = ["-x", "-f", archive, "-C", job.folder] if tools[0] == "bsdtar" else seven
        run_quietly(job.folder / "unpack.log", tools[0], *command)
        done.touch()
    yelp2013.write_splits(job.folder, job.text, job.strict)


def _files(base: str, known: Dict[str, str]) -> Callable[[argparse.Namespace], List[Download]]:
    return lambda args: [Download(base + name, checksum) for name, checksum in known.items()]


CORPORA = {
    "iwslt14_de_en": Corpus(
        "the unpacked archive de-en.tgz, or train, valid and test, each as .de.gz and .en.gz (or unzipped)",
        _iwslt14,
        ("de", "en"),
        lambda args: [
            Download(
                "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
                least=10000000,
                members=iwslt14.members(),
            )
        ],
    ),
    "iwslt15_en_vi": Corpus(
        "train, tst2012 and tst2013, each as .en.gz and .vi.gz (or unzipped)",
        _iwslt15,
        ("en", "vi"),
        _files(IWSLT15, IWSLT15_FILES),
    ),
    "wmt16_en_ro": Corpus(
        "europarl-v7.ro-en.{ro,en}, newsdev2016.{ro,en} and newstest2016.{ro,en} (plain, .gz, or .sgm of WMT)",
        _wmt16,
        ("en", "ro"),
        _wmt16_downloads,
        ("setimes",),
    ),
    "multi30k": Corpus(
        "train, val and test_2016_flickr, each as .de.gz and .en.gz (or unzipped)",
        _multi30k,
        ("de", "en"),
        _files(MULTI30K, MULTI30K_FILES),
    ),
    "tatoeba": Corpus(
        "the file of the pair, as spa.txt (or spa.txt.gz)",
        lambda job: _tatoeba(job, Treatment(tokenize=True, raw=True)),
        ("en", ""),
        _tatoeba_downloads,
        ("pair", "language"),
    ),
    "tatoeba_election": Corpus(
        "spa.txt (or spa.txt.gz)", _election, ("en", "es"), _tatoeba_downloads, ("equal_words",)
    ),
    "toy_corpus": Corpus(
        "train, valid and test, each as .vr, .dm and .align, of python -m fairseq_attn_plugin.toy_corpus",
        _toy,
        ("vr", "dm"),
        options=("seed",),
    ),
    "polarity_han": Corpus(
        "review_polarity.tar.gz, its txt_sentoken/{neg,pos}/cvNNN_*.txt, or polarity.jsonl (or .gz)",
        _polarity,
        downloads=lambda args: [POLARITY],
        options=("fold",),
    ),
    "imdb_han": Corpus(
        "aclImdb_v1.tar.gz, its files aclImdb/{train,test}/{neg,pos}/ID_RATING.txt, or train, val and test as .tsv",
        lambda job: imdb.write_splits(job.folder, job.text, job.strict),
        downloads=lambda args: [IMDB],
    ),
    "yelp2013_han": Corpus("yelp-2013-{train,dev,test}.txt.ss", _yelp, downloads=lambda args: [YELP]),
    "yahoo_answers_han": Corpus(
        "train.csv and test.csv (or .gz)",
        lambda job: yahoo_answers.write_splits(job.folder, job.text, job.strict),
        downloads=lambda args: [YAHOO],
    ),
}
