"""The benchmark's sections ``translate`` and ``sentence``, with a trained model and with a random one."""

import re

import pytest
from bench import main

from bench_report import quick_report

RUN = ["--sections", "translate,sentence", "--translators", "stock", "plugin", "plugin:lenpen=0"]


@pytest.fixture(scope="module")
def report(zoo, tiny_data):
    return quick_report(*RUN, "--data", tiny_data, "--checkpoint", zoo("reversal").last, "--translate-beams", 3)


def test_every_search_translates_every_sentence(report):
    figures, printed = report
    for section, label, sentences in (("translate", "beam 3", 40), ("sentence", "greedy", 4)):
        measured = figures["sections"][section][label]
        assert measured["sentences"] == sentences and measured["checkpoint"] == "checkpoint_last.pt"
        assert list(measured["systems"]) == ["stock", "plugin", "plugin:lenpen=0"]
        for name, system in measured["systems"].items():
            raw = measured["raw"][name]
            assert len(raw) == measured["batches"] and all(sample["cpu"] > 0 for sample in raw)
            assert system["seconds"] == pytest.approx(sum(sample["cpu"] for sample in raw))
            assert system["sentences_per_second"] == pytest.approx(sentences / system["seconds"])
            assert system["bleu"] > 50, "the model has learnt the corpus"
    assert "## Translation of a test set" in printed and "## One sentence at a time" in printed


def test_translations_are_compared_with_the_first_search(report):
    figures, printed = report
    stock, plugin, other = figures["sections"]["translate"]["beam 3"]["systems"].values()
    assert stock["different"] == 0 and stock["time_ratio"]["stock"]["whole"] == 1
    assert plugin["different without ties"] == 0 and plugin["bleu"] == pytest.approx(stock["bleu"], abs=0.1)
    assert other["different"] == len(other["differing"])
    for item in plugin["differing"]:
        assert f"sentence {item['sentence']}: scores" in printed
    stock, plugin, _ = figures["sections"]["sentence"]["greedy"]["systems"].values()
    assert plugin["latency"]["median"] <= plugin["latency"]["p99"]
    assert plugin["p99"] == stock["latency"]["p99"] / plugin["latency"]["p99"]


def test_a_random_model_translates_a_random_corpus():
    figures, _ = quick_report("--sections", "sentence", "--translators", "stock", "plugin")
    measured = figures["sections"]["sentence"]["greedy"]
    assert measured["checkpoint"] == "random" and measured["sentences"] == 4
    assert measured["systems"]["plugin"]["different without ties"] == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--translators", "fast"], "--translators fast: must start with stock or plugin"),
        (["--translators", "plugin:beem=3"], "fairseq-generate has no option 'beem'"),
        (["--translators", "stock", "--checkpoint", "/nowhere.pt"], "--checkpoint /nowhere.pt: cannot be read"),
    ],
)
def test_mistakes_get_one_line(arguments, message, capsys):
    assert main(["--quick", "--threads", "1", "--sections", "translate", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)
