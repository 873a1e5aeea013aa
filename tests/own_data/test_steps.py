"""What fairseq-attn train remembers of a training, and translations in order."""

import functools

import pytest

from fairseq_attn_plugin.corpora.parallel import CHUNK, in_processes
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.own_data import steps
from fairseq_attn_plugin.own_data.settings import parsed
from fairseq_attn_plugin.own_data.steps import read_hypotheses


def test_options_with_their_values():
    options = "--arch lstm --adam-betas 0.9 0.98 --patience=4 --lr=1 --sentence-avg --lr 3e-3 -s -1"
    kept = {"--arch": "lstm", "--adam-betas": "0.9 0.98", "--patience": "4", "--lr": "3e-3", "--sentence-avg": ""}
    assert parsed(options.split()) == {**kept, "-s": "-1"}, "of an option given twice the last one counts"


def test_hypotheses_are_put_in_order_and_none_may_be_missing(tmp_path):
    path = tmp_path / "generate-test.txt"
    path.write_text("S-2\tx\nD-2\t-0.1\tthird\nD-0\t-0.2\tfirst\nD-0\t-0.9\tof --nbest\nD-1\t-0.3\tsecond\n")
    assert read_hypotheses(path, 3) == ["first", "second", "third"]
    for count, said in ((2, "3 translations for 2 sentences: remove it"), (4, "3 translations for 4 sentences")):
        with pytest.raises(OptionError, match=said):
            read_hypotheses(path, count)


def test_several_processes_normalise_as_one():
    work, lines = functools.partial(steps._normalized, language="de"), ["\u201ea\u201c  U\u0308\u00a0b"] * (CHUNK + 1)
    for jobs in (1, 2):
        assert in_processes(work, lines, jobs, "normalise") == ['"a" \u00dc b'] * len(lines)


def test_a_training_is_not_continued_with_other_words(tmp_path, monkeypatch):
    """Its checkpoints know words by their numbers."""
    plan = steps.Plan(tmp_path, ("xx", "yy"), {}, "", ["--lr", "1"], [], "")
    dictionaries = [plan.data / "bin" / f"dict.{one}.txt" for one in plan.languages]
    dictionaries[0].parent.mkdir(parents=True)
    for path in dictionaries:
        path.write_text("a 1\nb 1\n")
    runs = []

    def run(*words):
        runs.append(words)
        for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
            (plan.checkpoints / name).touch()

    monkeypatch.setattr(steps, "run", run)
    steps._train(plan)
    steps._train(plan)
    assert len(runs) == 1
    steps._train(plan._replace(options=["--lr", "1", "--max-epoch", "9"]))  # a longer one is the same training
    assert len(runs) == 2
    dictionaries[1].write_text("b 1\na 1\n")
    for best_alone in (False, True):  # --no-last-checkpoints
        if best_alone:
            (plan.checkpoints / "checkpoint_last.pt").unlink()
        with pytest.raises(OptionError, match=r"other options or words \(dict.yy.txt .*choose another --out"):
            steps._train(plan)
