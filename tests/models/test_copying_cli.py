"""Copying through the real command-line tools: names that are seen a few times, or never."""

import random

import pytest
from in_process import run_tool
from training import SIZES, generate, train

KNOWN = ["ama", "bel", "cor", "dun"]
NAMES = [f"n{i}" for i in range(100)]
NEW = [f"m{i}" for i in range(40)]  # outside both vocabularies


def sentences(count, names, seed):
    """Four words, one of them a name; the translation spells the others backwards, in the same order."""
    draw = random.Random(seed)
    for number in range(count):
        words = [draw.choice(KNOWN) for _ in range(4)]
        words[draw.randrange(4)] = names[number % len(names)]
        yield words, [word[::-1] if word in KNOWN else word for word in words]


def write(prefix, count, names, seed):
    for side, lines in zip(("xx", "yy"), zip(*sentences(count, names, seed))):
        prefix.with_name(f"{prefix.name}.{side}").write_text("".join(" ".join(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def copier(tmp_path_factory):
    """A model that copies, trained on sentences each name of which occurs four times, and the data."""
    folder = tmp_path_factory.mktemp("copying")
    for split, count, names in (("train", 400, NAMES), ("valid", 100, NAMES), ("new", 40, NEW)):
        write(folder / split, count, names, seed=count)
    command = ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--dataset-impl", "raw"]
    command += ["--trainpref", folder / "train", "--validpref", folder / "valid", "--testpref", folder / "new"]
    run_tool(*command, "--destdir", folder / "bin")
    options = ["--dataset-impl", "raw", "--arch", "lstm_soft", *SIZES, "--copy-attention", "--embed-init-range", 1]
    options += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.01, "--disable-validation"]
    train(folder / "bin", folder, *options, "--batch-size", 40, updates=100)
    return folder


def right(folder, split, *options):
    """The share of translations that are the reference."""
    raw = ["--dataset-impl", "raw", "--beam", 3, "--gen-subset", split]
    found = generate(folder / "bin", folder / "checkpoint_last.pt", *raw, *options)
    texts = (folder / f"{'new' if split == 'test' else split}.yy").read_text().splitlines()
    return sum(line[1] == texts[number] for number, line in found["H"].items()) / len(found["T"])


def test_rare_names_are_copied(copier):
    assert right(copier, "valid") > 0.8
    assert right(copier, "valid", "--decoding-engine", "stock") == right(copier, "valid")


def test_names_outside_the_vocabulary_appear_with_replace_unk(copier):
    assert right(copier, "test") == 0
    assert right(copier, "test", "--replace-unk", "--print-alignment") > 0.8
