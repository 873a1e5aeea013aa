"""Yelp 2013 as split by Tang, Qin and Liu (2015): 335,018 reviews of one to five stars, 80 / 10 / 10 %.

Sizes and batches are those of Yang et al. 2016, "Hierarchical Attention Networks for Document Classification".
"""

import shutil

from fairseq_attn_plugin.corpora.yelp2013 import write_splits

from ..data_folder import Preparation
from ..documents.recipe import DocumentCorpus
from ..documents.run import DocumentRecipe
from ..errors import OptionError
from ..settings import Variables
from ..stamps import write_stamp
from ..training import OptionGroups

URL = "http://ir.hit.edu.cn/~dytang/paper/emnlp2015"
ARCHIVE = "emnlp-2015-data.7z"


def unpack(preparation: Preparation) -> None:
    """Unpacks the archive of four corpora with 7z, 7za or bsdtar."""
    shell, raw = preparation.shell, preparation.corpus
    done = raw / "unpacked"
    if done.is_file() and not shell.dry_run:
        return
    tools = [tool for tool in ("7z", "7za", "bsdtar") if shutil.which(tool)]
    if not tools and not shell.dry_run:
        raise OptionError(
            f"{raw / ARCHIVE} needs 7z, 7za or bsdtar: install one, or unpack it and pass DATA=folder with "
            f"{preparation.settings.at_home}"
        )
    tool = tools[0] if tools else "7z"
    command = ["-x", "-f", raw / ARCHIVE, "-C", raw] if tool == "bsdtar" else ["x", "-y", f"-o{raw}", raw / ARCHIVE]
    shell.run_quietly(raw / "unpack.log", tool, *command)
    shell.step(f"stamp {done}", write_stamp, done, ARCHIVE)


def read(preparation: Preparation, url: str) -> None:
    if preparation.downloads:
        preparation.fetch(f"{url}/{ARCHIVE}", ARCHIVE, 100000000)
        unpack(preparation)
    text = preparation.partial / "text"
    description = f"write the splits of {preparation.corpus} into {text}"
    preparation.shell.step(description, write_splits, preparation.corpus, text, preparation.downloads)


def corpus(variables: Variables) -> DocumentCorpus:
    return DocumentCorpus(
        name="yelp2013_han",
        title="Yelp 2013",
        at_home="yelp-2013-{train,dev,test}.txt.ss",
        parts=["all"],
        read=lambda preparation, part: read(preparation, variables.text("CORPUS_URL")),
        training=OptionGroups(
            optimizer="--optimizer nag --momentum 0.9 --lr 0.1".split(),
            schedule="--lr-scheduler fixed --force-anneal 8 --lr-shrink 0.5".split(),
            criterion="--criterion document_classification".split(),
            batch="--batch-size 64 --required-batch-size-multiple 1".split(),
            other=(
                "--task document_classification --rnn gru --word-embed-dim 200 --dropout 0.3 --clip-norm 5 "
                "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric"
            ).split(),
        ),
        epochs=dict.fromkeys(("han", "han_flat", "han_mean"), 12),
    )


RECIPE = DocumentRecipe("yelp2013_han", {"THRESHOLD": "6", "CORPUS_URL": URL}, corpus)
