"""Generates a small parallel corpus in two invented languages, with gold word alignments, from a seed.

    python -m fairseq_attn_plugin.toy_corpus --out corpus [--seed 1] [--train 6000] [--valid 300] [--test 300]

writes ``{train,valid,test}.{vr,dm,align}``: Velarin and Dormeth, one tokenised sentence in each line, and the links
between their words in Pharaoh format (``i-j``: source word i, target word j, counted from 0; all links are sure).

=====================  ==============================  ======================================
construction           Velarin (source)                Dormeth (target)
=====================  ==============================  ======================================
clause                 S V O PP time                   time S PP O V
question               V S O ?                         S O V wek ?  (wek is not aligned)
noun phrase            article adjective noun          noun adjective (articles are dropped)
agreement              number only                     gender and number; verb with subject
adposition             before the noun phrase          after it
object                 unmarked                        animates take ad (not aligned)
compound noun          one word                        two words
past tense             one word                        participle + auxiliary
future tense           auxiliary + verb                one word
particle verb          verb ... particle               one word
possessive             before the noun                 ending of the noun
pronoun subject        a word                          dropped, left to the verb's ending
relative clause        noun dar verb                   verb-ind noun
because                A , kara B                      B sint , A
name                   Kašavi                          Cashawi
=====================  ==============================  ======================================

Every sentence has exactly one translation, so a perfect model reaches 100 BLEU. A model that copies words, or
translates from left to right, scores low.
"""

import random
from pathlib import Path

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.toy_corpus.grammar import Grammar, SentencePair
from fairseq_attn_plugin.toy_corpus.word_forms import Lexicon
from fairseq_attn_plugin.writing import make_folder, whole_text

SOURCE, TARGET = "vr", "dm"
SPLITS = {"train": 6000, "valid": 300, "test": 300}
LONGEST = 18  # words of a source sentence


def generate(seed: int = 1, sizes: dict[str, int] | None = None) -> dict[str, list[SentencePair]]:
    """Sentence pairs for every split; no source sentence occurs twice.

    Args:
        seed: of the words and the sentences
        sizes: number of sentences of each split (default: ``SPLITS``)

    Raises:
        OptionError: a size is not positive
    """
    sizes = dict(SPLITS if sizes is None else sizes)
    for split, size in sizes.items():
        if size <= 0:
            raise OptionError(f"--{split} {size}: must be at least 1")
    # separate random streams: the number and length of sentences must not change the words of the languages
    grammar = Grammar(Lexicon(random.Random(f"lexicon {seed}")), random.Random(f"sentences {seed}"))
    seen: set[tuple[str, ...]] = set()
    corpus: dict[str, list[SentencePair]] = {}
    for split, size in sizes.items():
        pairs: list[SentencePair] = []
        while len(pairs) < size:
            pair = grammar.sentence()
            if len(pair.source) <= LONGEST and pair.source not in seen:
                seen.add(pair.source)
                pairs.append(pair)
        corpus[split] = pairs
    return corpus


def write(corpus: dict[str, list[SentencePair]], folder: Path) -> None:
    """Writes ``{split}.{vr,dm,align}`` into ``folder``, which is created."""
    make_folder("--out", folder)
    for split, pairs in corpus.items():
        lines = {
            SOURCE: [" ".join(pair.source) for pair in pairs],
            TARGET: [" ".join(pair.target) for pair in pairs],
            "align": [" ".join(f"{i}-{j}" for i, j in pair.links) for pair in pairs],
        }
        for suffix, text in lines.items():
            path = folder / f"{split}.{suffix}"
            with whole_text(path, f"{path}: cannot be written") as stream:
                stream.write("\n".join(text) + "\n")
