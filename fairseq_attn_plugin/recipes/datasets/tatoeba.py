"""Tatoeba sentence pairs of manythings.org/anki (CC BY 2.0): English with another language, as Spanish (119K pairs)."""

import re
from typing import NamedTuple

from fairseq_attn_plugin.corpora.pair_splits import split_pairs

from ..errors import OptionError
from ..settings import Variables
from ..training import OptionGroups
from ..translation.reading import CorpusReader, Treatment
from ..translation.recipe import Corpus
from ..translation.run import TranslationRecipe

URL = "https://www.manythings.org/anki"


class Pair(NamedTuple):
    """A file of sentence pairs: the other language, name, number of pairs, and lower bound on the archive's bytes."""

    language: str
    file: str
    pairs: int
    least: int


PAIRS = {"spa-eng": Pair("es", "spa.txt", 100000, 2000000), "vie-eng": Pair("vi", "vie.txt", 7000, 200000)}


def pair_of(variables: Variables) -> Pair:
    """The file of PAIR: one of ``PAIRS``, or another, whose language SRC or TGT names; FILE renames it.

    Raises:
        OptionError: PAIR is no pair with English, or its language is not given
    """
    name, file = variables.text("PAIR"), variables.text("FILE")
    if name in PAIRS:
        return PAIRS[name]._replace(file=file or PAIRS[name].file)
    if not re.fullmatch("[a-z]{3}-eng", name):
        raise OptionError(f"PAIR={name} is unknown: expected a name of {URL}, as in spa-eng or deu-eng")
    given = [variables.text(side) for side in ("SRC", "TGT")]
    others = [language for language in given if language not in ("", "en")]
    if len(others) != 1:
        raise OptionError(f"PAIR={name}: expected SRC and TGT, English (en) and the language, as in SRC=de TGT=en")
    return Pair(others[0], file or f"{name[:3]}.txt", 1, 1000)


def read_pairs(
    reader: CorpusReader, name: str, pair: Pair, url: str, treatment: Treatment, equal_words: bool = False
) -> None:
    """Downloads ``NAME.zip``, splits it and reads the splits."""
    _, file, pairs, least = pair
    if reader.downloads:
        reader.fetch(f"{url}/{name}.zip", f"{name}.zip", least)
        reader.unpack(f"{name}.zip", [file])
    choice = ", pairs of equally many words" if equal_words else ""
    reader.shell.step(
        f"split {reader.corpus / file} into {reader.partial}/{{train,valid,test}}{choice}",
        *(split_pairs, reader.corpus, file, reader.languages, reader.partial),
        at_least=pairs,
        strict=reader.downloads,
        equal_words=equal_words,
    )
    first, second = reader.languages
    for split in ("train", "valid", "test"):
        reader.read_split(split, (f"{split}.{first}", f"{split}.{second}"), 1, treatment, folder=reader.partial)


def corpus(variables: Variables) -> Corpus:
    name, pair = variables.text("PAIR"), pair_of(variables)
    variables.direction("en", pair.language)
    treatment = Treatment(tokenize=True, raw=True)
    return Corpus(
        name="tatoeba",
        languages=("en", pair.language),
        at_home=f"{pair.file} (or {pair.file}.gz)",
        folder=f"tatoeba-{name}",
        read=lambda reader: read_pairs(reader, name, pair, variables.text("CORPUS_URL"), treatment),
        stamp=f"pair {name}",
        training=OptionGroups(
            # 1e-3 and batches of 2,000 tokens are too slow (docs/results/tatoeba.md)
            optimizer="--optimizer adam --lr 3e-3".split(),
            schedule="--lr-scheduler fixed --force-anneal 9 --lr-shrink 0.5".split(),
            criterion="--criterion label_smoothed_cross_entropy --label-smoothing 0.1".split(),
            # the multiple: batches are as full as the limit allows, not rounded down to a multiple of 8
            batch="--max-tokens 1000 --required-batch-size-multiple 1".split(),
            other="--dropout 0.2 --clip-norm 5 --max-epoch 12".split(),
        ),
        generate="--max-len-a 1.5 --max-len-b 20".split(),
    )


RECIPE = TranslationRecipe("tatoeba", {"PAIR": "spa-eng", "FILE": "", "CORPUS_URL": URL}, corpus)
