"""Hostile values of the options of fairseq-attn and of the models."""

import argparse
import dataclasses
import importlib
import shutil

import pytest
import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fuzzing import attempt, attempt_in_child, fuzz
from hypothesis import strategies as st
from in_process import run_tool
from mutations import numbers, words
from records_for_tests import write_records
from test_fuzz_texts import GENERATED, LINKS, SOURCE, TARGET

from fairseq_attn_plugin.cli import main, module_of

from cli import TINY

# commands that are run, with the files of the fixture
VALID = {
    "align": "records.jsonl --out out",
    "lexicon": "records.jsonl --out out",
    "aer": "links --gold links --source-text source --target-text target",
    "explore": "records.jsonl --out out.html",
    "compare": "generated --reference generated",
    "frequency": "generated --reference generated --train target",
    "plot": "records.jsonl --out out.svg",
}
FILES = ["records.jsonl", "links", "source", "generated", "gone", ".", "/dev/null", "records.jsonl/x"]
ARCHITECTURES = ("lstm_soft", "lstm_adm", "lstm_latent", "lstm_agreement")
TRAINING = "lr clip-norm max-tokens batch-size update-freq label-smoothing patience seed required-batch-size-multiple"
# numbers of repetitions: a great one is a long run that was asked for
PATIENT = ("--samples",)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    write_records(folder / "records.jsonl")
    texts = {"links": LINKS, "source": SOURCE, "target": TARGET, "generated": GENERATED}
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


@fuzz(st.sampled_from(sorted(VALID)), st.data())
def test_options_of_commands(files, monkeypatch_module, command, data):
    arguments = [command, *VALID[command].split(), *data.draw(given_options(command))]
    attempt("options of commands", lambda: main(arguments))


def flags_of(architecture: str) -> list:
    """The flags of a model, and some of a training."""
    name = TINY[architecture][1]
    config = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[name]]
    own = [field.name.replace("_", "-") for field in dataclasses.fields(config) if not field.name.startswith("_")]
    return [*own, *TRAINING.split()]


@fuzz(st.sampled_from(ARCHITECTURES), st.data(), examples=12)
@pytest.mark.slow
def test_options_of_trainings(tmp_path, tiny_data, architecture, data):
    given = []
    for name in data.draw(st.lists(st.sampled_from(flags_of(architecture)), min_size=1, max_size=2)):
        given.append(f"--{name}={data.draw(values)}")
    folder = tmp_path / "checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    command = ["fairseq-train", tiny_data, "--save-dir", folder, *TINY[architecture], "--batch-size", 8]
    command += ["--max-update", 1, "--optimizer", "adam", "--disable-validation", "--no-progress-bar", *given]

    def check():
        state = torch.load(folder / "checkpoint_last.pt", weights_only=False)
        assert all(bool(one.isfinite().all()) for one in state["model"].values() if one.is_floating_point())

    attempt_in_child("options of trainings", lambda: run_tool(*command), check)


@pytest.fixture(scope="module")
def monkeypatch_module(files):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(files)
        yield patch
