"""The corpora: where their files are, how many sentences they have, and what their text becomes."""

from __future__ import annotations

import argparse
import functools
import re
import shutil
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.toy_corpus import generate, write

from . import parallel
from .documents import imdb, polarity, write_corpus, yahoo_answers, yelp2013
from .downloads import Download
from .files import CorpusError, find, read_lines, write_lines
from .parallel import AS_IT_IS, Treatment, tokenize
from .tools import run_quietly

__all__ = ["CORPORA", "Corpus", "Job", "language_of"]


class Corpus(NamedTuple):
    """A published corpus.

    Attributes:
        expected: content of a folder ``--data``, for messages
        read: writes the text
        downloads: the files on the servers, or a function that gives them from the options
        languages: of the two sides; none: labelled documents
        options: names of the options that only some corpora have
    """

    expected: str
    read: Callable[[Job], None]
    downloads: Any = ()
    languages: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()


class Job(NamedTuple):
    """A preparation in progress: options, the folder that is read, that of ``text/``, and the languages."""

    expected: str
    args: argparse.Namespace
    folder: Path
    to: Path
    languages: Tuple[str, ...]

    @property
    def text(self) -> Path:
        return self.to / "text"

    def splits(self, treatment: Treatment = AS_IT_IS, folder: Optional[Path] = None, **files: str) -> None:
        """Reads splits, each from the names of two files, into ``text/SPLIT.LANGUAGE``.

        Pairs with an empty side are dropped in training; only valid and test keep their original text.
        """
        for split, names in files.items():
            held_out = split in ("valid", "test")
            one = treatment._replace(drop_empty=split in ("train", "setimes"), raw=treatment.raw and held_out)
            to = self.text / split
            parallel.import_split(
                folder or self.folder, names.split(), self.languages, to, one, self.expected, self.args.jobs
            )


MOSES = Treatment(words=tokenize, raw=True)
LOWER = MOSES._replace(lowercase=True)


def _files(base: str, *checksums: str) -> List[Download]:
    """Downloads, given ``NAME SHA-256`` of each."""
    return [Download(base + name, known) for name, known in map(str.split, checksums)]


# --- IWSLT'14: the archive of WIT3 or tokenised files


def _iwslt14(job: Job) -> None:
    for folder in (job.folder, job.folder / "de-en"):
        if any(True for pattern in ("train.tags.*", "IWSLT14.TED*") for _ in folder.glob(pattern)):
            parallel.extract_talks(folder, job.to)
            lower = LOWER._replace(words=functools.partial(tokenize, normalize=False))
            job.splits(lower, job.to, all="all.de all.en", test="test.de test.en")
            parallel.clean_split(job.text)
            return
    missing = [f"train.{language}.gz" for language in ("de", "en") if not find(job.folder, f"train.{language}")]
    if missing:
        raise CorpusError(
            f"the training part is missing in {job.folder}: no {', '.join(missing)} (or unzipped); expected "
            f"{job.expected}"
        )
    job.splits(train="train.de train.en", valid="valid.de valid.en", test="test.de test.en")


# --- WMT'16 English-Romanian: Europarl v7, with --setimes also SETIMES2

NEWS = "https://data.statmt.org/wmt16/translation-task/"


def _wmt16_downloads(args: argparse.Namespace) -> List[Download]:
    europarl, opus = "https://www.statmt.org/europarl/v7/", "https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/"
    found = [Download(europarl + "ro-en.tgz", "", 40000000, ["europarl-v7.ro-en.ro", "europarl-v7.ro-en.en"])]
    for archive, name in (("dev", "newsdev2016"), ("test", "newstest2016")):
        members = [f"{archive}/{name}-roen-src.ro.sgm", f"{archive}/{name}-roen-ref.en.sgm"]
        found.append(Download(f"{NEWS}{archive}.tgz", "", 1000000, members))
    if args.setimes:
        found.append(Download(opus + "en-ro.txt.zip", "", 10000000, ["SETIMES.en-ro.ro", "SETIMES.en-ro.en"]))
    return found


def _wmt16(job: Job) -> None:
    news = "{0}.en|{0}-roen-ref.en.sgm {0}.ro|{0}-roen-src.ro.sgm"
    job.splits(MOSES, train="europarl-v7.ro-en.en europarl-v7.ro-en.ro")
    job.splits(MOSES, valid=news.format("newsdev2016"), test=news.format("newstest2016"))
    if job.args.setimes:
        job.splits(MOSES, setimes="SETIMES.en-ro.en SETIMES.en-ro.ro")
        for language in job.languages:
            with open(job.text / f"train.{language}", "ab") as stream:
                stream.write((job.text / f"setimes.{language}").read_bytes())


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


def language_of(pair: str, given: str) -> str:
    """The language of a pair beside English: ``given``, unless it is empty.

    Raises:
        OptionError: it is another language than that of the pair, or the pair is none
    """
    if not re.fullmatch("[a-z]{3}-eng", pair):
        raise OptionError(f"--pair {pair}: must be a name of {ANKI}, as in spa-eng or deu-eng")
    known = LANGUAGES.get(pair[:3], pair[:3])
    if given not in ("", known, pair[:3]):
        raise OptionError(f"--language {given}: must be {known}, the language of --pair {pair} beside English")
    return given or known


def _tatoeba_downloads(args: argparse.Namespace) -> List[Download]:
    least = {"spa-eng": 2000000, "vie-eng": 200000}.get(args.pair, 1000)
    return [Download(f"{ANKI}{args.pair}.zip", least=least, members=[f"{args.pair[:3]}.txt"])]


def _tatoeba(job: Job, treatment: Treatment = MOSES, equal_words: bool = False) -> None:
    parallel.split_pairs(job.folder, f"{job.args.pair[:3]}.txt", job.languages, job.to, equal_words)
    for split in ("train", "valid", "test"):
        job.splits(treatment, job.to, **{split: " ".join(f"{split}.{language}" for language in job.languages)})


def _election(job: Job) -> None:
    # one token per word between white space: both sides of a pair have the same number of tokens
    bare = Treatment(lambda lines, language, jobs: list(map(parallel.bare_words, lines)), lowercase=True)
    _tatoeba(job, bare if job.args.equal_words else LOWER, job.args.equal_words)


# --- the synthetic corpus of the package


def _toy(job: Job) -> None:
    folder = job.folder
    if job.args.data is None:
        folder = job.to / "generated"
        write(generate(job.args.seed), folder)
    for split in ("train", "valid", "test"):
        job.splits(AS_IT_IS, folder, **{split: f"{split}.vr {split}.dm"})
        path = find(folder, f"{split}.align")
        if path is None:
            raise CorpusError(f"{split}.align is missing in {folder}: expected {job.expected}")
        links = [line.split() for line in read_lines(path)]
        write_lines(job.text / f"{split}.align", map(" ".join, links))
        turned = (" ".join("-".join(reversed(link.split("-"))) for link in line) for line in links)
        write_lines(job.text / f"{split}.dm-vr.align", turned)


# --- documents


def _yelp(job: Job) -> None:
    archive, done = job.folder / "emnlp-2015-data.7z", job.folder / "unpacked"
    if job.args.data is None and not done.is_file():
        tool = next((tool for tool in ("7z", "7za", "bsdtar") if shutil.which(tool)), None)
        if tool is None:
            raise OptionError(
                f"{archive} needs 7z, 7za or bsdtar: install one, or unpack it and give --data FOLDER with "
                f"{job.expected}"
            )
        seven = ["x", "-y", f"-o{job.folder}", archive]
        options = ["-x", "-f", archive, "-C", job.folder] if tool == "bsdtar" else seven
        run_quietly(job.folder / "unpack.log", tool, *options)
        done.touch()
    write_corpus(yelp2013(job.folder), job.text)


CORPORA = {
    "iwslt14_de_en": Corpus(
        expected="the unpacked archive de-en.tgz, or train, valid and test, each as .de.gz and .en.gz (or unzipped)",
        read=_iwslt14,
        downloads=[
            Download(
                "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
                least=10000000,
                members=["de-en/" + name for name in parallel.talk_files()],
            )
        ],
        languages=("de", "en"),
    ),
    "iwslt15_en_vi": Corpus(  # as preprocessed at Stanford
        expected="train, tst2012 and tst2013, each as .en.gz and .vi.gz (or unzipped)",
        read=lambda job: job.splits(
            train="train.en train.vi", valid="tst2012.en tst2012.vi", test="tst2013.en tst2013.vi"
        ),
        downloads=_files(
            "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi/",
            "train.en c26dfeed74b6bf3752f5ca552f2412456f0de153f7c804df8717931fb3a5c78a",
            "train.vi 707206edf2dc0280273952c7b70544ea8a1363aa69aaeb9d70514b888dc3067d",
            "tst2012.en b8fbcd0d4199d41276421d1f7228298df67dd9e2c5c134c2ee8cdf3ec27801e2",
            "tst2012.vi 01004078b3f36b0c46e81b65fc6851230b3c823405c76d1d82ef3b786b512ff0",
            "tst2013.en 3860ce60bc5b85d96cc2d3d580cf1bc9d62440e939c1b964676d3607c4e8f1df",
            "tst2013.vi 29af16842808da2812b8fd4d47fc05d082ba870e60ab7755090ad04b380994cd",
        ),
        languages=("en", "vi"),
    ),
    "wmt16_en_ro": Corpus(
        expected="europarl-v7.ro-en.{ro,en}, newsdev2016.{ro,en} and newstest2016.{ro,en} (plain, .gz, or .sgm of WMT)",
        read=_wmt16,
        downloads=_wmt16_downloads,
        languages=("en", "ro"),
        options=("setimes",),
    ),
    "multi30k": Corpus(  # task 1
        expected="train, val and test_2016_flickr, each as .de.gz and .en.gz (or unzipped)",
        read=lambda job: job.splits(
            LOWER, train="train.de train.en", valid="val.de val.en", test="test_2016_flickr.de test_2016_flickr.en"
        ),
        downloads=_files(
            "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
            "train.de.gz 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
            "train.en.gz d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            "val.de.gz f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
            "val.en.gz 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            "test_2016_flickr.de.gz 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
            "test_2016_flickr.en.gz 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        ),
        languages=("de", "en"),
    ),
    "tatoeba": Corpus(
        expected="the file of the pair, as spa.txt (or spa.txt.gz)",
        read=_tatoeba,
        downloads=_tatoeba_downloads,
        languages=("en", ""),
        options=("pair", "language"),
    ),
    "tatoeba_election": Corpus(
        expected="spa.txt (or spa.txt.gz)",
        read=_election,
        downloads=_tatoeba_downloads,
        languages=("en", "es"),
        options=("equal_words",),
    ),
    "toy_corpus": Corpus(
        expected="train, valid and test, each as .vr, .dm and .align, of python -m fairseq_attn_plugin.toy_corpus",
        read=_toy,
        languages=("vr", "dm"),
        options=("seed",),
    ),
    "polarity_han": Corpus(
        expected="review_polarity.tar.gz, its txt_sentoken/{neg,pos}/cvNNN_*.txt, or polarity.jsonl (or .gz)",
        read=lambda job: write_corpus(polarity(job.folder, job.args.fold), job.text),
        downloads=[
            Download("https://www.cs.cornell.edu/people/pabo/movie-review-data/review_polarity.tar.gz", least=2000000)
        ],
        options=("fold",),
    ),
    "imdb_han": Corpus(
        expected="aclImdb_v1.tar.gz, its files aclImdb/{train,test}/{neg,pos}/ID_RATING.txt, or train, val and test as "
        ".tsv",
        read=lambda job: write_corpus(imdb(job.folder), job.text),
        downloads=[Download("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz", least=80000000)],
    ),
    "yelp2013_han": Corpus(
        expected="yelp-2013-{train,dev,test}.txt.ss",
        read=_yelp,
        downloads=[Download("http://ir.hit.edu.cn/~dytang/paper/emnlp2015/emnlp-2015-data.7z", least=100000000)],
    ),
    "yahoo_answers_han": Corpus(
        expected="train.csv and test.csv (or .gz)",
        read=lambda job: write_corpus(yahoo_answers(job.folder), job.text),
        downloads=[
            Download(
                "https://s3.amazonaws.com/fast-ai-nlp/yahoo_answers_csv.tgz",
                least=300000000,
                members=["yahoo_answers_csv/train.csv", "yahoo_answers_csv/test.csv"],
            )
        ],
    ),
}
