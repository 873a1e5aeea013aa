"""Polarity 2.0 (Pang and Lee 2004): 2,000 film reviews, positive or negative, in ten folds. For research use."""

from typing import List

from fairseq_attn_plugin.corpora.polarity import write_fold

from ..data_folder import Preparation
from ..documents.recipe import DocumentCorpus
from ..documents.run import DocumentRecipe
from ..errors import OptionError
from ..settings import Variables
from ..training import OptionGroups

URL = "https://www.cs.cornell.edu/people/pabo/movie-review-data"


def folds(variables: Variables) -> List[str]:
    chosen = variables.words("FOLDS")
    expected = 'expected some of 0 to 9, as in FOLDS="0 1 2"'
    for fold in chosen:
        if fold not in list("0123456789"):
            raise OptionError(f"FOLDS: {fold} is not a fold: {expected}")
    if not chosen:
        raise OptionError(f"FOLDS is empty: {expected}")
    return [f"fold{fold}" for fold in chosen]


def read(preparation: Preparation, part: str, url: str) -> None:
    if preparation.downloads:
        preparation.fetch(f"{url}/review_polarity.tar.gz", "review_polarity.tar.gz", 2000000)
    fold, text = int(part[len("fold") :]), preparation.partial / "text"
    description = f"write {part} of {preparation.corpus} into {text}"
    preparation.shell.step(description, write_fold, preparation.corpus, fold, text, preparation.downloads)


def corpus(variables: Variables) -> DocumentCorpus:
    return DocumentCorpus(
        name="polarity_han",
        title="Polarity 2.0",
        at_home="review_polarity.tar.gz, its txt_sentoken/{neg,pos}/cvNNN_*.txt, or polarity.jsonl (or .gz)",
        parts=folds(variables),
        read=lambda preparation, part: read(preparation, part, variables.text("CORPUS_URL")),
        training=OptionGroups(
            optimizer="--optimizer adam --lr 1e-3".split(),
            schedule="--lr-scheduler fixed --force-anneal 6 --lr-shrink 0.5".split(),
            criterion="--criterion document_classification".split(),
            batch="--batch-size 16 --required-batch-size-multiple 1".split(),
            other=(
                "--task document_classification --word-embed-dim 100 --dropout 0.5 --clip-norm 5 --num-workers 0 "
                "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric"
            ).split(),
        ),
        # a flat model learns more slowly, in epochs that take a fifth of the time
        epochs={"han": 10, "han_flat": 15, "han_mean": 10},
    )


RECIPE = DocumentRecipe(
    "polarity_han", {"FOLDS": "0 1 2", "MODELS": "han han_flat han_mean", "CORPUS_URL": URL}, corpus
)
