"""Attention from positions alone and with further votes: values, files, checkpoints that need no files, teachers."""

import copy
import json
import logging
import math
import re
from pathlib import Path

import pytest
import torch
from fairseq import models
from fairseq.models import MODEL_DATACLASS_REGISTRY
from in_process import run_tool
from models_for_tests import SIZES, build, dictionary, fake_task, pad_batch
from omegaconf import OmegaConf

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import file_options
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

import oracles
from cli import TINY, USER_DIR

SOURCE, TARGET = dictionary(20), dictionary(15)  # of fake_task
PAD, EOS = 1, 2
LENGTHS = [3, 6, 1, 4]


def attention(name="gaussian", dtype=torch.float64, **options):
    return build_attention(name, query_dim=3, memory_dim=4, **options).to(dtype)


def attend(module, size, steps, dtype=torch.float64, **words):
    """Weights, scores and contexts of one sentence of ``size`` positions, and its encodings."""
    encodings = torch.randn(1, size, 4, dtype=dtype, generator=torch.Generator().manual_seed(size))
    tokens = {"source_tokens": words["source_tokens"]} if "source_tokens" in words else {}
    memory = module.precompute(encodings, None, **tokens)
    inputs = {"inputs": words["inputs"]} if "inputs" in words else {}
    query = torch.zeros(1, steps, 3, dtype=dtype)
    out = module.step(query, memory, None, torch.arange(steps).unsqueeze(0), **inputs)
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
            assert [j for j, weight in enumerate(row) if weight > 0] == [
                j for j in range(words + 1) if abs(j - t) <= k
            ], (words, t)


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


@pytest.mark.parametrize("size", [6, 150])  # the rows of the shorter one are kept for further sentences
def test_contexts_looked_up_are_those_of_training(size):
    for options in ({}, {"trained": True, "ratio": 1.3}, {"max_normalize": True}):
        module = attention(sigma=0.777, **options)  # in no other test, so that rows are kept from inference mode
        encodings = torch.randn(2, size, 4, dtype=torch.float64, requires_grad=True)
        positions = torch.tensor([[0, 3, size + 2], [1, 1, 5]])
        query = torch.zeros(2, 3, 3, dtype=torch.float64)
        with torch.inference_mode():
            memory = module.precompute(encodings)
            found = module.step(query, memory, None, positions)
        training = module.step(query, module.precompute(encodings), None, positions)
        training.context.sum().backward()
        assert memory.rows.size(-1) == 2 * size + 4, "no contexts were computed beforehand"
        for one, other in zip(found[:3], training[:3]):
            torch.testing.assert_close(one, other)


def test_sentences_with_equal_rows_do_not_share_values():
    """Rows are kept by everything that they depend on."""
    rows = [
        attend(attention(**options), 6, 6)[0]
        for options in ({}, {"sigma": 2.0}, {"mean": 0.5}, {"ratio": 2.0}, {"rule": "1"}, {"max_normalize": True})
    ]
    assert not any(torch.allclose(a, b) for i, a in enumerate(rows) for b in rows[:i])
    assert attend(attention(dtype=torch.float32), 6, 6, torch.float32)[0].dtype == torch.float32


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


def test_trained_values_get_gradients():
    module = attention(trained=True, ratio=1.2, mean=0.1)
    weights, _, _, _ = attend(module, 6, 5)
    weights.square().sum().backward()
    assert {name for name, _ in module.named_parameters()} == {"log_sigma", "mean", "log_ratio"}
    assert all(parameter.grad != 0 for parameter in module.parameters())
    assert not list(attention().parameters())


def test_trained_and_fixed_values_are_restored_from_each_other():
    fixed = attention(rule="half", sigma=0.6, mean=-0.2, ratio=1.4)
    trained = attention(trained=True)
    trained.load_state_dict(fixed.state_dict())
    again = attention(rule="log4")
    again.load_state_dict(trained.state_dict())
    expected, _, _, _ = attend(fixed, 9, 12)
    for module in (trained, again):
        torch.testing.assert_close(attend(module, 9, 12)[0].detach(), expected, rtol=1e-6, atol=1e-7)


def test_max_normalized_weights_have_the_maximum_one():
    weights, _, _, _ = attend(attention(max_normalize=True, ratio=1.5), 7, 9)
    torch.testing.assert_close(weights.amax(-1), torch.ones(9, dtype=torch.float64))
    plain, _, _, _ = attend(attention(ratio=1.5), 7, 9)
    torch.testing.assert_close(weights / weights.sum(-1, keepdim=True), plain)


def test_further_votes():
    """Every source word that the table has for the input word gets the share, except the word at the centre."""
    module = attention("election", share=0.3, sigma=0.5, rule="1")
    module.table = torch.full((20, 2), PAD)
    module.table[7] = torch.tensor([11, 12])
    module.table[8] = torch.tensor([13, PAD])
    tokens, inputs = torch.tensor([[11, 14, 12, 11, EOS]]), torch.tensor([[EOS, 7, 7, 8, 7]])
    plain, _, _, _ = attend(attention(sigma=0.5, rule="1"), 5, 5)
    weights, _, context, encodings = attend(module, 5, 5, source_tokens=tokens, inputs=inputs)
    votes = torch.zeros(5, 5, dtype=torch.float64)
    votes[1, [0, 2, 3]] = votes[2, [0, 3]] = votes[4, [0, 2, 3]] = 0.3  # the centre of step 2 is at 2
    torch.testing.assert_close(weights, plain + votes)
    torch.testing.assert_close(context, (plain + votes) @ encodings)
    assert not module.normalized


def test_without_a_table_there_are_no_votes():
    plain, _, context, _ = attend(attention(), 5, 7)
    for module in (attention("election"), attention("election", share=0.0)):
        weights, _, other, _ = attend(module, 5, 7)
        torch.testing.assert_close(weights, plain)
        torch.testing.assert_close(other, context)
    assert attention("election", share=0.0).normalized


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
    content = {
        "format": "fairseq_attn_plugin words 1",
        "source_vocabulary": describe_vocabulary(SOURCE),
        "target_vocabulary": describe_vocabulary(TARGET),
        "words": {"w0": ["w3", "w5", "w4"], "w2": ["w1"], "w7": []},
    }
    return {**content, **changes}


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_values_come_from_the_election(tmp_path):
    path = write(tmp_path / "election.json", election())
    for options in ({}, {"gaussian_sigma": 0.8, "gaussian_rule": "half"}, {"gaussian_trained": True}):
        module = build("lstm_gaussian", gaussian_election=path, **options).decoder.attention
        expected = attention(rule="half", sigma=0.8, mean=-0.1, ratio=1.25).state_dict()
        for name, value in module.state_dict().items():
            torch.testing.assert_close(value, expected[name].to(value.dtype))


def test_the_table_is_that_of_the_file(tmp_path):
    path = write(tmp_path / "words.json", words())
    table = build("lstm_election", election_table=path).decoder.attention.table
    assert table.shape == (len(TARGET), 3)
    assert table[TARGET.index("w0")].tolist() == [SOURCE.index(word) for word in ("w3", "w5", "w4")]
    assert table[TARGET.index("w2")].tolist() == [SOURCE.index("w1"), PAD, PAD]
    others = [i for i in range(len(TARGET)) if TARGET[i] not in ("w0", "w2")]
    assert (table[others] == PAD).all()


def other_vocabulary(side):
    return {f"{side}_vocabulary": describe_vocabulary(dictionary(7))}


def recommended(**changes):
    return election(recommended={**election()["recommended"], **changes})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; fairseq-attn election writes one"),
        ("rho: 1", "is not JSON"),
        ("[1, 2]", "is of the format None, must be 'fairseq_attn_plugin election 1'"),
        (words(), "is of the format 'fairseq_attn_plugin words 1'"),
        (election(**other_vocabulary("source")), "another source vocabulary (11 symbols; the data have 24)"),
        (election(**other_vocabulary("target")), "another target vocabulary"),
        (election(target_vocabulary=None), "another target vocabulary"),
        (recommended(rule="0"), "the rule 0: must be at least 1 position"),
        (recommended(rule=-2), "the rule -2: must be at least 1 position"),
        (recommended(rule="log5"), "the rule log5: must be one of log4, log3, log2, half"),
        (election(rules=[{"rule": "half", "mean_k": 0}]), "k of its rule half is 0 for all sentences"),
        (recommended(sigma=0), "its sigma is 0.0, must be above 0"),
        (recommended(sigma="wide"), "its recommended.sigma is 'wide', must be a number"),
        (recommended(mean=None), "its recommended.mean is None, must be a number"),
        (election(length_ratio=-1), "its length_ratio is -1.0, must be above 0"),
        (election(length_ratio=1e9), "at most 1000"),
        (election(recommended=None), "the rule None"),
    ],
)
def test_wrong_elections(content, message, tmp_path):
    path = tmp_path / "election.json"
    if content is not None:
        write(path, content)
    with pytest.raises(OptionError, match="^" + re.escape(f"--gaussian-election {path}: ")) as error:
        build("lstm_gaussian", gaussian_election=str(path))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; fairseq-attn election --agent writes one"),
        ("{", "is not JSON"),
        (election(), "is of the format 'fairseq_attn_plugin election 1', must be 'fairseq_attn_plugin words 1'"),
        (words(**other_vocabulary("source")), "another source vocabulary"),
        (words(**other_vocabulary("target")), "another target vocabulary"),
        (words(words=["w0"]), "has no words"),
        (words(words={"w0": "w1"}), "the entry of 'w0' is 'w1', must be a list of source words"),
        (words(words={"w0": ["w19", "w20"]}), "'w20' is not in the source vocabulary"),
        (words(words={"w19": ["w1"]}), "'w19' is not in the target vocabulary"),
        (words(words={}), "no target word has a source word"),
        (words(words={"w0": []}), "no target word has a source word"),
    ],
)
def test_wrong_tables(content, message, tmp_path):
    path = tmp_path / "words.json"
    if content is not None:
        write(path, content)
    with pytest.raises(OptionError, match="^" + re.escape(f"--election-table {path}: ")) as error:
        build("lstm_election", election_table=str(path))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "value"), [("rule", "log2"), ("sigma", 1.0), ("mean", 0.0), ("ratio", 1.0)])
def test_an_option_beside_the_election_must_agree(name, value, tmp_path):
    path = write(tmp_path / "election.json", election())
    with pytest.raises(OptionError, match=f"^--gaussian-{name} {value}: --gaussian-election {path} says"):
        build("lstm_gaussian", gaussian_election=path, **{f"gaussian_{name}": value})


def test_a_mechanism_with_unread_files_says_so(tmp_path):
    """In a notebook, where nobody has called read_files."""
    for name, options in (("gaussian", {"election": "e.json"}), ("election", {"table": "w.json"})):
        module = attention(name, **options)
        with pytest.raises(ValueError, match="call read_files"):
            attend(module, 3, 1)
        module.load_state_dict(attention(name).state_dict())
        attend(module, 3, 1)


def test_both_directions_have_no_files(tmp_path):
    names = ("gaussian_election", "election_table", "election_teacher")
    task = fake_task(source_lang="de", target_lang="en")
    for name in names:
        with pytest.raises(OptionError, match=f"^--{name.replace('_', '-')} x: .*an agreement model has two"):
            build("lstm_agreement_small", task, attention="election", **{name: "x"})
    model = build("lstm_agreement_small", task, attention="gaussian", gaussian_ratio=1.25, gaussian_mean=0.2)
    one, other = (model.of(direction).decoder.attention for direction in ("de-en", "en-de"))
    for t in range(5):  # where the forward line goes through (t, j), the reverse one goes through (j, t)
        j = t / one.log_ratio.exp() + one.mean
        torch.testing.assert_close(j / other.log_ratio.exp() + other.mean, torch.tensor(float(t)))


# ---- models


def voting_model(feeding, table=True, dtype=torch.float64, **options):
    torch.manual_seed(3)
    model = build("lstm_election", input_feeding=feeding, gaussian_sigma=0.7, **options).to(dtype).eval()
    if table:  # half of the words of fake_task's dictionaries, three source words each
        generator = torch.Generator().manual_seed(9)
        rows = torch.randint(4, len(SOURCE), (len(TARGET), 3), generator=generator)
        rows[::2] = PAD
        model.decoder.attention.table = rows
    return model


@pytest.mark.parametrize("feeding", ["output", "context", "none"])
@pytest.mark.parametrize("grad", [True, False], ids=["with gradients", "without"])
def test_beam_search_incremental_and_whole_decoding_agree(feeding, grad):
    """The words that vote are found wherever fairseq moves hypotheses and sentences."""
    model, beam = voting_model(feeding), 3
    source = pad_batch(LENGTHS)
    rows = torch.arange(len(LENGTHS)).repeat_interleave(beam)
    prefixes = pad_batch([6] * len(rows), "right", symbols=15, seed=3)
    with torch.set_grad_enabled(grad):
        plain = voting_model(feeding, table=False)(source[rows], None, prefixes)[1]["attn"][0]
        assert not torch.allclose(model(source[rows], None, prefixes)[1]["attn"][0], plain), "nobody votes"
        encoder_out, state = model.encoder.reorder_encoder_out(model.encoder(source), rows), {}
        model.decoder(prefixes[:, :1], encoder_out, state)
        orders = [[1, 0, 0, 5, 4, 3, 6, 6, 6, 11, 9, 10], [8, 7, 6, 2, 1, 0], [0, 2, 1, 3, 3, 4], [3, 4, 5]]
        for t, order in enumerate(map(torch.tensor, orders), 1):
            model.decoder.reorder_incremental_state(state, order)
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
            prefixes, rows = prefixes[order].clone(), rows[order]
            logits, extra = model.decoder(prefixes[:, : t + 1], encoder_out, state)
            whole, weights = model(source[rows], None, prefixes[:, : t + 1])
            torch.testing.assert_close(logits[:, 0], whole[:, -1])
            torch.testing.assert_close(extra["attn"][0][:, 0], weights["attn"][0][:, -1])


def test_checkpoints_hold_tables_of_any_width(tmp_path, caplog):
    path = write(tmp_path / "words.json", words())
    other = write(tmp_path / "others.json", words(words={"w0": ["w3"]}))
    state = build("lstm_election", election_table=path).state_dict()
    for options in ({}, {"election_table": path}):
        model = build("lstm_election", **options)
        model.load_state_dict(state)
        assert torch.equal(model.decoder.attention.table, state["decoder.attention.table"])
    assert not caplog.records
    build("lstm_election", election_table=other).load_state_dict(state)
    assert "--election-table" in caplog.text and "has another table, and that one is used" in caplog.text


def test_values_of_a_checkpoint_win(tmp_path, caplog):
    path = write(tmp_path / "election.json", election())
    state = build("lstm_gaussian", gaussian_sigma=2.0).state_dict()
    model = build("lstm_gaussian", gaussian_election=path)
    model.load_state_dict(state)
    assert torch.equal(model.decoder.attention.log_sigma, state["decoder.attention.log_sigma"])
    assert "--gaussian-election" in caplog.text and "has other values, and these are used" in caplog.text


def test_files_are_left_out_where_a_checkpoint_is_loaded():
    config = OmegaConf.structured(MODEL_DATACLASS_REGISTRY["lstm_election"])
    files = file_options(MODEL_DATACLASS_REGISTRY["lstm_election"])
    assert {"gaussian_election", "election_table", "election_teacher", "lexicon", "decoder_embed_path"} < set(files)
    config = OmegaConf.merge(config, SIZES, {"_name": "lstm_election"}, dict.fromkeys(files, "/no/such/file"))
    OmegaConf.set_struct(config, True)
    with pytest.raises(OptionError, match="no such file|cannot be read"):
        models.build_model(config, fake_task())
    models.build_model(config, fake_task(), from_checkpoint=True)
    assert all(config[name] == "/no/such/file" for name in files), "the caller's configuration was changed"


# ---- teachers


def checkpoint(path, model, config=None):
    """What take_parameters needs of a file that fairseq-train writes."""
    config = {"model": {"_name": "lstm_soft"}, **(config or {})}
    history = [{"criterion_name": "x", "num_updates": 1, "lr_scheduler_state": {}}]
    extra = {
        "optimizer_history": history,
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save({"args": None, "cfg": config, "model": model.state_dict(), **extra}, path)
    return str(path)


@pytest.mark.parametrize("arch", ["lstm_gaussian", "lstm_election", "lstm_soft", "lstm_latent_small"])
def test_parameters_are_the_teachers_but_for_the_attentions(arch, tmp_path, caplog):
    torch.manual_seed(1)
    options = {"input_feeding": "context"} if arch == "lstm_latent_small" else {}
    teacher = build("lstm_soft", attention_score="additive", **options)
    path = checkpoint(tmp_path / "teacher.pt", teacher)
    torch.manual_seed(2)
    plain = build(arch, **options)
    torch.manual_seed(2)
    with caplog.at_level(logging.INFO):
        model = build(arch, election_teacher=path, **options)
    theirs, own = teacher.state_dict(), plain.state_dict()
    taken = 0
    for name, value in model.named_parameters():
        if name in theirs and not name.startswith("decoder.attention."):
            taken += 1
            assert torch.equal(value, theirs[name]), name
        else:
            assert torch.equal(value, own[name]), name
    assert taken > 20 and f"{path}: {taken} of " in caplog.text
    assert not torch.equal(own["decoder.lstm.weight_hh_l0"], theirs["decoder.lstm.weight_hh_l0"])
    assert model.training == plain.training and all(p.requires_grad for p in model.parameters())


def test_what_the_teacher_lacks_is_named(tmp_path, caplog):
    path = checkpoint(tmp_path / "teacher.pt", build("lstm_soft", decoder_layers=1))
    build("lstm_gaussian", election_teacher=path)
    assert "lacks decoder.lstm.weight_ih_l1, decoder.lstm.weight_hh_l1" in caplog.text


def test_wrong_teachers(tmp_path):
    big = fake_task(target=dictionary(16))
    cases = [
        ({"decoder_attention": "False"}, None, "has no attention"),
        ({"encoder_hidden_size": 9}, None, r"encoder.lstm.weight_ih_l0 is 36 x 10 in the teacher and 32 x 10 in the"),
        ({}, big, "has a target vocabulary of 20 symbols, the data have 19"),
    ]
    for number, (options, task, message) in enumerate(cases):
        path = checkpoint(tmp_path / f"{number}.pt", build("lstm_soft", task, **options))
        with pytest.raises(OptionError, match=f"^--election-teacher {path}: .*{message}") as error:
            build("lstm_gaussian", election_teacher=path)
        assert "\n" not in str(error.value)


def test_teachers_that_are_none(tmp_path):
    with pytest.raises(OptionError, match="^--election-teacher /no/such.pt: no such file"):
        build("lstm_gaussian", election_teacher="/no/such.pt")
    linear = checkpoint(tmp_path / "linear.pt", torch.nn.Linear(2, 2), {"model": {"_name": "transformer"}})
    with pytest.raises(OptionError, match="has the architecture transformer, whose parameters differ"):
        build("lstm_gaussian", election_teacher=linear)
    deeper = checkpoint(tmp_path / "deeper.pt", build("lstm_soft", decoder_layers=3), {"model": {"_name": "lstm_soft"}})
    with pytest.raises(OptionError, match="has decoder.lstm.weight_ih_l2 and others, which the model lacks"):
        build("lstm_gaussian", election_teacher=deeper)
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pt")
    with pytest.raises(OptionError, match="must be a checkpoint that fairseq-train wrote"):
        build("lstm_gaussian", election_teacher=str(tmp_path / "other.pt"))


def test_files_that_no_mechanism_reads():
    with pytest.raises(
        OptionError, match="^--election-table x.json: --attention gaussian does not read it; .*election"
    ):
        build("lstm_gaussian", election_table="x.json")
    with pytest.raises(OptionError, match="^--gaussian-election x.json: --attention soft does not read it"):
        build("lstm_soft", gaussian_election="x.json")
    with pytest.raises(OptionError, match="^--gaussian-election x.json: a model with --decoder-attention False"):
        build("lstm_gaussian", gaussian_election="x.json", decoder_attention="False")
    with pytest.raises(OptionError, match="^--gaussian-rule 1000001: must be at most a million"):
        build("lstm_gaussian", gaussian_rule="1000001")


# ---- the command-line tools

BUDGET = (
    "--optimizer adam --lr 0.005 --batch-size 50 --dropout 0 --seed 1 --cpu --num-workers 0 --no-epoch-checkpoints "
    "--no-progress-bar"
).split()
SMALL = TINY["lstm_soft"][2:]


def train(data, folder, arch, *options, updates=2, fails=False):
    command = ["fairseq-train", data, "--user-dir", USER_DIR, "--save-dir", folder, "--arch", arch, *SMALL, *BUDGET]
    done = run_tool(*command, "--max-update", updates, *options, fails=fails)
    return done if fails else folder / "checkpoint_last.pt"


def translate(data, path):
    command = ["fairseq-generate", data, "--user-dir", USER_DIR, "--path", path, "--gen-subset", "test", "--cpu"]
    output = run_tool(*command, "--beam", 3, "--max-len-b", 10, "--print-alignment", "soft").stdout
    return sorted(line for line in output.splitlines() if re.match(r"[HA]-\d", line))


def files_for(data, folder):
    """An election and a table for the vocabularies of a data folder."""
    from fairseq.data import Dictionary

    source, target = (Dictionary.load(str(data / f"dict.{side}.txt")) for side in ("xx", "yy"))
    described = {
        "source_vocabulary": describe_vocabulary(source),
        "target_vocabulary": describe_vocabulary(target),
    }
    table = {target[i]: [target[i][::-1], source[4]] for i in range(4, 10)}
    return (
        write(folder / "election.json", election(**described)),
        write(folder / "words.json", words(**described, words=table)),
    )


def test_files_and_teacher_may_be_gone_once_training_has_begun(tiny_data, tmp_path):
    teacher = train(tiny_data, tmp_path / "teacher", "lstm_soft", "--attention-score", "additive", *MAX)
    chosen, table = files_for(tiny_data, tmp_path)
    files = ["--gaussian-election", chosen, "--election-table", table, "--election-teacher", teacher]
    student = train(tiny_data, tmp_path / "student", "lstm_election", *files, *MAX)
    state = torch.load(student, weights_only=False)
    assert state["model"]["decoder.attention.table"].shape[1] == 2
    assert state["model"]["decoder.attention.log_ratio"].item() == pytest.approx(math.log(1.25))
    before = translate(tiny_data, student)
    for path in (chosen, table, teacher):
        Path(path).unlink()
    assert translate(tiny_data, student) == before and len(before) == 80

    # a training that goes on without the options has the checkpoint's values
    resumed = train(tiny_data, tmp_path / "student", "lstm_election", *MAX, updates=3)
    again = torch.load(resumed, weights_only=False)
    assert again["optimizer_history"][-1]["num_updates"] == 3
    for name in ("rule", "log_sigma", "mean", "log_ratio", "table"):
        key = "decoder.attention." + name
        assert torch.equal(again["model"][key], state["model"][key]), name


MAX = ["--attention-max-normalize"]


def test_mistakes_are_one_line(tiny_data, tmp_path):
    done = train(tiny_data, tmp_path, "lstm_gaussian", "--election-teacher", tmp_path / "none.pt", fails=True)
    assert done.error == (
        f"--election-teacher {tmp_path}/none.pt: no such file; give a checkpoint, such as checkpoint_best.pt"
    )


@pytest.mark.parametrize(
    "name, options",
    [
        ("gaussian", {"trained": True, "ratio": 1.3, "mean": 0.4}),
        ("gaussian", {"rule": "log3", "max_normalize": True}),
        ("election", {}),
    ],
)
def test_long_sentences_have_the_same_weights_without_a_table(monkeypatch, name, options):
    attention = build_attention(name, query_dim=8, memory_dim=8, **options)
    words, inputs = torch.randint(1, 20, (2, 40)), torch.randint(1, 20, (2, 60))
    known, read = ({"source_tokens": words}, {"inputs": inputs}) if name == "election" else ({}, {})
    if name == "election":
        attention.table = torch.randint(1, 9, (20, 3))
    mask = torch.zeros(2, 40, dtype=torch.bool)
    mask[1, 30:] = True
    encodings, seen = torch.randn(2, 40, 8), []
    for longest in (256, 10):
        monkeypatch.setattr(attention, "_longest_table", longest)
        e = encodings.clone().requires_grad_()
        attention.zero_grad()
        memory = attention.precompute(e, mask, **known)
        out = attention.step(torch.zeros(2, 60, 8), memory, None, torch.arange(60).expand(2, 60), **read)
        out.context.sin().sum().backward()
        seen.append([out.context.detach(), out.weights, out.scores, e.grad, *(p.grad for p in attention.parameters())])
    torch.testing.assert_close(*seen, rtol=1e-4, atol=1e-5)
