"""Hostile values of the options of fairseq-attn."""

import argparse
import importlib

import pytest
from fuzzing import attempt, fuzz
from hypothesis import strategies as st
from mutations import numbers, words
from records_for_tests import write_records
from test_fuzz_texts import GENERATED, LINKS, REFERENCE, SOURCE, TARGET

from fairseq_attn_plugin.cli import main, module_of

# commands that are run, with the files of the fixture
VALID = {
    "align": "records.jsonl --out out",
    "lexicon": "records.jsonl --out out",
    "aer": "links --gold links",
    "explore": "records.jsonl --out out.html",
    "compare": "generated --reference reference",
    "frequency": "generated --reference reference --train target",
    "plot": "records.jsonl --sentences 0 --out out.svg",
}
FILES = ["records.jsonl", "links", "source", "generated", "gone", ".", "/dev/null", "records.jsonl/x"]
# numbers of repetitions: a great one is a long run that was asked for
PATIENT = ("--samples",)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    write_records(folder / "records.jsonl")
    texts = {"links": LINKS, "source": SOURCE, "target": TARGET, "generated": GENERATED, "reference": REFERENCE}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def options_of(command: str) -> list:
    parser = argparse.ArgumentParser()
    importlib.import_module(module_of(command)).configure(parser)
    return [
        action for action in parser._actions if action.option_strings and not isinstance(action, argparse._HelpAction)
    ]


# a command line has neither NUL nor unpaired surrogates, except for bytes that are not UTF-8
typed = words.filter(lambda word: "\x00" not in word and "\ud800" not in word and len(word) < 1000)
values = st.one_of(
    numbers, typed, st.sampled_from([*FILES, "\udcff", "a" * 300, "True", "1,2", "1-3", "0-10,10-100", "a=b", "1:2"])
)


@st.composite
def given_options(draw, command: str) -> list:
    result = []
    for action in draw(st.lists(st.sampled_from(options_of(command)), min_size=1, max_size=3)):
        flag = action.option_strings[-1]
        if action.nargs == 0:
            result.append(flag)
        elif flag in PATIENT:
            result.append(f"{flag}={draw(st.integers(-2, 20))}")
        else:
            choices = list(map(str, action.choices)) if action.choices else []
            result.append(f"{flag}={draw(st.one_of(values, st.sampled_from(choices)) if choices else values)}")
    return result


@pytest.mark.parametrize("command", VALID)
def test_options_without_hostile_ones_are_accepted(files, monkeypatch_module, command):
    main([command, *VALID[command].split()])


@fuzz(st.sampled_from(sorted(VALID)), st.data())
def test_options_of_commands(files, monkeypatch_module, command, data):
    arguments = [command, *VALID[command].split(), *data.draw(given_options(command))]
    attempt("options of commands", lambda: main(arguments))


@pytest.fixture(scope="module")
def monkeypatch_module(files):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(files)
        yield patch
