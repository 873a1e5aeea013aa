"""IWSLT'15 English-Vietnamese, as preprocessed at Stanford: 133K pairs of TED talks, tst2012 and tst2013.

The options are those of the attention-density-matrix paper and of the TensorFlow seq2seq tutorial for this corpus.
"""

from ..settings import Variables
from ..training import OptionGroups
from ..translation.reading import CorpusReader, Treatment
from ..translation.recipe import Corpus, density_matrix_model, tutorial_schedule
from ..translation.run import TranslationRecipe

URL = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi"
# name in the corpus, pairs, least bytes of a download
SPLITS = {"train": ("train", 133000, 10000000), "valid": ("tst2012", 1553, 100000), "test": ("tst2013", 1268, 100000)}
# the word vocabularies of the paper, with the four special symbols of fairseq
SIZES = {"en": "17192", "vi": "7710"}


def read(reader: CorpusReader, url: str) -> None:
    if reader.downloads:
        for language in reader.languages:
            for name, _, least in SPLITS.values():
                reader.fetch(f"{url}/{name}.{language}", f"{name}.{language}", least)
    for split, (name, pairs, _) in SPLITS.items():
        reader.read_split(split, (f"{name}.en", f"{name}.vi"), pairs, Treatment(drop_empty=split == "train"))


def corpus(variables: Variables) -> Corpus:
    updates = variables.number("UPDATES", least=12)
    preprocess = []
    if variables.text("BPE") == "none":
        sizes = [SIZES.get(variables.text(name), "") for name in ("SRC", "TGT")]
        preprocess = ["--nwordssrc", sizes[0], "--nwordstgt", sizes[1], "--padding-factor", "1"]
    return Corpus(
        name="iwslt15_en_vi",
        languages=("en", "vi"),
        at_home="train, tst2012 and tst2013, each as .en.gz and .vi.gz (or unzipped)",
        read=lambda reader: read(reader, variables.text("CORPUS_URL")),
        preprocess=preprocess,
        training=OptionGroups(
            optimizer="--optimizer adam --lr 1e-3".split(),
            schedule=tutorial_schedule(1e-3, updates),
            criterion="--criterion cross_entropy".split(),
            # the multiple: batches are as full as the limit allows, not rounded down to a multiple of 8
            batch="--batch-size 128 --required-batch-size-multiple 1".split(),
            other=[
                *("--sentence-avg", "--dropout", "0.2", "--clip-norm", "5", "--max-update", str(updates)),
                *density_matrix_model(variables),
            ],
        ),
        generate="--max-len-a 0 --max-len-b 50".split(),
    )


RECIPE = TranslationRecipe(
    "iwslt15_en_vi",
    {"SRC": "en", "TGT": "vi", "BPE": "none", "CUT": "50", "UPDATES": "12000", "CORPUS_URL": URL},
    corpus,
)
