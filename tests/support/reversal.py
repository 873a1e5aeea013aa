"""A corpus of sentences that are translated by spelling them backwards."""

import random
from pathlib import Path
from typing import Any

WORDS = ["ama", "bel", "cor", "dun", "esk", "fim", "gol", "hus", "ilo", "jat"]


def make_corpus(text: Path, binarised: Path, longest: int = 7, words: int = 10, ordered: bool = False) -> None:
    """400, 40 and 40 lines of 2 to 7 of ten words. The target is the whole line spelt backwards, or if ``ordered`` each
    word; ``fairseq-preprocess`` has binarised them, in this process."""
    from fairseq import options
    from fairseq_cli import preprocess

    def write(path: Path, sentences: Any) -> None:
        path.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))

    command = ["--source-lang", "xx", "--target-lang", "yy", "--destdir", str(binarised)]
    for seed, (split, lines) in enumerate([("train", 400), ("valid", 40), ("test", 40)]):
        rng = random.Random(seed)
        sources = [[rng.choice(WORDS[:words]) for _ in range(rng.randint(2, longest))] for _ in range(lines)]
        write(text / f"{split}.xx", sources)
        write(text / f"{split}.yy", ([w[::-1] for w in (s if ordered else reversed(s))] for s in sources))
        command += [f"--{split}pref", str(text / split)]
    preprocess.main(options.get_preprocessing_parser().parse_args(command))
