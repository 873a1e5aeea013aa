"""Every sentence is in a batch; unknown words are replaced; a log has each line once."""

import re
from collections import Counter

import numpy as np
import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from in_process import run_tool

import fairseq_attn_plugin  # noqa: F401
from fairseq_attn_plugin.errors import OptionError

from cli import TINY, USER_DIR

# ---- batches


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize(
    ("count", "limits"), [(40, {"max_tokens": 60}), (1014, {"max_tokens": 900}), (7, {"max_sentences": 5})]
)
@pytest.mark.parametrize("with_sizes", [True, False])
def test_every_index_is_in_one_batch_within_the_limits(count, limits, multiple, with_sizes):
    sizes = np.sort(np.random.RandomState(0).randint(2, 30, count)).astype(np.int64)
    order = np.random.RandomState(1).permutation(count)
    lengths = {int(i): int(n) for i, n in zip(order, sizes)}
    batches = data_utils.batch_by_size(
        order,
        lambda i: lengths[int(i)],
        num_tokens_vec=sizes if with_sizes else None,
        required_batch_size_multiple=multiple,
        **limits,
    )
    assert [int(i) for batch in batches for i in batch] == order.tolist()
    for batch in batches:
        assert len(batch) <= limits.get("max_sentences", len(batch))
        assert len(batch) * max(lengths[int(i)] for i in batch) <= limits.get("max_tokens", float("inf"))


# ---- unknown words


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """Raw data with words that the vocabularies lack, and a model that has seen little of them."""
    folder = tmp_path_factory.mktemp("raw")
    known, rare = ["ama", "bel", "cor", "dun"], ["kru", "lom"]
    for split, lines in (("train", 40), ("test", 8)):
        sentences = [[known[(n + k) % 4] for k in range(n % 3 + 1)] + [rare[n % 2]] for n in range(lines)]
        (folder / f"{split}.xx").write_text("".join(" ".join(s) + "\n" for s in sentences))
        (folder / f"{split}.yy").write_text("".join(" ".join(w[::-1] for w in s) + "\n" for s in sentences))
    command = ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--dataset-impl", "raw"]
    command += ["--trainpref", folder / "train", "--validpref", folder / "test", "--testpref", folder / "test"]
    run_tool(*command, "--destdir", folder / "bin", "--nwordssrc", 8, "--nwordstgt", 8)
    command = ["fairseq-train", folder / "bin", "--user-dir", USER_DIR, "--dataset-impl", "raw", *TINY["lstm_soft"]]
    command += ["--optimizer", "adam", "--lr", 0.02, "--dropout", 0, "--batch-size", 10, "--max-epoch", 20, "--cpu"]
    command += ["--embed-init-range", 1]
    run_tool(*command, "--save-dir", folder, "--no-epoch-checkpoints", "--num-workers", 0, "--disable-validation")
    (folder / "lexicon.tsv").write_text("kru\turk\t0.9\t9\nkru\tother\t0.1\t1\n")
    return folder


def generate(folder, *options):
    command = ["fairseq-generate", folder / "bin", "--user-dir", USER_DIR, "--dataset-impl", "raw", "--cpu"]
    command += ["--beam", 1, "--path", folder / "checkpoint_last.pt", "--gen-subset", "test"]
    return run_tool(*command, *options).stdout


def lines_of(output, kind):
    """{sentence: words} of the lines of a kind, the score of a hypothesis left out."""
    return {number: text.split() for number, text in re.findall(rf"^{kind}-(\d+)\t(?:-\S+\t)?(.*)$", output, re.M)}


def test_each_unknown_word_is_looked_up_or_copied(unknown):
    plain = generate(unknown, "--print-alignment", "hard")
    source = [line.split() for line in (unknown / "test.xx").read_text().splitlines()]
    links, expected = lines_of(plain, "A"), lines_of(plain, "H")
    assert sum("<unk>" in words for words in expected.values()) > 4
    for number, words in expected.items():
        aligned = {
            int(target): source[int(number)][int(place)] for place, target in (a.split("-") for a in links[number])
        }
        known = {place: {"kru": "urk"}.get(word, word) for place, word in aligned.items()}
        words[:] = [known[place] if word == "<unk>" else word for place, word in enumerate(words)]
    everything = [word for words in expected.values() for word in words]
    assert {"urk", "bel"} <= set(everything) and "<unk>" not in everything, "looked up, and copied"
    for kind in ("hard", "soft"):
        replaced = generate(unknown, "--replace-unk", unknown / "lexicon.tsv", "--print-alignment", kind)
        assert lines_of(replaced, "H") == expected


def test_fairseqs_option_without_file_or_alignment():
    assert utils.load_align_dict(None) is None
    assert utils.load_align_dict("@@ ") == {}, "what fairseq's parser makes of --replace-unk without a file"
    with pytest.raises(OptionError, match="--replace-unk /no/such/file: cannot be read: No such file"):
        utils.load_align_dict("/no/such/file")
    dictionary, nothing = Dictionary(), torch.empty(0)  # what the generator gives where no alignment was asked for
    known = torch.tensor([dictionary.add_symbol("known"), 2])
    assert utils.post_process_prediction(known, "haus", nothing, {}, dictionary)[1] == "known"
    with pytest.raises(OptionError, match="^--replace-unk: needs the alignment of the words; add --print-"):
        utils.post_process_prediction(torch.tensor([dictionary.unk(), 2]), "haus", nothing, {}, dictionary)


def test_subwords_are_looked_up_before_they_are_joined():
    dictionary = Dictionary()
    tokens = torch.tensor([dictionary.add_symbol("ber@@"), dictionary.add_symbol("lin"), dictionary.unk(), 2])
    source, pairs = "ber@@ lin haus", [(0, 0), (1, 1), (2, 2)]
    results = {
        remove: utils.post_process_prediction(tokens, source, pairs, {"haus": "house"}, dictionary, remove)
        for remove in (None, "@@ ")
    }
    assert [result[1] for result in results.values()] == ["ber@@ lin house", "berlin house"]
    assert all(result[2] is pairs for result in results.values())
    assert dictionary.string(results["@@ "][0]) == "berlin house"
    # without the option nothing has changed
    unchanged = utils.post_process_prediction(tokens, source, pairs, None, dictionary)
    assert unchanged[0] is tokens and unchanged[1] == "ber@@ lin <unk>"


# ---- log file


def test_lines_stand_in_the_file_once(tiny_data, tmp_path):
    command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd"]
    command += ["--no-save", "--batch-size", 200, "--max-epoch", 2, "--lr", 0.1, "--log-interval", 1]
    run_tool(*command, "--log-file", tmp_path / "log")
    lines = Counter(line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("epoch "))
    assert set(lines.values()) == {1}, lines
    assert sum("valid on 'valid' subset" in line for line in lines) == 2
    assert {line[:9] for line in lines} == {"epoch 001", "epoch 002"}
