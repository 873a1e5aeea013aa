"""The tools translate with the engine, and print what they print with fairseq's generator."""

import re

import pytest
import torch
from fairseq.data.dictionary import Dictionary
from fairseq_cli import generate
from in_process import run_tool

from fairseq_attn_plugin.decoding.generator import Generator
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel
from fairseq_attn_plugin.patches.wrapping import wrapped_by

from cli import USER_DIR


def words_and_numbers(output):
    """The lines of hypotheses and references, and their numbers apart."""
    lines = [line for line in output.splitlines() if re.match(r"[A-Z]-\d", line) or line.startswith("Generate ")]
    assert lines
    numbers = r"(?<=[\t ,])-?\d+\.\d+(?:e-?\d+)?"
    return [re.sub(numbers, "#", line) for line in lines], [
        float(number) for line in lines for number in re.findall(numbers, line)
    ]


def assert_same_lines(outputs):
    (words, numbers), (expected_words, expected_numbers) = map(words_and_numbers, outputs)
    assert words == expected_words
    assert numbers == pytest.approx(expected_numbers, abs=2e-4)


@pytest.fixture
def calls(monkeypatch):
    """How often the engine was asked."""
    counted = []
    own = Generator._generate
    monkeypatch.setattr(Generator, "_generate", lambda *args, **kw: counted.append(1) or own(*args, **kw))
    return counted


@pytest.mark.parametrize(
    ("name", "options"), [("lstm_adm", ["--print-alignment", "soft"]), ("latent", []), ("agreement", [])]
)
def test_generate(name, options, zoo, tiny_data, calls):
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", zoo(name).last, "--gen-subset", "test"]
    command += ["--nbest", 3, "--beam", 4, "--max-len-b", 12, "--no-progress-bar", *options]
    stock = run_tool(*command, "--decoding-engine", "stock").stdout
    assert not calls
    assert_same_lines([run_tool(*command, "--decoding-engine", "plugin").stdout, stock])
    assert calls


def test_the_loop_prints_what_it_printed(zoo, tiny_data, monkeypatch):
    """With options and strings made by fairseq itself."""
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last]
    command += ["--gen-subset", "test", "--nbest", 2, "--no-progress-bar", "--remove-bpe"]
    with_patch = run_tool(*command).stdout
    for owner, name in ((generate, "_main"), (Dictionary, "string")):
        patches, function = wrapped_by(owner, name), getattr(owner, name)
        assert "generation_loop" in patches
        for _ in patches:
            function = function.__wrapped__
        monkeypatch.setattr(owner, name, function)
    assert_same_lines([with_patch, run_tool(*command).stdout])


def test_interactive(zoo, tiny_data, calls):
    command = ["fairseq-interactive", tiny_data, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last]
    command += ["--beam", 3, "--nbest", 2, "--max-len-b", 12]
    words = [line.split()[0] for line in (tiny_data / "dict.xx.txt").read_text().splitlines()]
    lines = " ".join(words[:3]) + "\n" + words[4] + "\n"
    outputs = [run_tool(*command, "--decoding-engine", engine, stdin=lines).stdout for engine in ("plugin", "stock")]
    assert_same_lines([re.sub(r"^W-.*$", "", output, flags=re.M) for output in outputs])
    assert calls


@pytest.mark.parametrize("engine", ["plugin", "stock"])
@pytest.mark.parametrize("name", ["lstm", "lstm_soft", "latent"])
def test_the_hub_interface_gives_attention_where_it_is_asked_for(name, engine, zoo, tiny_data):
    last = zoo(name).last
    hub, other = (
        AttnLSTMModel.from_pretrained(str(last.parent), last.name, str(tiny_data), **options)
        for options in ({}, {"print_alignment": "soft"})
    )
    source = hub.encode("a b c")
    engines = {} if name == "lstm" else {"decoding_engine": engine}
    assert not hub.generate(source, **engines)[0]["attention"].numel()
    asked, built = hub.generate(source, print_alignment="soft", **engines)[0], other.generate(source, **engines)[0]
    assert tuple(asked["attention"].shape) == (len(source), len(asked["tokens"]))
    assert all(torch.equal(asked[part], built[part]) for part in ("tokens", "attention", "positional_scores"))


@pytest.mark.parametrize("wrong", [0, 2])
def test_a_folder_that_the_hub_interface_does_not_find(wrong, zoo, tiny_data):
    last = zoo("lstm_soft").last
    words = [str(last.parent), last.name, str(tiny_data)]
    words[wrong] += "nowhere"
    with pytest.raises(OptionError, match=f"^{re.escape(words[wrong])}: there is no such folder or archive"):
        AttnLSTMModel.from_pretrained(*words)
