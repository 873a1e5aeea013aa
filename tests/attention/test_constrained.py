"""Constrained sparsemax: fertilities that hold over a whole translation, and fertilities from word alignments."""

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError

import oracles

NAME = "constrained-sparsemax"


@pytest.mark.parametrize(("fertility", "c"), [(0.6, 0.5), (0.3, 2.0), (0.6, 0.0), (3.0, 0.2)])
def test_what_is_left_of_a_word_bounds_it_and_draws_attention(fertility, c):
    """Scores alpha_t + c u_t and weights of every step, where alpha is given; the last word has no bound and no c u."""
    alpha = torch.tensor([0.1, 0.9, -0.4, 0.2], dtype=torch.float64)
    module = build_attention(NAME, query_dim=1, memory_dim=1, score="dot", fertility=fertility, exhaustion=c).double()
    memory = module.precompute(alpha.view(1, 4, 1))
    state, u = module.initial_state(memory), [fertility] * 3
    for _ in range(3):
        drawn = torch.stack([a + c * left for a, left in zip(alpha, [*u, 0.0])])
        expected = oracles.constrained_sparsemax(drawn, torch.tensor([*u, 1.0], dtype=torch.float64))
        out = module.step(alpha.new_ones(1, 1, 1), memory, state)
        torch.testing.assert_close(out.scores.flatten(), drawn)
        torch.testing.assert_close(out.weights.flatten(), expected)
        state, u = out.state, [left - float(weight) for left, weight in zip(u, expected)]


@pytest.fixture
def dictionary():
    found = Dictionary()
    for word in ("das", "haus", "ist"):
        found.add_symbol(word)
    return found


def read(folder, dictionary, links, text, **options):
    for name, content in (("links", links), ("text", text)):
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    options = {"alignments": str(folder / "links"), "source": str(folder / "text"), **options}
    attention = build_attention(NAME, query_dim=4, memory_dim=4, **options)
    attention.read_files(dictionary, dictionary)
    return attention


def test_fertilities_of_alignments(dictionary, tmp_path):
    """The most links of one occurrence; a word without links, or of another text, has the constant."""
    attention = read(tmp_path, dictionary, "0-0 0-1 1-2\n1-0\n\n", "das haus\nfremd das\nist\n", fertility=2.5)
    by_word = dict(zip(dictionary.symbols, attention.table.tolist()))
    assert (by_word["das"], by_word["haus"], by_word["ist"], by_word["</s>"]) == (2.0, 1.0, 2.5, 2.5)
    other = build_attention(NAME, query_dim=4, memory_dim=4, fertility=2.5)
    other.load_state_dict(attention.state_dict())
    tokens = torch.tensor([[dictionary.index("das"), dictionary.index("ist"), dictionary.eos()]])
    memory = other.precompute(torch.zeros(1, 3, 4), source_tokens=tokens)
    assert memory.fertility.tolist() == [[2.0, 2.5, 2.5]] and memory.sink.tolist() == [[False, False, True]]


@pytest.mark.parametrize(
    ("links", "text", "message"),
    [
        (None, "das\n", "--constrained-alignments .*links: cannot be read: No such file"),
        ("0-0\n", b"M\xfcller\n", "--constrained-source .*text: is not UTF-8"),
        ("0-0\n", "das\nhaus\n", "line 2: --constrained-alignments has only 1 lines"),
        ("0-0\n0-0\n", "das\n", "line 2: --constrained-source has only 1 lines"),
        ("0-0 1-0\n", "das\n", "line 1: '1-0' is no link of a sentence of 1 words; must be i-j, counted from 0"),
        ("0:0\n", "das\n", "'0:0' is no link"),
    ],
)
def test_files_that_do_not_fit_are_one_line(links, text, message, dictionary, tmp_path):
    with pytest.raises(OptionError, match=message):
        read(tmp_path, dictionary, links, text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fertility": 0.0}, "--constrained-fertility 0.0: must be above 0"),
        ({"exhaustion": -1.0}, "--constrained-exhaustion -1.0: must be 0 or more"),
        ({"source": "x"}, "--constrained-source x: needs --constrained-alignments"),
        ({"alignments": "x"}, "--constrained-alignments x: needs --constrained-source"),
        ({"alignments": "x", "source": "y", "predicted": True}, "leave one of the two out"),
        ({"normalizer": "sparsemax"}, "constrained-sparsemax attention defines how scores become weights"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(OptionError, match=message):
        build_attention(NAME, query_dim=4, memory_dim=4, **options)
