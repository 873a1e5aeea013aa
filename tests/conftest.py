"""Fixtures for all tests: a tiny binarised corpus, and the folder of real corpora where there is one."""

import os
import random
from pathlib import Path

import pytest

from cli import REPO, run_cli

WORDS = ["ama", "bel", "cor", "dun", "esk", "fim", "gol", "hus", "ilo", "jat"]


def write_reversal(folder: Path, split: str, lines: int, seed: int) -> None:
    """Lines of 2 to 7 words; the target is the whole line spelt backwards."""
    rng = random.Random(seed)
    sentences = [[rng.choice(WORDS) for _ in range(rng.randint(2, 7))] for _ in range(lines)]
    (folder / (split + ".xx")).write_text("".join(" ".join(s) + "\n" for s in sentences))
    (folder / (split + ".yy")).write_text("".join(" ".join(w[::-1] for w in reversed(s)) + "\n" for s in sentences))


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that ``fairseq-preprocess`` made (languages xx and yy): 400 / 40 / 40 short sentences.

    The plain text of every split lies beside it, in ``tiny_data.parent / "text"``.
    """
    root = tmp_path_factory.mktemp("tiny")
    text, destdir = root / "text", root / "bin"
    text.mkdir()
    for seed, (split, lines) in enumerate([("train", 400), ("valid", 40), ("test", 40)]):
        write_reversal(text, split, lines, seed)
    command = ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--destdir", destdir]
    for split, option in [("train", "--trainpref"), ("valid", "--validpref"), ("test", "--testpref")]:
        command += [option, text / split]
    run_cli(command)
    return destdir


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real corpora: $FAIRSEQ_ATTN_DATA, else ../shared/data beside the checkout."""
    folder = Path(os.environ.get("FAIRSEQ_ATTN_DATA") or REPO.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("NO REAL DATA: %s is no folder; set FAIRSEQ_ATTN_DATA to the folder of the corpora" % folder)
    return folder
