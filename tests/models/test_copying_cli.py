"""Copying through the real command-line tools: names that are seen a few times, or never."""

import random
import re

import pytest
from in_process import run_tool
from training import SIZES, TRAINING

from cli import USER_DIR

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
    command = ["fairseq-train", folder / "bin", "--user-dir", USER_DIR, "--dataset-impl", "raw", "--arch", "lstm_soft"]
    command += [*SIZES, *TRAINING, "--copy-attention", "--criterion", "label_smoothed_cross_entropy"]
    command += ["--label-smoothing", 0.01, "--embed-init-range", 1, "--disable-validation", "--save-dir", folder]
    run_tool(*command, "--batch-size", 40, "--max-update", 100, "--lr", 0.01)
    return folder


def right(folder, split, *options):
    """The share of translations that are the reference."""
    command = ["fairseq-generate", folder / "bin", "--user-dir", USER_DIR, "--dataset-impl", "raw", "--cpu"]
    command += ["--beam", 3, "--path", folder / "checkpoint_last.pt", "--gen-subset", split, *options]
    out = run_tool(*command).stdout
    found = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", out, re.MULTILINE))
    wanted = dict(re.findall(r"^T-(\d+)\t(.*)$", out, re.MULTILINE))
    texts = (folder / f"{'new' if split == 'test' else split}.yy").read_text().splitlines()
    return sum(line == texts[int(number)] for number, line in found.items()) / len(wanted)


def test_rare_names_are_copied(copier):
    assert right(copier, "valid") > 0.8
    assert right(copier, "valid", "--decoding-engine", "stock") == right(copier, "valid")


def test_names_outside_the_vocabulary_appear_with_replace_unk(copier):
    assert right(copier, "test") == 0
    assert right(copier, "test", "--replace-unk", "--print-alignment") > 0.8
