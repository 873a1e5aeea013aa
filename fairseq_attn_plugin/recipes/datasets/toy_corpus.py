"""The synthetic corpus of the package: two invented languages, with gold alignments, from a seed."""

from pathlib import Path
from typing import Dict

from fairseq_attn_plugin.corpora.files import find, read_lines, write_lines

from ...toy_corpus import generate, write
from ..errors import CorpusError
from ..settings import Variables
from ..training import OptionGroups
from ..translation.reading import CorpusReader, Treatment
from ..translation.recipe import Corpus
from ..translation.run import TranslationRecipe

LANGUAGES = ("vr", "dm")


def read(reader: CorpusReader, seed: int, sizes: Dict[str, int], swapped: bool) -> None:
    folder = reader.corpus
    if reader.downloads:
        folder = reader.partial / "generated"
        reader.shell.step(f"generate the corpus of seed {seed} in {folder}", make, seed, sizes, folder)
    for split, size in sizes.items():
        reader.read_split(split, (f"{split}.vr", f"{split}.dm"), size, Treatment(), folder=folder)
        gold = reader.text / f"{split}.align"
        reader.shell.step(f"links of {split} into {gold}", copy_links, folder, split, gold, swapped)


def make(seed: int, sizes: Dict[str, int], folder: Path) -> None:
    write(generate(seed, sizes), folder)


def copy_links(folder: Path, split: str, to: Path, swapped: bool) -> None:
    """Writes the gold links, with source and target exchanged for the direction dm-vr."""
    path = find(folder, f"{split}.align")
    if path is None:
        raise CorpusError(f"{folder} has no {split}.align: expected a folder of fairseq_attn_plugin.toy_corpus")
    lines = read_lines(path)
    if swapped:
        lines = [" ".join("-".join(reversed(link.split("-"))) for link in line.split()) for line in lines]
    write_lines(to, lines)


def corpus(variables: Variables) -> Corpus:
    variables.direction(*LANGUAGES)
    seed = variables.number("CORPUS_SEED")
    sizes = {split: variables.number(split.upper(), least=1) for split in ("train", "valid", "test")}
    swapped = variables.text("SRC") == LANGUAGES[1]
    return Corpus(
        name="toy_corpus",
        languages=LANGUAGES,
        at_home="train, valid and test, each as .vr, .dm and .align, of python -m fairseq_attn_plugin.toy_corpus",
        read=lambda reader: read(reader, seed, sizes, swapped),
        stamp=f"seed {seed} sizes {' '.join(map(str, sizes.values()))}",
        training=OptionGroups(
            optimizer="--optimizer adam --lr 1e-3".split(),
            schedule="--lr-scheduler fixed --force-anneal 11 --lr-shrink 0.7".split(),
            criterion="--criterion label_smoothed_cross_entropy --label-smoothing 0.1".split(),
            batch="--max-tokens 600 --required-batch-size-multiple 1".split(),
            other="--dropout 0.2 --clip-norm 5 --max-epoch 18".split(),
        ),
        epoch_updates=100,
    )


RECIPE = TranslationRecipe(
    "toy_corpus",
    {"BPE_SIZE": "1500", "CORPUS_SEED": "1", "TRAIN": "6000", "VALID": "300", "TEST": "300"},
    corpus,
)
