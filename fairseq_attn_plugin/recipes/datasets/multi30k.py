"""Multi30k: German-English captions of images, 29,000 / 1,014 / 1,000 (test_2016_flickr). For research use."""

from ..settings import Variables
from ..training import OptionGroups
from ..translation.reading import CorpusReader, Treatment
from ..translation.recipe import Corpus
from ..translation.run import TranslationRecipe

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
# name in the corpus, pairs, least bytes of a download
SPLITS = {"train": ("train", 29000, 300000), "valid": ("val", 1014, 10000), "test": ("test_2016_flickr", 1000, 10000)}


def read(reader: CorpusReader, url: str) -> None:
    if reader.downloads:
        for language in reader.languages:
            for name, _, least in SPLITS.values():
                reader.fetch(f"{url}/{name}.{language}.gz", f"{name}.{language}.gz", least)
    for split, (name, pairs, _) in SPLITS.items():
        is_train = split == "train"
        treatment = Treatment(tokenize=True, lowercase=True, drop_empty=is_train, raw=not is_train)
        files, tokenized = (f"{name}.de", f"{name}.en"), (f"{name}.tok.de", f"{name}.tok.en")
        reader.read_split(split, files, pairs, treatment, tokenized)


def corpus(variables: Variables) -> Corpus:
    # the dropout of the paper, which is the default of these two architectures
    dropout = "0.3" if variables.text("ARCH") in ("lstm_structured", "lstm_sigmoid") else "0.2"
    return Corpus(
        name="multi30k",
        languages=("de", "en"),
        at_home="train, val and test_2016_flickr, each as .de.gz and .en.gz (or unzipped)",
        read=lambda reader: read(reader, variables.text("CORPUS_URL")),
        training=OptionGroups(
            # the density-matrix paper's rate, 1e-3, is too low here, ten epochs are too few (docs/results/multi30k.md)
            optimizer="--optimizer adam --lr 3e-3".split(),
            schedule="--lr-scheduler fixed --force-anneal 10 --lr-shrink 0.5".split(),
            criterion="--criterion label_smoothed_cross_entropy --label-smoothing 0.1".split(),
            batch="--max-tokens 1000".split(),
            other=["--dropout", dropout, "--clip-norm", "5", "--max-epoch", "15"],
        ),
        lowercase=True,
        epoch_updates=517,
    )


RECIPE = TranslationRecipe("multi30k", {"SRC": "de", "TGT": "en", "CORPUS_URL": URL}, corpus)
