"""Attention from positions alone and with further votes: values, files, checkpoints that need no files, teachers."""

import copy
import json
import math
import re
from dataclasses import asdict

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from models_for_tests import (
    LENGTHS,
    assert_steps_equal_the_whole,
    build,
    dictionary,
    fake_task,
    pad_batch,
    save_checkpoint,
    targets,
)
from refusals import refuses

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.attention.positional import gaussian
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import file_options
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

import oracles

SOURCE, TARGET = dictionary(20), dictionary(15)  # of fake_task
PAD = 1


def attention(name="gaussian", dtype=torch.float64, **options):
    return build_attention(name, query_dim=3, memory_dim=4, **options).to(dtype)


def attend(module, size, steps, dtype=torch.float64):
    """Weights, scores and contexts of one sentence of ``size`` positions, and its encodings."""
    encodings = torch.randn(1, size, 4, dtype=dtype, generator=torch.Generator().manual_seed(size))
    query, positions = torch.zeros(1, steps, 3, dtype=dtype), torch.arange(steps).unsqueeze(0)
    out = module.step(query, module.precompute(encodings), None, positions)
    return out.weights[0], out.scores[0], out.context[0], encodings[0]


# ---- values


def test_a_worked_example():
    """Four words and the end: k = floor(log2 4) = 2; in step 1 the positions 0 to 3 are in the window."""
    weights, scores, _, _ = attend(attention(), 5, 2)
    heights = [math.exp(-0.5), 1.0, math.exp(-0.5), math.exp(-2.0)]
    expected = torch.tensor([height / sum(heights) for height in heights] + [0.0], dtype=torch.float64)
    torch.testing.assert_close(weights[1], expected)
    torch.testing.assert_close(scores[1, :4], torch.tensor([-0.5, 0.0, -0.5, -2.0], dtype=torch.float64))
    assert scores.isfinite().all() and scores[1, 4] <= -1e4


@pytest.mark.parametrize(
    ("rule", "by_words"),
    [
        ("log4", {0: 0, 1: 0, 3: 0, 4: 1, 15: 1, 16: 2}),
        ("log3", {2: 0, 3: 1, 8: 1, 9: 2}),
        ("log2", {1: 0, 2: 1, 3: 1, 4: 2, 8: 3}),
        ("half", {1: 0, 5: 2, 8: 4}),
        ("3", {0: 0, 1: 3, 20: 3}),
    ],
)
def test_windows_of_the_rules(rule, by_words):
    for words, k in by_words.items():
        weights, _, _, _ = attend(attention(rule=rule, sigma=5.0), words + 1, words + 1)
        for t, row in enumerate(weights):
            inside = [j for j, weight in enumerate(row) if weight > 0]
            assert inside == [j for j in range(words + 1) if abs(j - t) <= k], (words, t)


@pytest.mark.parametrize("ratio", [0.4, 0.5, 1.0, 1.5, 2.0, 2.7])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_long_targets_stay_at_the_end(ratio, size):
    """Halves are rounded up, and after the centre has reached the last position all steps have the same weights."""
    module = attention(ratio=ratio, rule="2", sigma=0.8, mean=0.2)
    steps = 2 + math.ceil(ratio * size)
    weights, _, context, encodings = attend(module, size, steps)
    expected = torch.stack([oracles.gaussian(module, size, t) for t in range(steps)])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(context, expected @ encodings)
    assert torch.equal(weights[-1], weights[-2])


def test_numbers_keep_their_precision_in_a_half_precision_model():
    """In float16 a ratio of 1.003 would be a position off after 2,000 words."""
    module = attention(dtype=torch.float32, ratio=1.003, rule="1", sigma=0.3)
    size = 2000
    expected, _, _, _ = attend(module, size, size, torch.float32)
    half = copy.deepcopy(module).half()
    assert half.log_ratio.dtype == torch.float32 and torch.equal(half.log_ratio, module.log_ratio)
    weights, scores, context, _ = attend(half, size, size, torch.float16)
    assert weights.dtype == context.dtype == torch.float16 and scores.isfinite().all()
    torch.testing.assert_close(weights.float(), expected, rtol=0, atol=5e-4)


@pytest.mark.parametrize("options", [{"sigma": 1e-300, "mean": 0.4}, {"sigma": 1e6}, {"mean": 50.0, "sigma": 0.1}])
def test_extreme_values_stay_finite(options):
    for dtype in (torch.float32, torch.float16):
        weights, scores, context, _ = attend(attention(dtype=dtype, **options), 6, 8, dtype)
        assert weights.isfinite().all() and scores.isfinite().all() and context.isfinite().all()
        torch.testing.assert_close(weights.float().sum(-1), torch.ones(8), rtol=0, atol=2e-3)


def test_trained_and_fixed_values_are_restored_from_each_other():
    fixed = attention(rule="half", sigma=0.6, mean=-0.2, ratio=1.4)
    trained = attention(trained=True)
    trained.load_state_dict(fixed.state_dict())
    again = attention(rule="log4")
    attend(again, 9, 12)  # what it has read of its numbers does not outlive them
    again.load_state_dict(trained.state_dict())
    expected, _, _, _ = attend(fixed, 9, 12)
    for module in (trained, again):
        torch.testing.assert_close(attend(module, 9, 12)[0].detach(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [6, 150])
@pytest.mark.parametrize("options", [{}, {"trained": True, "ratio": 1.3}, {"max_normalize": True}], ids=str)
def test_contexts_looked_up_are_those_of_training(size, options):
    module = attention(sigma=0.777, **options)
    encodings = torch.randn(2, size, 4, dtype=torch.float64, requires_grad=True)
    positions, query = torch.tensor([[0, 3, size + 2], [1, 1, 5]]), torch.zeros(2, 3, 3, dtype=torch.float64)
    with torch.inference_mode():
        memory = module.precompute(encodings)
        found = module.step(query, memory, None, positions)
    assert memory.rows.size(-1) == 2 * size + 4, "no contexts were computed beforehand"
    training = module.step(query, module.precompute(encodings), None, positions)
    training.context.sum().backward()
    torch.testing.assert_close(found[:3], training[:3])


@pytest.mark.parametrize(
    "name, options",
    [
        ("gaussian", {"trained": True, "ratio": 1.3, "mean": 0.4}),
        ("gaussian", {"rule": "log3", "max_normalize": True}),
        ("election", {}),
    ],
)
def test_long_sentences_have_the_same_weights_without_a_table(monkeypatch, name, options):
    module, known, read = attention(name, torch.float32, **options), {}, {}
    if name == "election":
        known, read = {"source_tokens": torch.randint(1, 20, (2, 40))}, {"inputs": torch.randint(1, 20, (2, 60))}
        module.table = torch.randint(1, 9, (20, 3))
    mask = torch.zeros(2, 40, dtype=torch.bool)
    mask[1, 30:] = True
    encodings, seen = torch.randn(2, 40, 4), []
    for longest in (256, 10):
        monkeypatch.setattr(module, "_longest_table", longest)
        e = encodings.clone().requires_grad_()
        memory = module.precompute(e, mask, **known)
        out = module.step(torch.zeros(2, 60, 3), memory, None, torch.arange(60).expand(2, 60), **read)
        grads = torch.autograd.grad(out.context.sin().sum(), [e, *module.parameters()])
        seen.append([out.context.detach(), out.weights, out.scores, *grads])
    torch.testing.assert_close(*seen, rtol=1e-4, atol=1e-5)


# ---- files


def election(**changes):
    content = {
        "format": "fairseq_attn_plugin election 1",
        "source_vocabulary": describe_vocabulary(SOURCE),
        "target_vocabulary": describe_vocabulary(TARGET),
        "length_ratio": 1.25,
        "rules": [{"rule": "half", "mean_k": 3.5}],
        "recommended": {"rule": "half", "sigma": 0.8, "mean": -0.1},
    }
    return {**content, **changes}


def words(**changes):
    named = {"w0": ["w3", "w5", "w4"], "w2": ["w1"], "w7": []}
    return {**election(), "format": "fairseq_attn_plugin words 1", "words": named, **changes}


def recommended(**changes):
    return election(recommended={**election()["recommended"], **changes})


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path):
    """An election and a table for the vocabularies of ``fake_task``."""
    return write(tmp_path / "election.json", election()), write(tmp_path / "words.json", words())


def test_values_and_the_table_come_from_the_files(files):
    for options in ({}, {"gaussian_sigma": 0.8, "gaussian_rule": "half"}, {"gaussian_trained": True}):
        module = build("lstm_gaussian", gaussian_election=files[0], **options).decoder.attention
        expected = attention(rule="half", sigma=0.8, mean=-0.1, ratio=1.25)
        torch.testing.assert_close(module.state_dict(), expected.state_dict(), check_dtype=False)
    table = build("lstm_election", election_table=files[1]).decoder.attention.table
    expected = torch.full((len(TARGET), 3), PAD)
    for target, sources in words()["words"].items():
        expected[TARGET.index(target), : len(sources)] = torch.tensor([SOURCE.index(word) for word in sources])
    assert torch.equal(table, expected)


def test_a_gpu_is_not_asked_for_trained_numbers_in_each_step(monkeypatch):
    """Of sources that are longer than the tables."""
    module = attention(trained=True).eval()
    monkeypatch.setattr(type(module), "_longest_table", 0)
    with torch.no_grad():
        expected = attend(module, 7, 4)
        monkeypatch.setattr(gaussian, "on_gpu", lambda x: True)
        number = type(module)._number
        monkeypatch.setattr(type(module), "_number", lambda self, name: number(self, {"rule": name}[name]))
        torch.testing.assert_close(attend(module, 7, 4), expected)


OTHER = describe_vocabulary(dictionary(7))


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("gaussian_election", None, "no such file; fairseq-attn election writes one"),
        ("gaussian_election", "rho: 1", "is not JSON"),
        ("gaussian_election", "[1, 2]", "is of the format None, must be 'fairseq_attn_plugin election 1'"),
        ("gaussian_election", words(), "is of the format 'fairseq_attn_plugin words 1'"),
        (
            "gaussian_election",
            election(source_vocabulary=OTHER),
            "another source vocabulary (11 symbols; the data have 24)",
        ),
        ("gaussian_election", election(target_vocabulary=None), "another target vocabulary"),
        ("gaussian_election", recommended(rule=-2), "the rule -2: must be at least 1 position"),
        ("gaussian_election", recommended(rule="log5"), "the rule log5: must be one of log4, log3, log2, half"),
        ("gaussian_election", recommended(sigma=0), "sigma 0.0, mean -0.1 and length_ratio 1.25 must be numbers"),
        ("gaussian_election", recommended(mean="wide"), "lacks values; fairseq-attn election writes whole files"),
        ("gaussian_election", recommended(mean=10**400), "lacks values; fairseq-attn election writes whole files"),
        ("gaussian_election", election(length_ratio=1e9), "the last from 0.001 to 1000"),
        ("gaussian_election", election(length_ratio=1e-300), "the last from 0.001 to 1000"),
        ("gaussian_election", recommended(mean=1e20), "the second at most 1000000"),
        ("election_table", None, "no such file; fairseq-attn election --agent writes one"),
        ("election_table", words(target_vocabulary=OTHER), "another target vocabulary"),
        ("election_table", words(words=["w0"]), "must have lists of words of the source vocabulary by words of the"),
        ("election_table", words(words={"w0": ["w19", "w20"]}), "must have lists of words of the source vocabulary"),
        ("election_table", words(words={"w19": ["w1"]}), "must have lists of words of the source vocabulary"),
        ("election_table", words(words={"w0": []}), "no target word has a source word"),
    ],
)
def test_wrong_files(option, content, message, tmp_path):
    path = tmp_path / "file.json"
    if content is not None:
        write(path, content)
    with pytest.raises(OptionError, match="^" + re.escape(f"--{option.replace('_', '-')} {path}: ")) as error:
        build("lstm_election", **{option: str(path)})
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "value"), [("rule", "log2"), ("sigma", 1.0), ("mean", 0.0), ("ratio", 1.0)])
def test_an_option_beside_the_election_must_agree(name, value, files):
    with pytest.raises(OptionError, match=f"^--gaussian-{name} {value}: --gaussian-election {files[0]} says"):
        build("lstm_gaussian", gaussian_election=files[0], **{f"gaussian_{name}": value})


def test_a_mechanism_with_unread_files_says_so():
    """In a notebook, where nobody has called read_files."""
    for name, options in (("gaussian", {"election": "e.json"}), ("election", {"table": "w.json"})):
        module = attention(name, **options)
        with pytest.raises(ValueError, match="call read_files"):
            attend(module, 3, 1)
        module.load_state_dict(attention(name).state_dict())
        attend(module, 3, 1)


def test_both_directions_have_no_files():
    task = fake_task(source_lang="de", target_lang="en")
    for name in ("gaussian_election", "election_table", "election_teacher"):
        with pytest.raises(OptionError, match=f"^--{name.replace('_', '-')} x: .*an agreement model has two"):
            build("lstm_agreement_small", task, attention="election", **{name: "x"})
    model = build("lstm_agreement_small", task, attention="gaussian")  # of a checkpoint
    options = {**asdict(MODEL_DATACLASS_REGISTRY["lstm_agreement_small"]()), "attention": "gaussian"}
    options["_name"] = "lstm_agreement_small"
    with pytest.raises(OptionError, match="^--attention gaussian: has no scores, .*choose .*, such as soft$"):
        type(model).check_training({"model": options, "criterion": {"_name": "agreement"}})


@refuses(
    ("lstm_gaussian", {"election_table": "x"}, "^--election-table x: --attention gaussian does not read it; .*el"),
    ("lstm_soft", {"gaussian_election": "x"}, "^--gaussian-election x: --attention soft does not read it"),
    (
        "lstm_gaussian",
        {"gaussian_election": "x", "decoder_attention": "False"},
        "^--gaussian-election x: a model with --decoder-attention False",
    ),
    ("lstm_gaussian", {"gaussian_rule": "1000001"}, "^--gaussian-rule 1000001: must be at most a million"),
)
def test_files_that_no_mechanism_reads(arch, options):
    build(arch, **options)


# ---- models


@pytest.mark.parametrize("feeding", ["output", "context", "none"])
def test_words_that_vote_are_found_wherever_a_search_moves_hypotheses(feeding):
    model = build("lstm_election", seed=3, input_feeding=feeding, gaussian_sigma=0.7).double().eval()
    source = pad_batch(LENGTHS)
    # half of the target words, three source words each
    table = torch.randint(4, len(SOURCE), (len(TARGET), 3), generator=torch.Generator().manual_seed(9))
    table[::2] = PAD
    plain = model(source, None, targets())[1]["attn"][0]
    model.decoder.attention.table = table
    assert not torch.allclose(model(source, None, targets())[1]["attn"][0], plain), "nobody votes"
    assert_steps_equal_the_whole(model, source)


def test_what_a_checkpoint_holds_is_used(files):
    options = {"gaussian_election": files[0], "election_table": files[1]}
    state = build("lstm_election", **options).state_dict()
    for given in ({}, options):  # with a table of another width than the new model's, or none
        model = build("lstm_election", **given)
        model.load_state_dict(state)
        for name in ("table", "rule", "log_sigma", "mean", "log_ratio"):
            assert torch.equal(getattr(model.decoder.attention, name), state[f"decoder.attention.{name}"])


def test_its_files_are_declared_as_files():
    files = file_options(MODEL_DATACLASS_REGISTRY["lstm_election"])
    assert {"gaussian_election", "election_table", "election_teacher", "lexicon", "decoder_embed_path"} < set(files)


# ---- teachers


@pytest.mark.parametrize("arch", ["lstm_election", "lstm_soft", "lstm_latent_small"])
def test_parameters_are_the_teachers_but_for_the_attentions(arch, tmp_path, caplog):
    caplog.set_level("INFO")
    options = {"input_feeding": "context"} if arch == "lstm_latent_small" else {}
    teacher = build("lstm_soft", seed=1, attention_score="additive", **options)
    path = save_checkpoint(tmp_path / "teacher.pt", teacher)
    plain, model = (build(arch, seed=2, **given, **options) for given in ({}, {"election_teacher": path}))
    theirs, own, taken = teacher.state_dict(), plain.state_dict(), 0
    for name, value in model.named_parameters():
        found = name in theirs and not name.startswith("decoder.attention.")
        taken += found
        assert torch.equal(value, (theirs if found else own)[name]), name
    assert taken > 20 and f"{path}: {taken} of " in caplog.text
    assert not torch.equal(own["decoder.lstm.weight_hh_l0"], theirs["decoder.lstm.weight_hh_l0"])
    assert model.training == plain.training and all(p.requires_grad for p in model.parameters())


def test_what_the_teacher_lacks_is_named(tmp_path, caplog):
    path = save_checkpoint(tmp_path / "teacher.pt", build("lstm_soft", decoder_layers=1))
    build("lstm_gaussian", election_teacher=path)
    assert "lacks decoder.lstm.weight_ih_l1, decoder.lstm.weight_hh_l1" in caplog.text


@pytest.mark.parametrize(
    ("options", "target", "message"),
    [
        ({"decoder_attention": "False"}, 15, "decoder.output_projection.weight is missing in the teacher"),
        ({"encoder_hidden_size": 9}, 15, "encoder.lstm.weight_ih_l0 is 36 x 10 in the teacher and 32 x 10 in the"),
        ({"decoder_layers": 3}, 15, "decoder.lstm.weight_ih_l2 is 56 x 14 in the teacher and missing in the model"),
        ({}, 16, "decoder.embed_tokens.weight is 20 x 12 in the teacher and 19 x 12 in the model; .* data, sizes"),
    ],
)
def test_wrong_teachers(options, target, message, tmp_path):
    teacher = build("lstm_soft", fake_task(target=dictionary(target)), **options)
    path = save_checkpoint(tmp_path / "teacher.pt", teacher)
    with pytest.raises(OptionError, match=f"^--election-teacher {path}: .*{message}") as error:
        build("lstm_gaussian", election_teacher=path)
    assert "\n" not in str(error.value)


@refuses(
    ("none.pt", "none.pt: .*no such file"),
    ("linear.pt", "linear.pt: .*encoder.lstm.weight_ih_l0 is missing in the teacher .* an lstm_soft"),
    ("other.pt", "other.pt: .*must be a checkpoint that fairseq-train wrote"),
)
def test_teachers_that_are_none(name, tmp_path):
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pt")
    save_checkpoint(tmp_path / "linear.pt", torch.nn.Linear(2, 2), "transformer")
    build("lstm_gaussian", election_teacher=str(tmp_path / name))
