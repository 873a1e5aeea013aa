"""WMT'16 English-Romanian: Europarl v7 (399K pairs), newsdev2016 to tune, newstest2016 to test (1,999 each).

The options are those of the attention-density-matrix paper and of the TensorFlow seq2seq tutorial.
"""

from ..settings import Variables
from ..training import OptionGroups
from ..translation.reading import CorpusReader, Treatment
from ..translation.recipe import Corpus, density_matrix_model, tutorial_schedule
from ..translation.run import TranslationRecipe

EUROPARL_URL = "https://www.statmt.org/europarl/v7"
NEWS_URL = "https://data.statmt.org/wmt16/translation-task"
SETIMES_URL = "https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses"
CORPORA = ("europarl", "europarl setimes")


def fetch(reader: CorpusReader, variables: Variables, with_setimes: bool) -> None:
    reader.fetch(f"{variables.text('CORPUS_URL')}/ro-en.tgz", "ro-en.tgz", 40000000)
    reader.unpack("ro-en.tgz", ["europarl-v7.ro-en.ro", "europarl-v7.ro-en.en"])
    for archive, name in (("dev", "newsdev2016"), ("test", "newstest2016")):
        reader.fetch(f"{variables.text('NEWS_URL')}/{archive}.tgz", f"{archive}.tgz", 1000000)
        reader.unpack(f"{archive}.tgz", [f"{archive}/{name}-roen-src.ro.sgm", f"{archive}/{name}-roen-ref.en.sgm"])
    if with_setimes:
        reader.fetch(f"{variables.text('SETIMES_URL')}/en-ro.txt.zip", "en-ro.txt.zip", 10000000)
        reader.unpack("en-ro.txt.zip", ["SETIMES.en-ro.ro", "SETIMES.en-ro.en"])


def append_setimes(reader: CorpusReader) -> None:
    for language in reader.languages:
        with open(reader.text / f"train.{language}", "ab") as train:
            train.write((reader.text / f"setimes.{language}").read_bytes())


def read(reader: CorpusReader, variables: Variables) -> None:
    with_setimes = variables.text("CORPORA") != "europarl"
    if reader.downloads:
        fetch(reader, variables, with_setimes)
    train = Treatment(tokenize=True, drop_empty=True)
    reader.read_split("train", ("europarl-v7.ro-en.ro", "europarl-v7.ro-en.en"), 399000, train)
    if with_setimes:
        reader.read_split("setimes", ("SETIMES.en-ro.ro", "SETIMES.en-ro.en"), 213000, train)
        reader.shell.step(f"append {reader.text / 'setimes'} to {reader.text / 'train'}", append_setimes, reader)
    for split, name in (("valid", "newsdev2016"), ("test", "newstest2016")):
        files = (f"{name}.ro|{name}-roen-src.ro.sgm", f"{name}.en|{name}-roen-ref.en.sgm")
        reader.read_split(split, files, 1999, Treatment(tokenize=True, raw=True))


def corpus(variables: Variables) -> Corpus:
    updates = variables.number("UPDATES", least=12)
    variables.choice("CORPORA", CORPORA)
    words = "--nwordssrc 32000 --nwordstgt 32000".split()
    return Corpus(
        name="wmt16_en_ro",
        languages=("ro", "en"),
        at_home="europarl-v7.ro-en.{ro,en}, newsdev2016.{ro,en} and newstest2016.{ro,en} (plain, .gz, or the .sgm "
        "files of WMT)",
        read=lambda reader: read(reader, variables),
        preprocess=words if variables.text("BPE") == "none" else ["--joined-dictionary"],
        stamp=f"corpora {variables.text('CORPORA')}",
        training=OptionGroups(
            optimizer="--optimizer sgd --lr 1.0".split(),
            schedule=tutorial_schedule(1.0, updates),
            criterion="--criterion cross_entropy".split(),
            # the multiple: batches are as full as the limit allows, not rounded down to a multiple of 8
            batch="--batch-size 128 --required-batch-size-multiple 1".split(),
            # an epoch is long: a checkpoint every 1,000 updates bounds the cost of an interruption
            other=[
                *("--sentence-avg", "--dropout", "0.2", "--clip-norm", "5", "--max-update", str(updates)),
                *("--save-interval-updates", "1000", "--keep-interval-updates", "1"),
                *density_matrix_model(variables),
            ],
        ),
        generate="--max-len-a 0 --max-len-b 50".split(),
    )


RECIPE = TranslationRecipe(
    "wmt16_en_ro",
    {
        **{"SRC": "en", "TGT": "ro", "BPE_SIZE": "32000", "CUT": "50", "UPDATES": "12000", "CORPORA": "europarl"},
        **{"CORPUS_URL": EUROPARL_URL, "NEWS_URL": NEWS_URL, "SETIMES_URL": SETIMES_URL},
    },
    corpus,
)
