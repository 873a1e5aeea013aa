"""A translation lexicon in the decoder: the formula, padding, beams, gradients, files and checkpoints."""

import re

import pytest
import torch
from in_process import run_tool
from models_for_tests import LENGTHS, assert_steps_equal_the_whole, build, dictionary, fake_task, pad_batch, targets
from refusals import refuses
from test_shortlist import write
from training import generate, train

from fairseq_attn_plugin.attention import names
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.trained_models import check, take_lexicon

import oracles
from cli import TINY, USER_DIR

SOURCE, TARGET = dictionary(), dictionary(15)  # those of fake_task
# w0 and w1 have several translations, w2 one, the end of the sentence its own; all others none
ENTRIES = {
    ("w0", "w3"): 0.5,
    ("w0", "w4"): 0.25,
    ("w1", "w4"): 0.125,
    ("w1", "w5"): 0.5,
    ("w1", "w6"): 0.375,
    ("w2", "w3"): 1.0,
    ("</s>", "</s>"): 0.75,
}
FEEDING = ("output", "context", "none")


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "lexicon.tsv", ENTRIES)


def make(lexicon=None, attention="soft", feeding="output", **options):
    options = {"attention": attention, "input_feeding": feeding, "lexicon": lexicon, **options}
    return build("attn_lstm", seed=7, **options).double().eval()


def sources():
    """Words w0 to w3, so that most of them have entries."""
    tokens = pad_batch(LENGTHS)
    return torch.where(tokens > 3, 4 + tokens % 4, tokens)


@pytest.mark.parametrize(
    ("attention", "feeding"),
    [*((name, FEEDING[place % 3]) for place, name in enumerate(names())), *(("soft", one) for one in FEEDING)],
)
def test_logits_are_those_without_a_lexicon_and_the_dense_formula(attention, feeding, file):
    model, plain = make(file, attention, feeding, lexicon_epsilon=0.02), make(None, attention, feeding)
    source = sources()
    logits, extra = model(source, None, targets())
    without, _ = plain(source, None, targets())
    lexicon = {(SOURCE.index(f), TARGET.index(e)): p for (f, e), p in ENTRIES.items()}
    weights = extra["attn"][0].detach()
    for row in range(len(LENGTHS)):
        for step in (0, 1, 4):
            bias = oracles.lexicon_bias(lexicon, weights[row, step], source[row], 0.02, len(TARGET))
            torch.testing.assert_close(logits[row, step], without[row, step] + bias)


@pytest.mark.parametrize("attention", ["soft", "sigmoid"])
def test_gradients_flow_through_the_attention(attention, file):
    bias = make(file, attention).decoder.lexicon
    normalized = attention == "soft"
    tokens = sources()[:2]
    weights = torch.rand(4, 3, tokens.size(1), dtype=torch.float64).masked_fill(
        tokens.eq(1).repeat_interleave(2, 0).unsqueeze(1), 0.0
    )
    if normalized:
        weights = weights / weights.sum(-1, keepdim=True)
    logits = torch.randn(4, 3, len(TARGET), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, w: bias(x, w, tokens, normalized), (logits, weights.clone().requires_grad_())
    )


@pytest.mark.parametrize("feeding", FEEDING)
def test_the_lexicon_follows_hypotheses_where_no_weights_are_asked_for(feeding, file):
    model = make(file, feeding=feeding)
    model.make_generation_fast_(need_attn=False)
    assert_steps_equal_the_whole(model, sources(), weights=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite(dtype, file):
    model = make(file).to(dtype).train()
    logits, _ = model(sources(), None, targets())
    assert logits.dtype == dtype and logits.isfinite().all()
    logits.float().logsumexp(-1).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


# ---- files


def test_entries_outside_the_vocabularies_are_left_out(tmp_path, caplog):
    caplog.set_level("INFO")
    entries = {**ENTRIES, ("unheard", "w3"): 0.5, ("w5", "unheard"): 0.5, ("w5", "w1"): 0.0}
    bias = make(write(tmp_path / "lexicon.tsv", entries)).decoder.lexicon
    assert bias.entries.shape == (len(SOURCE), 3), "w1 has the most translations"
    held = {
        (SOURCE[f], TARGET[int(e)]): float(p)
        for f in range(len(SOURCE))
        for e, p in zip(bias.entries[f], bias.probabilities[f])
        if p > 0
    }
    assert held == ENTRIES
    assert "7 translations of 4 of 24 source symbols" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "--lexicon {path}: cannot be read: No such file or directory"),
        ("", "--lexicon {path}: has no entries; create it with fairseq-attn lexicon"),
        ("w0 w3\n", "--lexicon {path}, line 1: must be an entry of a lexicon: source, target, probability"),
        ("w0\tw3\tnan\n", "line 1: must be an entry"),
        ("w0\tw3\t0.5\nw0\tw3\t0.4\n", "line 2: w0 w3 occurs twice, with different probabilities"),
        ("klein@@\tsma@@\t0.5\n", "none of its 1 source words has a translation within the vocabularies"),
        (b"w0\tw3\t0.5\n\xff\n", "--lexicon {path}: is not UTF-8 after line"),
    ],
)
def test_wrong_files(content, message, tmp_path):
    path = tmp_path / "lexicon.tsv"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(OptionError, match=re.escape(message.format(path=path))):
        make(str(path))


@refuses(
    ("attn_lstm", {"adaptive_softmax_cutoff": "5"}, "leave it or --adaptive-softmax-cutoff 5 out"),
    ("attn_lstm", {"decoder_attention": "False"}, "needs attention, which --decoder-attention False turns off"),
    ("attn_lstm", {"lexicon_epsilon": 0.0}, r"--lexicon-epsilon 0\.0: must be more than 0"),
    ("lstm_latent_small", {"input_feeding": "context"}, "choose an --arch without latent alignment"),
    ("lstm_agreement_small", {}, "was made for one direction"),
)
def test_options_that_do_not_go_with_it(arch, options, file):
    build(arch, fake_task(source_lang="de", target_lang="en"), lexicon=file, **options)


# ---- checkpoints


def test_without_a_lexicon_checkpoints_are_as_they_were(file):
    assert not [name for name in make().state_dict() if "lexicon" in name]
    held = make(file)
    held.load_state_dict(make().state_dict())
    assert held.decoder.lexicon.active, "a training may be continued with a lexicon"


def test_checkpoints_hold_lexicons_of_any_size(file, tmp_path):
    state, other = make(file).state_dict(), write(tmp_path / "other.tsv", {("w1", "w2"): 0.5})
    for options in ({}, {"lexicon": file}, {"lexicon": other}):
        model = make(**options)
        model.load_state_dict(state)
        for name in ("entries", "probabilities"):
            assert torch.equal(getattr(model.decoder.lexicon, name), state[f"decoder.lexicon.{name}"])


def words_right(lines):
    """The share of the words of all hypotheses that translate a word of their source, which is spelt backwards."""
    assert len(lines["H"]) == 40
    right = [w[::-1] in lines["S"][i][0].split() for i, (_, text) in lines["H"].items() for w in text.split()]
    return sum(right) / len(right)


def test_training_and_translation_by_the_commands(tiny_data, tmp_path):
    """With the right lexicon a model that has hardly been trained knows the words, also if it is added afterwards."""
    from fairseq.data import Dictionary

    path = tmp_path / "lexicon.tsv"
    words = Dictionary.load(str(tiny_data / "dict.xx.txt")).symbols[4:]
    write(path, {**{(word, word[::-1]): 1 for word in words}, ("</s>", "</s>"): 1})
    trained, without = (
        train(tiny_data, tmp_path / name, *TINY["lstm_soft"], "--disable-validation", *options, updates=8).last
        for name, options in (("with", ["--lexicon", path]), ("without", []))
    )
    search, added = ["--beam", 3, "--max-len-b", 10], ["--lexicon-epsilon", 1e-6, "--lexicon"]
    kept = path.rename(tmp_path / "kept.tsv")  # a model that was trained with a lexicon has it
    assert words_right(generate(tiny_data, trained, *search)) > 0.9
    assert words_right(generate(tiny_data, without, *search, *added, kept)) > 0.9
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", without, *added, path]
    assert run_tool(*command, fails=True).error == f"--lexicon {path}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("arch", "options", "takes"),
    [
        ("attn_lstm", {}, True),
        ("attn_lstm", {"decoder_attention": "False"}, False),
        ("attn_lstm", {"adaptive_softmax_cutoff": "5"}, False),
        ("lstm_latent_small", {"input_feeding": "context"}, False),
        ("lstm_agreement_small", {}, True),
    ],
)
def test_lexicons_of_trained_models(arch, options, takes, file):
    task = fake_task(source_lang="de", target_lang="en")
    model, other = build(arch, task, **options), build("attn_lstm", decoder_attention="False")
    overrides = {"lexicon": file, "lexicon_epsilon": 0.5}
    if takes:
        check([other, model], overrides)
        take_lexicon([other, model], overrides, task)
        assert model.decoder.lexicon.active and not other.decoder.lexicon.active
        assert model.decoder.lexicon.epsilon == 0.5
        with pytest.raises(OptionError, match="--lexicon-epsilon 0.5: has no effect without --lexicon"):
            take_lexicon([build(arch, task, **options)], {"lexicon_epsilon": 0.5}, task)
        with pytest.raises(OptionError, match="--lexicon-epsilon 0.0: must be a number above 0"):
            take_lexicon([model], {"lexicon_epsilon": 0.0}, task)
    else:
        with pytest.raises(OptionError, match=re.escape(f"--lexicon {file}: none of the models of --path takes a")):
            check([other, model], overrides)
