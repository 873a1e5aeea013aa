"""The corpora of ``catalogue.toml``, and what their text becomes."""

import argparse
import functools
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

import tomllib

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.toy_corpus import generate, write

from . import parallel
from .documents import imdb, polarity, write_corpus, yahoo_answers, yelp2013
from .downloads import Download
from .files import find, read_lines, write_lines
from .parallel import SPLITS, Treatment, read_sides, tokenize, write_sides

HELD_OUT = ("valid", "test")
TREATMENTS = {
    "none": Treatment(),
    "moses": Treatment(words=tokenize, raw=True),
    "lower": Treatment(words=tokenize, raw=True, lowercase=True),
}


class Corpus(NamedTuple):
    """A published corpus; the file explains the attributes."""

    expected: str
    languages: Sequence[str] = ()
    options: Mapping[str, Any] = {}
    base: str = ""
    downloads: Sequence[Mapping[str, Any]] = ()
    splits: Mapping[str, str] = {}
    treatment: str = "none"
    codes: str = ""

    def files(self, args: argparse.Namespace) -> List[Download]:
        """What is downloaded for these options."""
        found = []
        for one in self.downloads:
            if "option" not in one or getattr(args, one["option"]):
                file, *members = (text.format(**vars(args)) for text in (one["file"], *one.get("members", ())))
                found.append(Download(self.base + file, one.get("known", ""), one.get("least", 1), members))
        return found


_TEXT = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
CORPORA = {name: Corpus(**entry) for name, entry in tomllib.loads(_TEXT).items()}


class Job(NamedTuple):
    """A preparation in progress: the corpus, options, the folder that is read, that of ``text/``, and the languages."""

    corpus: Corpus
    args: argparse.Namespace
    folder: Path
    to: Path
    languages: Sequence[str]

    @property
    def text(self) -> Path:
        return self.to / "text"

    def splits(self, files: Mapping[str, str]) -> None:
        """Reads splits, each from the names of two files, into ``text/SPLIT.LANGUAGE``.

        Tokenised versions of the files, as ``train.tok.de`` of ``train.de``, are read instead if both exist.
        """
        treatment = TREATMENTS[self.corpus.treatment]
        for split, names in files.items():
            plain = names.split()
            tokens = [re.sub(r"\.(\w+)(?=\||$)", r".tok.\1", name) for name in plain]
            has_tokens = treatment.words is not None and all(find(self.folder, name) for name in tokens)
            sides = read_sides(self.folder, tokens if has_tokens else plain, self.corpus.expected)
            raw: Optional[List[List[str]]] = sides
            if has_tokens and split in HELD_OUT:  # a folder with tokenised files alone has no original text
                raw = read_sides(self.folder, plain) if all(find(self.folder, name) for name in plain) else None
                if raw is not None and len(raw[0]) != len(sides[0]):
                    raise OptionError(f"{plain[0]} and {tokens[0]} differ in length")
            self.write(split, sides, treatment._replace(words=None) if has_tokens else treatment, raw)

    def write(
        self, split: str, sides: Sequence[Sequence[str]], treatment: Treatment, raw: Optional[List[List[str]]] = None
    ) -> None:
        """Writes ``text/SPLIT.LANGUAGE``, and ``text/SPLIT.raw.LANGUAGE`` with the original text of valid and test.

        Pairs with an empty side are dropped in training.

        Raises:
            OptionError: the split is empty
        """
        if not sides or not sides[0]:
            raise OptionError(f"{self.folder}: the {split} split is empty")
        if split in HELD_OUT:
            if treatment.raw and raw is not None:
                write_sides(self.text / f"{split}.raw", self.languages, raw)
        else:
            kept = [pair for pair in zip(*sides) if all(pair)]
            if not kept:
                raise OptionError(f"{self.folder}: the {split} split has no pair with words on both sides")
            if len(kept) < len(sides[0]):
                print(f"note: dropped {len(sides[0]) - len(kept)} pairs with an empty side", flush=True)
            sides = list(zip(*kept))
        write_sides(self.text / split, self.languages, treatment.apply(sides, self.languages, self.args.jobs))


def _iwslt14(job: Job) -> None:
    """The archive of WIT3, or tokenised files."""
    for folder in (job.folder, job.folder / "de-en"):
        if any(True for pattern in ("train.tags.*", "IWSLT14.TED*") for _ in folder.glob(pattern)):
            (archive,) = job.corpus.downloads
            talks = parallel.read_talks(folder, [Path(member).name for member in archive["members"]])
            lower = TREATMENTS["lower"]._replace(words=functools.partial(tokenize, normalize=False))
            job.write("test", talks["test"], lower, talks["test"])
            clean = parallel.clean_split(lower.apply(talks["train"], job.languages, job.args.jobs))
            for split, pairs in clean.items():
                write_sides(job.text / split, job.languages, zip(*pairs))
            return
    job.splits(job.corpus.splits)


def _wmt16(job: Job) -> None:
    job.splits(job.corpus.splits)
    if job.args.setimes:
        job.splits({"setimes": "SETIMES.en-ro.en SETIMES.en-ro.ro"})
        for language in job.languages:
            with open(job.text / f"train.{language}", "ab") as stream:
                stream.write((job.text / f"setimes.{language}").read_bytes())


def language_of(pair: str, given: str) -> str:
    """The language of a pair beside English: ``given``, unless it is empty.

    Raises:
        OptionError: it is another language than that of the pair, or the pair is none
    """
    if not re.fullmatch("[a-z]{3}-eng", pair):
        raise OptionError(f"--pair {pair}: must be a name of manythings.org/anki, as in spa-eng or deu-eng")
    known = dict(code.split(":") for code in CORPORA["tatoeba"].codes.split()).get(pair[:3], pair[:3])
    if given not in ("", known, pair[:3]):
        raise OptionError(f"--language {given}: must be {known}, the language of --pair {pair} beside English")
    return given or known


def _tatoeba(job: Job) -> None:
    treatment, equal_words = TREATMENTS[job.corpus.treatment], bool(job.args.equal_words)
    if equal_words:  # one token per word between white space: both sides of a pair have the same number of tokens
        treatment = Treatment(lambda lines, language, jobs: list(map(parallel.bare_words, lines)), lowercase=True)
    pairs = parallel.read_table(job.folder, f"{(job.args.pair or 'spa')[:3]}.txt")
    for split, part in parallel.split_pairs(pairs, equal_words).items():
        sides = [list(side) for side in zip(*part)]
        job.write(split, sides, treatment, sides)


def _toy(job: Job) -> None:
    if job.args.data is None:
        job = job._replace(folder=job.to / "generated")
        write(generate(job.args.seed), job.folder)
    for split in SPLITS:
        job.splits({split: f"{split}.vr {split}.dm"})
        path = find(job.folder, f"{split}.align")
        if path is None:
            raise OptionError(f"{split}.align is missing in {job.folder}: expected {job.corpus.expected}")
        links = [line.split() for line in read_lines(path)]
        write_lines(job.text / f"{split}.align", map(" ".join, links))
        turned = (" ".join("-".join(reversed(link.split("-"))) for link in line) for line in links)
        write_lines(job.text / f"{split}.dm-vr.align", turned)


# of the corpora that are more than files of pairs
READERS: Dict[str, Callable[[Job], None]] = {
    "iwslt14_de_en": _iwslt14,
    "wmt16_en_ro": _wmt16,
    "tatoeba": _tatoeba,
    "tatoeba_election": _tatoeba,
    "toy_corpus": _toy,
    "polarity_han": lambda job: write_corpus(polarity(job.folder, job.args.fold), job.text),
    "imdb_han": lambda job: write_corpus(imdb(job.folder), job.text),
    "yelp2013_han": lambda job: write_corpus(yelp2013(job.folder), job.text),
    "yahoo_answers_han": lambda job: write_corpus(yahoo_answers(job.folder), job.text),
}
