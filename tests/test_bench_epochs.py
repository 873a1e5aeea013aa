"""The benchmark's section ``epochs``: its corpus, and a quick run."""

import re

import pytest
import torch
from bench import main
from benchmark.corpus import batches_of, open_task, synthetic_dictionary, synthetic_pairs

from bench_report import quick_report

SETTINGS = {"data": None, "sizes": {"vocab": 200}, "corpus_sentences": 500, "seed": 1}


def test_the_random_corpus_has_the_lengths_of_captions():
    pairs = synthetic_pairs(synthetic_dictionary(8000), 20000, seed=1)
    # Multi30k German-English, 8,000 subwords, with end of sentence: means 15.1 and 15.0, correlation of the logarithms
    # 0.86
    lengths = torch.tensor([pairs.src_sizes, pairs.tgt_sizes], dtype=torch.float)
    assert lengths.mean(1).tolist() == pytest.approx([15.1, 15.2], abs=0.3)
    assert torch.corrcoef(lengths.log())[0, 1] == pytest.approx(0.87, abs=0.03)


def test_an_epoch_has_every_sentence_once_in_ragged_batches_within_the_limit():
    task = open_task(SETTINGS, "train")
    batches = batches_of(task, "train", SETTINGS, True, epochs=2, max_tokens=200)
    ids = [int(number) for batch in batches for number in batch["id"]]
    assert sorted(ids) == sorted([*range(500), *range(500)])
    sizes = [batch["target"].shape for batch in batches]
    assert max(rows * columns for rows, columns in sizes) <= 200 and len(set(sizes)) > 10
    widths = [columns for _, columns in sizes]
    assert widths != sorted(widths), "shuffled"
    again = batches_of(open_task(SETTINGS, "train"), "train", SETTINGS, True, max_tokens=200)
    assert all(torch.equal(one["target"], other["target"]) for one, other in zip(batches, again))


@pytest.fixture(scope="module")
def report():
    return quick_report("--sections", "epochs", "--baselines", "lstm")


def test_every_system_trains_on_every_batch_in_turn(report):
    figures, printed = report
    section = figures["sections"]["epochs"]["all"]
    assert section["batches"] == 4 and list(section["systems"]) == ["lstm", "lstm_soft"]
    for name, system in section["systems"].items():
        groups = section["raw"][name]
        assert len(groups) == 2 and all(group["cpu"] > 0 for group in groups)
        assert system["seconds"] == pytest.approx(sum(group["cpu"] for group in groups))
        assert system["tokens_per_second"] == pytest.approx(section["target_tokens"] / system["seconds"])
        assert system["peak_memory_bytes"] > 0 and 0 < system["last_loss"] < 6
    ratios = section["systems"]["lstm_soft"]["time_ratio"]["lstm"]
    quotients = [ours["cpu"] / stock["cpu"] for ours, stock in zip(section["raw"]["lstm_soft"], section["raw"]["lstm"])]
    assert ratios["rounds"] == pytest.approx(quotients)
    assert "## Whole epochs" in printed and "`lstm_soft`" in printed


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--data", "/nowhere"], "--data /nowhere: no dictionaries there"),
        (["--epoch-archs", "lstm:optimizer=madam"], "optimizer=madam of lstm:optimizer=madam: choose from .*adam"),
        (["--optimizer", "madam"], "optimizer=madam of lstm: choose from"),
    ],
)
def test_mistakes_get_one_line(arguments, message, capsys):
    assert main(["--quick", "--threads", "1", "--sections", "epochs", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)
