"""fairseq-attn import: small files in the formats of other programs become the records that they describe."""

import json
import os
import re
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.errors import OptionError

from cli import REPO

SOURCE = "ein klei@@ nes haus\nder hund\n"
TARGET = "a small house\nthe dog\n"
SOFT = np.array([[0.9, 0.1, 0, 0, 0], [0, 0.5, 0.4, 0.1, 0], [0, 0.1, 0.1, 0.7, 0.1], [0, 0, 0, 0.25, 0.75]])
SECOND = np.array([[0.75, 0.25, 0], [0.125, 0.875, 0], [0, 0.5, 0.5]])
HARD = [[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]


def groups(matrix):
    return " ".join(",".join(f"{weight:g}" for weight in row) for row in matrix)


def run(folder, form, text, *options, source=SOURCE, target=None, name="in.txt"):
    """Imports a text; returns its records."""
    if isinstance(text, str):
        (folder / name).write_text(text, encoding="utf-8")
    words = ["import", str(folder / name), "--format", form, "--out", str(folder / "out.jsonl"), *options]
    for side, given in (("source", source), ("target", target)):
        if given is not None:
            (folder / f"{side}.txt").write_text(given, encoding="utf-8")
            words += [f"--{side}-text", str(folder / f"{side}.txt")]
    cli.main(words)
    return open_records(folder / "out.jsonl")


def check(records, first=SOFT, second=SECOND):
    one, other = records
    assert one.source == "ein klei@@ nes haus".split() and one.target == "a small house".split()
    assert one.source_words == ["ein", "kleines", "haus"] and (one.id, other.id) == (0, 1)
    np.testing.assert_allclose(one.attention, first, atol=1e-5)
    np.testing.assert_allclose(other.attention, second, atol=1e-5)


def test_marian_soft_and_word_scores(tmp_path, capsys):
    text = (
        f"a small house ||| {groups(SOFT)} ||| WordScores= -0.1 -0.2 -0.3 -0.4\n"
        f"the dog ||| {groups(SECOND)} ||| WordScores= -1 -2 -3\n"
    )
    records = run(tmp_path, "marian", text, "--from", "de", "--to", "en", "--name", "opus")
    check(records)
    assert [one.score for one in records] == pytest.approx([-0.25, -2])
    header = records.header
    assert (header.source_lang, header.target_lang, header.name, header.subwords) == ("de", "en", "opus", "bpe")
    assert (header.target, header.sentences, header.architecture) == ("imported", 2, "marian")
    assert capsys.readouterr().out == f"{tmp_path}/out.jsonl: attention of opus for 2 sentences, subwords of bpe\n"


def test_marian_hard_links_may_name_the_ends(tmp_path):
    records = run(tmp_path, "marian", "a small house ||| 0-0 1-1 2-1 3-2 4-3\nthe dog ||| 0-0\n")
    check(records, HARD, [[1, 0, 0], [0, 0, 1], [0, 0, 1]])
    assert [one.scores for one in records] == [[], []] and all(np.isnan(one.score) for one in records)
    assert "score" not in json.loads((tmp_path / "out.jsonl").read_text().splitlines()[1])


def test_a_pipe_is_not_read_in_part(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("a\n")
    words = ["import", f"{tmp_path}/text", "--source-text", f"{tmp_path}/pipe", "--target-text", f"{tmp_path}/text"]
    with pytest.raises(OptionError, match="pipe: must be a regular file, since it is read twice"):
        cli.main([*words, "--format", "pharaoh", "--out", f"{tmp_path}/out.jsonl"])
    assert not (tmp_path / "out.jsonl").exists()


def test_pharaoh(tmp_path):
    records = run(tmp_path, "pharaoh", "0-0 1-1 2p1 3-2\n0-0 1-1\n", "--forced", target=TARGET)
    check(records, HARD, np.eye(3))
    assert records.header.target == "reference"


@pytest.mark.parametrize("options", [[], ["--end", "null"], ["--threshold", "0.5"], ["--level", "subwords"]])
def test_links_of_another_aligner_come_back_as_they_were(tmp_path, options, capsys):
    """Two links of one target word tie, and a target word without links has none."""
    run(tmp_path, "pharaoh", "0-0 1-1 2-1\n", "--forced", source="a b c\n", target="x y z\n")
    cli.main(["align", f"{tmp_path}/out.jsonl", "--out", f"{tmp_path}/links", *options])
    assert (tmp_path / "links").read_text() == "0-0 1-1 2-1\n"
    (tmp_path / "gold").write_text("0-0 1-1 2-1\n")
    capsys.readouterr()
    cli.main(["aer", f"{tmp_path}/out.jsonl", "--gold", f"{tmp_path}/gold", "--json", f"{tmp_path}/aer.json", *options])
    assert '"aer": 0.0' in (tmp_path / "aer.json").read_text()


def test_hugging_face(tmp_path):
    first = {"source": [*"▁ein ▁klei nes ▁haus </s>".split()], "target": ["▁a", "▁small", "▁house", "</s>"]}
    first = {**first, "attention": SOFT.tolist(), "scores": [-1, -1, -1, -1], "reference": "a tiny house"}
    second = {"source": ["▁der", "▁hund"], "target": ["▁the", "▁dog"], "attention": SECOND.tolist()}
    text = "\n".join(map(json.dumps, [first, second]))
    records = run(tmp_path, "huggingface", text, source=None)
    one, other = records
    assert one.source_words == ["ein", "kleines", "haus"] and records.header.subwords == "sentencepiece"
    assert one.reference == "a tiny house" and one.score == -1 and other.scores == []
    np.testing.assert_allclose(one.attention, SOFT, atol=1e-5)
    np.testing.assert_allclose(other.attention, SECOND, atol=1e-5)


@pytest.mark.parametrize(
    "form, text, message",
    [
        ("marian", "a b ||| 0.5,0.5 1,0\nx\n", "line 1: attention is 2 x 2, the sentence has 2 target and 4 source"),
        ("marian", f"a small house ||| {groups(SOFT.T)}\nx\n", "5 x 4, .* 3 target and 4 source .*; rows must be"),
        ("marian", f"a small house ||| {groups(SOFT)}\n", "has 1 sentences, --source-text .* has more lines"),
        ("marian", "a ||| 0-0\nb ||| 0-0\nc ||| 0-0\n", "has more than 2 sentences, --source-text .* has 2 lines"),
        ("marian", "a ||| 0-5\n", "line 1: link 0-5: the sentence has 4 source and 1 target tokens"),
        ("marian", "a ||| 0,x,0\n", "line 1: 'x' must be a number"),
        ("marian", "a ||| 0,1 1\n", "line 1: the groups of weights have different lengths"),
        ("marian", "a ||| 0,0,0,0,nan\n", "line 1: attention must not be negative or infinite"),
        ("marian", "a ||| 0-0 ||| WordScores= -1\n", "line 1: has 1 scores for 1 target tokens and the end"),
        ("huggingface", "[1]", "line 1: must be a JSON object, a sentence in each line"),
        ("huggingface", "[{", "line 1: must be a JSON object, a sentence in each line"),
        ("huggingface", '{"source": ["a"], "target": ["b"], "attention": [[1, 0], [1]]}', "line 1: must have source"),
    ],
)
def test_one_line_says_what_is_wrong_and_nothing_is_written(tmp_path, form, text, message):
    with pytest.raises(OptionError, match=message.replace("|", r"\|")) as raised:
        run(tmp_path, form, text, source=None if form == "huggingface" else SOURCE)
    assert "\n" not in str(raised.value) and str(tmp_path / "in.txt") in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) in (["in.txt"], ["in.txt", "source.txt"])


@pytest.mark.parametrize(
    "options, message",
    [
        (["--format", "marian"], "--format marian: needs --source-text"),
        (["--format", "huggingface", "--target-text", "x"], "huggingface has the targets itself; leave it out"),
        (["--format", "huggingface"], "cannot be read: No such file"),
    ],
)
def test_options_that_contradict_each_other(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        cli.main(["import", str(tmp_path / "x"), "--out", str(tmp_path / "y.jsonl"), *options])


class FakeTokenizer:
    """The parts of a tokenizer that the documented program uses: padding on the right, </s> at the end."""

    words = ["</s>", "<pad>", "\u2581ein", "\u2581haus", "\u2581a", "\u2581house"]

    def __call__(self, lines, return_tensors, padding):
        ids = [[self.words.index("\u2581" + word) for word in line.split()] + [0] for line in lines]
        longest = max(map(len, ids))
        mask = [[1] * len(row) + [0] * (longest - len(row)) for row in ids]
        rows = [row + [1] * (longest - len(row)) for row in ids]
        return Batch(input_ids=torch.tensor(rows), attention_mask=torch.tensor(mask))

    def convert_ids_to_tokens(self, ids):
        return [self.words[index] for index in ids.tolist()]


class Batch(dict):
    __getattr__ = dict.__getitem__


def test_the_documented_program_for_hugging_face_models(tmp_path, monkeypatch):
    """It runs with stand-ins whose outputs have the documented shapes of transformers."""
    page = (REPO / "docs/analysis/import.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(program.strip().splitlines()) <= 16
    layers, heads = 2, 3
    steps = torch.rand(4, 2, layers, heads, 3).softmax(-1)  # [steps, sentences, layers, heads, source]

    class Model:
        config = SimpleNamespace(eos_token_id=0)

        def generate(self, input_ids, attention_mask, **options):
            assert options == {"num_beams": 1, "output_attentions": True, "return_dict_in_generate": True}
            cross = tuple(tuple(step[:, layer, :, None] for layer in range(layers)) for step in steps[:3])
            # the first token starts the decoder; the second sentence has ended a step before the first
            sequences = torch.tensor([[1, 4, 5, 0], [1, 4, 0, 1]])
            return SimpleNamespace(sequences=sequences, cross_attentions=cross)

    fake = ModuleType("transformers")
    fake.AutoTokenizer = SimpleNamespace(from_pretrained=lambda name: FakeTokenizer())
    fake.AutoModelForSeq2SeqLM = SimpleNamespace(from_pretrained=lambda name, attn_implementation: Model())
    monkeypatch.setitem(sys.modules, "transformers", fake)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.de").write_text("ein haus\nhaus\n")
    exec(program, {})
    cli.main("import attention.jsonl --format huggingface --from de --to en --out opus.jsonl".split())
    one, other = open_records("opus.jsonl")
    assert (one.source_words, one.target_words) == (["ein", "haus"], ["a", "house"])
    assert (other.source, other.target) == (["\u2581haus"], ["\u2581a"])
    np.testing.assert_allclose(one.attention, steps[:3, 0, -1].mean(1), atol=1e-5)
    np.testing.assert_allclose(other.attention, steps[:2, 1, -1].mean(1)[:, :2], atol=1e-5)
