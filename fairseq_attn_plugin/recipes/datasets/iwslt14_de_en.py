"""IWSLT'14 German-English for latent alignment models: 160K pairs of TED talks, 7,283 to tune, 6,750 to test.

The options are those of Deng et al. 2018, "Latent Alignment and Variational Attention".
"""

from pathlib import Path

from fairseq_attn_plugin.corpora.files import find
from fairseq_attn_plugin.corpora.iwslt14 import extract, holds_archive, members, split

from ..errors import CorpusError
from ..settings import Variables
from ..training import OptionGroups
from ..translation.reading import CorpusReader, Treatment
from ..translation.recipe import Corpus
from ..translation.run import TranslationRecipe

URL = "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14"  # a copy of the archive of WIT3


def read(reader: CorpusReader, url: str) -> None:
    if reader.downloads:
        reader.fetch(f"{url}/de-en.tgz", "de-en.tgz", 10000000)
        reader.unpack("de-en.tgz", members())
        read_archive(reader, reader.corpus)
        return
    for folder in (reader.corpus, reader.corpus / "de-en"):
        if holds_archive(folder):
            read_archive(reader, folder)
            return
    read_plain_files(reader)


def read_archive(reader: CorpusReader, folder: Path) -> None:
    options = {"tokenize": True, "keep_punctuation": True, "lowercase": True}
    reader.shell.step(f"extract the sentences of {folder} into {reader.partial}", extract, folder, reader.partial)
    reader.read_split("all", ("all.de", "all.en"), 167000, Treatment(**options), folder=reader.partial)
    reader.read_split("test", ("test.de", "test.en"), 6750, Treatment(**options, raw=True), folder=reader.partial)
    reader.shell.step(f"clean {reader.text / 'all'} and split it into train and valid", split, reader.text)


def read_plain_files(reader: CorpusReader) -> None:
    """Reads tokenised and lower-cased files without changes."""
    missing = [f"train.{language}.gz" for language in ("de", "en") if not find(reader.corpus, f"train.{language}")]
    if missing:
        raise CorpusError(
            f"the training part is missing in DATA={reader.corpus}: no {', '.join(missing)} (or unzipped); expected "
            f"{reader.settings.at_home}"
        )
    reader.read_split("train", ("train.de", "train.en"), 160000, Treatment(drop_empty=True))
    reader.read_split("valid", ("valid.de", "valid.en"), 7282)
    reader.read_split("test", ("test.de", "test.en"), 6750)


def corpus(variables: Variables) -> Corpus:
    # a teacher chooses another criterion
    if not variables.text("TEACHER") and variables.text("ARCH").startswith("lstm_latent"):
        variables.values["OBJECTIVE"] = variables.text("OBJECTIVE") or "elbo-enum"
    # the paper's prior has an additive score without bias; a mechanism of the user's choice may have another score
    additive = variables.text("ARCH") in ("lstm_latent", "lstm_latent_first_order") and not variables.text("ATTENTION")
    return Corpus(
        name="iwslt14_de_en",
        languages=("de", "en"),
        at_home="the unpacked archive de-en.tgz, or train, valid and test, each as .de.gz and .en.gz (or unzipped)",
        read=lambda reader: read(reader, variables.text("CORPUS_URL")),
        training=OptionGroups(
            optimizer="--optimizer adam --lr 3e-4".split(),
            schedule="--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5".split(),
            # without smoothing, like the objectives, which replace it
            criterion="--criterion label_smoothed_cross_entropy".split(),
            batch="--batch-size 6 --required-batch-size-multiple 1".split(),
            # an epoch is long: a checkpoint every 10,000 updates bounds the cost of an interruption
            other=(
                "--sentence-avg --dropout 0.3 --clip-norm 5 --max-epoch 30 "
                f"--save-interval-updates 10000 --keep-interval-updates 1{' --attention-score-no-bias' * additive}"
                f"{' --best-checkpoint-metric bound' * bool(variables.text('OBJECTIVE'))}"
            ).split(),
        ),
        # fairseq's own search, which translates with stock models, has neither
        generate=[] if variables.text("ARCH") == "lstm" else "--wu-penalty 1 --eos-norm 3".split(),
        lowercase=True,
        epoch_updates=26700,
        topk=["--latent-topk-feed"],
    )


RECIPE = TranslationRecipe(
    "iwslt14_de_en",
    {"SRC": "de", "TGT": "en", "ARCH": "lstm_latent", "BPE_SIZE": "14000", "LONGEST": "125", "CORPUS_URL": URL},
    corpus,
)
