"""A corpus of sentences that are translated by spelling them backwards."""

import random
from pathlib import Path
from typing import Sequence

WORDS = ["ama", "bel", "cor", "dun", "esk", "fim", "gol", "hus", "ilo", "jat"]


def write_reversal(
    folder: Path, split: str, lines: int, seed: int, longest: int = 7, words: Sequence[str] = WORDS
) -> None:
    """Lines of 2 to 7 words; the target is the whole line spelt backwards."""
    rng = random.Random(seed)
    sentences = [[rng.choice(words) for _ in range(rng.randint(2, longest))] for _ in range(lines)]
    (folder / (split + ".xx")).write_text("".join(" ".join(s) + "\n" for s in sentences))
    (folder / (split + ".yy")).write_text("".join(" ".join(w[::-1] for w in reversed(s)) + "\n" for s in sentences))


def binarise(text: Path, destdir: Path) -> None:
    """``fairseq-preprocess`` on the splits train, valid and test of xx and yy, in this process."""
    from fairseq import options
    from fairseq_cli import preprocess

    command = ["--source-lang", "xx", "--target-lang", "yy", "--destdir", str(destdir)]
    for split, option in [("train", "--trainpref"), ("valid", "--validpref"), ("test", "--testpref")]:
        command += [option, str(text / split)]
    preprocess.main(options.get_preprocessing_parser().parse_args(command))
