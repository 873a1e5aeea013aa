"""What is said of texts, damaged data folders, and dictionaries of another training."""

import shutil
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
from fairseq import options
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq_cli import preprocess
from in_process import run_tool
from training import train, training_command
from zoo import MODELS

from fairseq_attn_plugin.errors import OptionError, one_line
from fairseq_attn_plugin.patches import data_folders

from cli import USER_DIR

# ---- data folders


NAME = "train.xx-yy.xx"


@pytest.fixture(autouse=True)
def installed():
    data_folders.CORPORA.install()  # not before fairseq-preprocess is imported


@pytest.fixture
def folder(tiny_data, tmp_path):
    shutil.copytree(tiny_data, tmp_path / "bin")
    return tmp_path / "bin"


def load(folder):
    return load_indexed_dataset(str(folder / NAME), Dictionary.load(str(folder / "dict.xx.txt")))


def with_another_word(content):
    words = np.frombuffer(content, dtype="<i8" if len(content) % 8 == 0 else "<u2").copy()
    words[0] = 999
    return words.tobytes()


DAMAGES = {
    "cut header": ("idx", lambda content: content[:20], r"\.idx: is no index of binarised text"),
    "no index": ("idx", lambda content: b"<html>" + content, r"\.idx: is no index of binarised text"),
    "cut index": ("idx", lambda content: content[:200], r"\.idx: has 200 bytes, and an index of \d+ sentences has \d+"),
    "cut words": ("bin", lambda content: content[:-8], r"\.bin: has \d+ bytes, and its index speaks of \d+"),
    "no words": ("bin", lambda content: b"", r"\.bin: is empty"),
    "another dictionary": ("bin", with_another_word, r"\.bin: has words beyond the \d+ of its"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_data(name, folder):
    file, damage, message = DAMAGES[name]
    path = folder / f"{NAME}.{file}"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(OptionError, match=message + ".*; prepare the data anew by fairseq-preprocess$"):
        load(folder)


def test_whole_data_are_read(folder):
    assert len(load(folder)) > 10
    (folder / f"{NAME}.bin").unlink()
    with pytest.raises(OptionError, match=r"\.bin: is missing"):
        load(folder)


@pytest.mark.parametrize("content", [b"haus\nbaum 3\n", b"haus 4\nhaus 3\n", "gr\xfcn 4\n".encode("latin-1")])
def test_damaged_dictionaries(content, tmp_path):
    path = tmp_path / "dict.xx.txt"
    path.write_bytes(content)
    with pytest.raises(Exception) as caught:
        Dictionary.load(str(path))
    assert str(path) in one_line(caught.value)


# ---- corpora


WRONG = {
    "latin1": ("gr\xfcn\nein\n".encode("latin-1"), "train.xx: is not UTF-8 after line 0 .*iconv -f LATIN1"),
    "utf16": ("ama\nbel\n".encode("utf-16-le"), "train.xx, line 1: has NUL bytes; convert the text to UTF-8"),
    "bom": ("ama\nbel\n".encode("utf-8-sig"), "train.xx, line 1: begins with a byte-order mark"),
    "empty": (b"", "train.xx: is empty"),
    "short": (b"ama\n", "train.xx has 1 lines and .*train.yy has 2: must have the same number"),
    "Windows": (b"ama\nbel\r\n", r"train.xx, line 2: has a carriage return \(CR\); end lines by LF"),
}


def arguments(folder, *others):
    """The parsed command line for texts in a folder."""
    command = ["-s", "xx", "-t", "yy", "--trainpref", str(folder / "train"), "--destdir", str(folder / "bin"), *others]
    return options.get_preprocessing_parser().parse_args(command)


@pytest.mark.parametrize("name", WRONG)
def test_a_text_is_refused(name, tmp_path):
    content, message = WRONG[name]
    (tmp_path / "train.xx").write_bytes(content)
    (tmp_path / "train.yy").write_text("u v\nw\n")
    with pytest.raises(OptionError, match=message):
        preprocess.main(arguments(tmp_path))


def test_alignments_have_a_line_for_each_pair(tmp_path):
    with pytest.raises(OptionError, match="train.xx: cannot be read: No such file"):
        preprocess.main(arguments(tmp_path))
    for side in ("xx", "yy"):
        (tmp_path / f"train.{side}").write_text("ama\nbel\n")
    (tmp_path / "train.align").write_text("0-0\n")
    with pytest.raises(OptionError, match=r"train.xx has 2 lines and .*train.align has 1"):
        preprocess.main(arguments(tmp_path, "--align-suffix", "align"))


def test_every_split_has_a_line_of_alignments_for_each_pair():
    class Pairs(list):
        def __init__(self, links, pairs):
            super().__init__([0] * pairs)
            self.align_dataset = [0] * links

    task = FairseqTask(Namespace(load_alignments=True, train_subset="train", data="data"))
    task.datasets = {"train": Pairs(3, 3), "valid": Pairs(2, 4)}
    with pytest.raises(OptionError, match="has 2 alignments for the 4 sentences of the split valid"):
        task.begin_epoch(1, None)


# ---- dictionaries


def test_data_with_another_dictionary_are_refused(tiny_data, folder, zoo, tmp_path):
    """The same data, whose dictionary of the source has two lines in another order."""
    file = folder / "dict.xx.txt"
    first, second, *others = file.read_text().splitlines(keepends=True)
    file.write_text("".join([second, first, *others]))
    saved, (updates, options) = shutil.copytree(zoo("lstm_soft").folder, tmp_path / "trained"), MODELS["lstm_soft"]
    checkpoint = saved / "checkpoint_last.pt"
    message = f"checkpoint {checkpoint}: was trained with another dictionary of 'xx' than these data have"
    generation = ["fairseq-generate", folder, "--user-dir", USER_DIR, "--path", checkpoint]
    for command in (generation, training_command(folder, saved, *options, updates=updates + 1)):
        assert run_tool(*command, fails=True).error.startswith(message)
    assert f'"train_num_updates": "{updates + 1}"' in train(tiny_data, saved, *options, updates=updates + 1).log


def test_multilingual_tasks_have_a_dictionary_for_each_language():
    """Of which stock's multilingual tasks give others while they train than while they translate."""
    one, other = Dictionary(), Dictionary()
    other.add_symbol("ama")
    training = SimpleNamespace(dicts={"xx": one, "yy": other}, source_dictionary=one, target_dictionary=one)
    translating = SimpleNamespace(**{**vars(training), "target_dictionary": other})
    stored = {data_folders.KEY: data_folders.hashes(training)}
    data_folders.check_dictionaries("m.pt", stored, translating)
    with pytest.raises(OptionError, match="another dictionary of 'yy'"):
        data_folders.check_dictionaries("m.pt", stored, SimpleNamespace(dicts={"yy": one}))
    assert data_folders.hashes(SimpleNamespace(dicts=[one])) == {}  # of a task from elsewhere


@pytest.mark.parametrize(
    ("trained", "asked", "other"),
    [
        (["xx", "yy"], ["yy", "xx"], True),
        (["xx", "yy"], ["xx", "yy"], False),
        (["xx", "xx"], ["xx", "xx"], False),
        (["source", "target"], [None, None], False),
    ],
)
def test_a_checkpoint_of_the_other_direction(trained, asked, other):
    task = SimpleNamespace(cfg=SimpleNamespace(source_lang=asked[0], target_lang=asked[1]))
    assert (data_folders.other_direction("m.pt", {data_folders.LANGUAGES: trained}, task) is not None) == other
