"""Election attention on English-Spanish pairs of Tatoeba (CC BY 2.0): from the raw file to the table."""

from ..election.run import ElectionRecipe
from ..settings import Variables
from ..training import OptionGroups
from ..translation.reading import Treatment
from ..translation.recipe import Corpus
from .tatoeba import PAIRS, URL, read_pairs

TREATMENTS = {
    # one token per word between white space: both sides of a pair have the same number of tokens
    "equal": Treatment(bare_words=True, lowercase=True),
    "all": Treatment(tokenize=True, lowercase=True, raw=True),
}


def corpus(variables: Variables) -> Corpus:
    pairs = variables.choice("PAIRS", tuple(TREATMENTS))
    variables.direction("en", "es")
    variables.values["BPE"] = variables.text("BPE") or {"equal": "none", "all": "subword-nmt"}[pairs]
    url = variables.text("CORPUS_URL")
    return Corpus(
        name="tatoeba_election",
        languages=("en", "es"),
        at_home="spa.txt (or spa.txt.gz)",
        read=lambda reader: read_pairs(
            reader, "spa-eng", PAIRS["spa-eng"], url, TREATMENTS[pairs], equal_words=pairs == "equal"
        ),
        tag=pairs,
        stamp=f"pairs {pairs}",
        lowercase=True,
        training=OptionGroups(
            # the systems choose optimizer, schedule and other options
            optimizer=(),
            schedule=(),
            criterion="--criterion label_smoothed_cross_entropy --label-smoothing 0.1".split(),
            # the multiple: batches are as full as the limit allows, not rounded down to a multiple of 8
            batch="--max-tokens 2000 --required-batch-size-multiple 1".split(),
            other=(),
        ),
        generate=["--beam", variables.text("BEAM"), "--max-len-a", "1.5", "--max-len-b", "20"],
    )


RECIPE = ElectionRecipe("tatoeba_election", {"PAIRS": "equal", "BPE": "", "CORPUS_URL": URL}, corpus)
