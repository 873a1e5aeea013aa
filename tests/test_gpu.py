"""A GPU gives the results of the processor, although its kernels, its blocks and its encoder differ."""

import copy
import re
from contextlib import nullcontext

import attention_cases
import latent_models as latent_model
import models_for_tests as models
import pytest
import test_cuda_graphs as graphs
import test_han as han
import test_mixture_nll as likelihoods
import test_search as search
import torch
from attention_cases import mechanisms
from models_for_tests import build, pad_batch
from test_latent_cli import LATENT
from test_objectives import EXACT
from training import SIZES, TRAINING

from fairseq_attn_plugin.criterions.objectives import OBJECTIVES
from fairseq_attn_plugin.modules.latent.latent_decoder import LatentDecoder
from fairseq_attn_plugin.ops import chain_crf
from fairseq_attn_plugin.ops.likelihoods import alignment_blocks
from fairseq_attn_plugin.ops.likelihoods.mixture_log_probs import mixture_log_probs
from fairseq_attn_plugin.ops.pairs import all_pairs, pair_pooling
from fairseq_attn_plugin.patches.cuda_graphs import GraphedSteps
from fairseq_attn_plugin.testing.subject import batch_of, draw_queries, precompute, step, stepwise

from cli import USER_DIR, run_cli

if not torch.cuda.is_available():  # one skipped module, not a thousand skipped tests
    pytest.skip("NO GPU: torch.cuda.is_available() is False", allow_module_level=True)

DEVICE = torch.device("cuda")
CPU = torch.device("cpu")
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
# Under autocast, and all in half precision as --fp16 has it.
PRECISIONS = [("autocast", torch.float16), ("autocast", torch.bfloat16), ("whole", torch.float16)]
low_precisions = pytest.mark.parametrize(
    ("way", "half"), PRECISIONS, ids=[f"{way}-{str(half)[6:]}" for way, half in PRECISIONS]
)
# The two devices add up in different orders and round exp and tanh differently by a unit or two. Behind every number
# compared here are up to some hundred such roundings one after the other, which mostly cancel. The greatest difference
# seen on an H100 is 370 times the type's precision, relative to the largest number of its tensor. A wrong formula is
# off by far more, in float64 at the latest.
ROUNDINGS = 600


@pytest.fixture(autouse=True)
def full_float32():
    """No TensorFloat-32, whose ten bits torch allows cuDNN's LSTMs by default."""
    libraries = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [library.allow_tf32 for library in libraries]
    for library in libraries:
        library.allow_tf32 = False
    yield
    for library, allowed in zip(libraries, before):
        library.allow_tf32 = allowed


def agree(ours, expected, roundings=ROUNDINGS):
    """Tensors by name, of the GPU and of the processor."""
    assert list(ours) == list(expected)
    # A gradient much smaller than the others is what is left of larger numbers, whose roundings it keeps.
    least = 0.1 * max(float(value.abs().max()) for value in expected.values())
    for name, value in expected.items():
        assert ours[name].device.type == DEVICE.type and ours[name].dtype == value.dtype, name
        allowed = roundings * torch.finfo(value.dtype).eps * max(float(value.abs().max()), least)
        difference = float((ours[name].cpu() - value).abs().max())
        assert difference <= allowed, f"{name}: off by {difference:.2e}, allowed are {allowed:.2e}"


def finite(values):
    return all(value is not None and bool(value.isfinite().all()) for value in values)


def move(value, device):
    """Tensors of a dictionary or named tuple, the leaves of a graph among them, on another device."""
    if isinstance(value, dict):
        return {name: move(part, device) for name, part in value.items()}
    if isinstance(value, tuple):
        return type(value)(*(move(part, device) for part in value))
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    return value


def without_noise(model):
    """Monotonic attention adds random numbers to its scores in training, others on each device."""
    for module in model.modules():
        if hasattr(module, "noise"):
            module.noise = 0.0
    return model


def gradients_by_name(module):
    return {f"d {name}": p.grad for name, p in module.named_parameters() if p.grad is not None}


def low_precision(way, half):
    return torch.autocast(DEVICE.type, dtype=half) if way == "autocast" else nullcontext()


# ---- models


def model_results(attention, feeding, device, dtype, lengths):
    # In training, which cuDNN's LSTMs want of a backward pass; there is no dropout.
    model = without_noise(models.enlarged(models.make(attention, feeding, dtype), 3).to(device).train())
    source, target = pad_batch(lengths).to(device), models.targets(len(lengths)).to(device)
    logits, extra = model(source, source.ne(1).sum(1), target)
    factor = torch.linspace(-1, 1, logits.numel(), dtype=dtype).view_as(logits).to(device)
    (logits * factor).sum().backward()
    return {"logits": logits.detach(), "weights": extra["attn"][0].detach(), **gradients_by_name(model)}


@models.systems
@both_types
def test_model(attention, feeding, dtype):
    """Padded on the left, with and without a source that has no words at all, and not padded."""
    for lengths in (models.LENGTHS, [*models.LENGTHS, 0], [4, 4]):
        ours, expected = (model_results(attention, feeding, device, dtype, lengths) for device in (DEVICE, CPU))
        agree(ours, expected)


@models.systems
def test_steps_of_a_search_equal_the_whole(attention, feeding):
    """Hypotheses that change places, then sentences that are finished."""
    model = models.make(attention, feeding).to(DEVICE)
    models.assert_steps_equal_the_whole(model, pad_batch(models.LENGTHS).to(DEVICE))


# ---- training steps as CUDA graphs


@pytest.mark.parametrize("way", ["float32", "autocast", "fp16"])
@pytest.mark.parametrize("attention", ["soft", "mqt", "aqt", "structured", "soft+position,markov,fertility"])
def test_graphs_replay_the_step_itself(attention, way):
    """Losses and gradients of batches of one shape, and of two batches of one update."""
    half = torch.float16 if way == "fp16" else torch.float32
    model = graphs.without_dropout(models.make(attention, dtype=torch.float32)).to(DEVICE, half).train()
    samples = [move(sample, DEVICE) for sample in graphs.batches()]
    seen = []
    steps = GraphedSteps(graphs.build_criterion())
    for criterion in (graphs.build_criterion(), steps):
        found = {}
        for number, sample in enumerate([*samples, *samples]):
            if number not in (5, 7):  # the others begin an update
                model.zero_grad()
            with low_precision(way, torch.float16):
                loss, size, logged = criterion(model, sample)
            (64.0 * loss).backward()
            assert size == logged["ntokens"] == sample["ntokens"]
            # the next replay writes to the place of this loss
            found.update({f"{number} loss": loss.detach().float().clone(), f"{number} nll": logged["nll_loss"].float()})
            found.update({f"{number} {name}": grad.float() for name, grad in graphs.gradients(model).items()})
            del loss  # as in fairseq's trainer: a capture breaks while the graph of an earlier loss is alive
        seen.append(found)
    assert len(steps.graphs) == 1 and not steps.off
    torch.testing.assert_close(seen[1], seen[0], rtol=2e-5 if way == "float32" else 2e-2, atol=1e-4)


@pytest.mark.parametrize("feeding", ["output", "none"])
def test_graphs_draw_new_dropout(feeding):
    """The trainer seeds each update; the loss of a seed is the same whatever was drawn before."""
    model = models.make("soft", feeding, dtype=torch.float32, dropout=0.5).to(DEVICE).train()
    steps, sample = GraphedSteps(graphs.build_criterion()), move(graphs.batches(1)[0], DEVICE)
    losses = []
    for seed in (1, 2, 3, 4, 5, 3, 4):
        torch.cuda.manual_seed(seed)
        losses.append(float(graphs.step(steps, model, sample)[0]))
    assert len(steps.graphs) == 1 and len({*losses[:5]}) == 5
    assert losses[5:] == pytest.approx(losses[2:4], rel=1e-5)


# ---- searches as CUDA graphs


@models.systems
def test_searches_by_graphs(attention, feeding):
    """Batches of the same shape and of others, one graph for each shape."""
    model = search.sharpened(models.make(attention, feeding)).to(DEVICE).eval()
    lengths = [search.LENGTHS, search.LENGTHS, [3, 2], [17, 9, 3], search.LENGTHS]
    batches = [move(search.sample(some, seed=seed), DEVICE) for seed, some in enumerate(lengths)]
    ours, expected = (search.generator("plugin", [model]) for _ in range(2))
    expected.graphs.off = True
    for batch in batches:
        if batch is batches[-1]:  # as in a later validation of a training
            with torch.no_grad():
                torch._foreach_mul_(list(model.parameters()), 0.9)
        search.assert_same(ours.generate([model], batch), expected.generate([model], batch))
    assert (
        len(ours.graphs.steps) == (0 if isinstance(model.decoder, LatentDecoder) else 3) and not expected.graphs.steps
    )


def test_graphs_of_two_shapes_in_one_update():
    model = graphs.without_dropout(models.make("soft", dtype=torch.float32)).to(DEVICE).train()
    samples, seen = [move(latent_model.sample(width=width), DEVICE) for width in (6, 9)], []
    for criterion in (graphs.build_criterion(), GraphedSteps(graphs.build_criterion())):
        found = {}
        for update in range(5):
            model.zero_grad()
            for sample in samples[:: 1 if update % 2 else -1]:
                loss = criterion(model, sample)[0]
                loss.backward()
                del loss
            found.update({f"{update} {name}": one for name, one in graphs.gradients(model).items()})
        seen.append(found)
    torch.testing.assert_close(seen[1], seen[0], rtol=2e-5, atol=1e-4)


# ---- objectives of latent alignment


def objective_results(name, device, dtype):
    model = latent_model.make(dtype, **latent_model.needed_by(name)).to(device).train()
    crit = latent_model.criterion(objective=name).train()
    loss, _, sums = crit(model, move(latent_model.sample(), device))
    loss.backward()
    values = {key: value for key, value in sums.items() if torch.is_tensor(value) and value.is_floating_point()}
    return {"sum": loss.detach(), **values}, model


@pytest.mark.parametrize("name", EXACT)
@both_types
def test_exact_objectives(name, dtype):
    (ours, our_model), (expected, model) = (objective_results(name, device, dtype) for device in (DEVICE, CPU))
    # log q, where q is sparse, and its gradient 1 / q make roundings larger near the edge of the support
    roundings = 100 * ROUNDINGS if name.startswith("sparse-") else ROUNDINGS
    agree(ours, expected, roundings)
    agree(gradients_by_name(our_model), gradients_by_name(model), roundings)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("options", [{}, {"soft_updates": 9}], ids=["from-the-start", "soft-first"])
def test_every_objective_trains_and_validates(name, options):
    """With dropout, whose masks cuDNN draws from a state of its own."""
    model = latent_model.make(torch.float32, dropout=0.3, **latent_model.needed_by(name)).to(DEVICE).train()
    crit, batch = latent_model.criterion(objective=name, **options).train(), move(latent_model.sample(), DEVICE)
    loss, _, sums = crit(model, batch)
    loss.backward()
    assert loss.device.type == DEVICE.type and finite([loss, *map(torch.as_tensor, sums.values())])
    trained = gradients_by_name(model)
    assert finite(trained.values()) and any(bool(grad.any()) for grad in trained.values())
    with torch.no_grad():
        loss, _, sums = crit.eval()(model.eval(), batch)
    assert finite([loss, *map(torch.as_tensor, sums.values())])


# ---- attention


def attention_results(module, device, dtype, side, at_once):
    """Context, weights and all gradients of a padded batch, wide enough for what is done for long sources only."""
    module = copy.deepcopy(module).to(device)
    encodings, pad_mask, _ = batch_of(side, width=12, dtype=dtype)
    encodings, query = (x.to(device).requires_grad_() for x in (encodings, draw_queries(dtype=dtype)))
    memory = precompute(module, encodings, pad_mask.to(device))
    if at_once and not module.recurrent:
        context, weights = step(module, query, memory, module.initial_state(memory))[:2]
    else:
        context, weights = stepwise(module, query, memory)
    factor = torch.linspace(-1, 1, context.numel(), dtype=dtype).view_as(context).to(device)
    (context * factor).sum().backward()
    seen = {"context": context.detach(), "weights": weights.detach(), "d encodings": encodings.grad}
    if query.grad is not None:  # weights from positions alone have none
        seen["d query"] = query.grad
    return {**seen, **gradients_by_name(module)}


@mechanisms
@both_types
@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "stepwise"])
def test_attention(name, options, dtype, at_once):
    module = attention_cases.make(name, options, dtype)
    for side in ("left", "right"):
        ours, expected = (attention_results(module, device, dtype, side, at_once) for device in (DEVICE, CPU))
        agree(ours, expected)


# ---- half precision


@models.systems
@low_precisions
def test_model_in_low_precision(attention, feeding, way, half):
    model = models.make(attention, feeding, torch.float32).train()
    model.decoder.attention.noise = 0.0  # another number in each pass
    source, target = pad_batch([*models.LENGTHS, 0]), models.targets(5)
    expected, _ = model(source, None, target)
    model = model.to(DEVICE, half if way == "whole" else torch.float32)
    with low_precision(way, half):
        logits, extra = model(source.to(DEVICE), None, target.to(DEVICE))
    logits.float().pow(2).mean().backward()
    assert finite([logits, extra["attn"][0], *(p.grad for p in model.parameters())])
    most = float(expected.detach().abs().max())
    torch.testing.assert_close(logits.float().cpu(), expected, rtol=0, atol=0.05 * most)


@pytest.mark.parametrize("name", OBJECTIVES)
@low_precisions
def test_every_objective_in_low_precision(name, way, half):
    model = build(seed=7, **latent_model.needed_by(name)).train()
    exact, _, _ = latent_model.criterion(objective=name).train()(model, latent_model.sample())
    model = model.to(DEVICE, half if way == "whole" else torch.float32)
    crit, batch = latent_model.criterion(objective=name).train(), move(latent_model.sample(), DEVICE)
    with low_precision(way, half):
        loss, _, sums = crit(model, batch)
    loss.backward()
    # Samples are others on the GPU; at initialisation no alignment is much better than another.
    assert loss.dtype == torch.float32 and abs(loss.item() - exact.item()) < 0.05 * abs(exact.item())
    assert finite([*map(torch.as_tensor, sums.values()), *gradients_by_name(model).values()])


# ---- the command-line tools

SYSTEMS = {
    "lstm_adm": ["--arch", "lstm_adm", *SIZES],
    "structured": ["--arch", "attn_lstm", *SIZES, "--attention", "structured", "--attention-bias", "markov,fertility"],
    "lstm_latent_small": [*LATENT, "--objective", "marginal"],
}


def translate(data, checkpoint, *options):
    """Words and score of every hypothesis, by sentence, and the tool's messages."""
    done = run_cli(
        ["fairseq-generate", data, "--user-dir", USER_DIR, "--path", checkpoint, "--gen-subset", "test", *options]
        + ["--beam", 5, "--batch-size", 16, "--no-progress-bar"],
        env={"NVIDIA_TF32_OVERRIDE": "0"},
    )
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", done.stdout, re.MULTILINE)
    return {int(i): (words, float(score)) for i, score, words in found}


@pytest.mark.parametrize("system", SYSTEMS)
def test_trains_in_half_precision_and_translates_as_the_processor_does(system, tiny_data, tmp_path):
    training = [option for option in TRAINING if option != "--cpu"]
    done = run_cli(
        ["fairseq-train", tiny_data, "--user-dir", USER_DIR, "--save-dir", tmp_path, *SYSTEMS[system], *training]
        + ["--max-update", 120, "--fp16", "--log-format", "json"]
    )
    messages = done.stdout + done.stderr
    assert "loss_scale" in messages and "CUDA" in messages
    losses = [float(value) for value in re.findall(r'"valid_loss": "([\d.]+)"', messages)]
    assert losses[-1] < losses[0]
    checkpoint = tmp_path / "checkpoint_last.pt"
    ours, expected = translate(tiny_data, checkpoint), translate(tiny_data, checkpoint, "--cpu")
    assert len(expected) == 40
    assert {i: words for i, (words, _) in ours.items()} == {i: words for i, (words, _) in expected.items()}
    # Four decimals of a mean of log-probabilities are printed.
    assert [ours[i][1] for i in expected] == pytest.approx([score for _, score in expected.values()], abs=2e-3)
    assert len(translate(tiny_data, checkpoint, "--fp16")) == 40


# ---- document classifiers


@han.cases
def test_document_classifiers(arch, options):
    """In other blocks than on the processor, forward and backward."""
    results = []
    for device in (DEVICE, CPU):
        model = han.build(arch, **options).to(device).train()  # there is no dropout
        logits, attention = han.classify(model, han.batch(han.DOCUMENTS).to(device))
        labels = torch.arange(len(logits), device=device) % han.CLASSES
        torch.nn.functional.cross_entropy(logits, labels).backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
        numbers = attention.pop("sentences", torch.zeros(0))
        results.append(
            ({"logits": logits.detach(), **{k: v.detach() for k, v in attention.items()}, **gradients}, numbers.cpu())
        )
    (ours, our_numbers), (expected, numbers) = results
    agree(ours, expected)
    assert torch.equal(our_numbers, numbers)


# ---- numerics


def likelihood_results(kind, bias, mixture, dtype, device):
    """Sums, terms, gradients and predictions of a batch."""
    batch = likelihoods.alignments(kind, dtype=dtype)
    logs = likelihoods.log_weights(batch)
    mixtures = torch.stack([logs.exp(), likelihoods.log_weights(batch, seed=2).exp()]).to(device)
    batch = move(batch if bias else batch._replace(bias=None), device)
    weights = (logs if mixture else logs.exp()).to(device).requires_grad_()
    function = likelihoods.mixture_nll if mixture else likelihoods.expected_nll
    out = function(batch, weights, 0.1, mixtures)
    grads = likelihoods.gradients(out.total, batch, weights)
    log_probs = mixture_log_probs(batch, logs.to(device).requires_grad_())
    with torch.no_grad():
        fast_log_probs = mixture_log_probs(batch, logs.to(device))
    values = {"total": out.total.detach(), "log_likelihood": out.log_likelihood, "score": out.score}
    values.update({f"gradient {i}": grad for i, grad in enumerate(grads)})
    return {**values, "log_probs": log_probs.detach(), "fast_log_probs": fast_log_probs}, out.correct


@pytest.mark.parametrize("kind", likelihoods.KINDS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("mixture", [True, False], ids=["mixture", "expected"])
@both_types
def test_likelihoods_under_all_alignments(kind, bias, mixture, dtype, monkeypatch):
    expected, correct = likelihood_results(kind, bias, mixture, dtype, CPU)
    for block in (alignment_blocks.BLOCK_BYTES["cuda"], 1):
        monkeypatch.setitem(alignment_blocks.BLOCK_BYTES, "cuda", block)
        ours, our_correct = likelihood_results(kind, bias, mixture, dtype, DEVICE)
        agree(ours, expected)
        assert torch.equal(our_correct.cpu(), correct)


def test_gradients_of_chosen_alignments_are_the_same_in_every_run():
    """A scatter would add them up in whatever order the GPU's threads come by."""
    runs = []
    for _ in range(3):
        batch = likelihoods.alignments("index", dtype=torch.float32)
        weights = likelihoods.log_weights(batch).to(DEVICE).requires_grad_()
        batch = move(batch, DEVICE)
        runs.append(likelihoods.gradients(likelihoods.mixture_nll(batch, weights).total, batch, weights))
    for run in runs[1:]:
        assert all(torch.equal(one, other) for one, other in zip(run, runs[0]))


def differentiated(function, leaves, device):
    """Outputs and gradients of a function of tensors."""
    leaves = [leaf.detach().to(device).requires_grad_() for leaf in leaves]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    total = sum(
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=device).view_as(out)).sum() for out in outputs
    )
    grads = torch.autograd.grad(total, leaves)
    values = {f"output {i}": out.detach() for i, out in enumerate(outputs)}
    return {**values, **{f"gradient {i}": grad for i, grad in enumerate(grads)}}


def normal(*shape, dtype, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@both_types
@pytest.mark.parametrize("scale", [1.0, 60.0], ids=["exponentials", "large-keys"])
@pytest.mark.parametrize("elements", [1 << 25, 8], ids=["one-block", "small-blocks"])
def test_pair_pooling(dtype, scale, elements, monkeypatch):
    """The larger scale takes the way without e^{2k} in float32."""
    monkeypatch.setitem(all_pairs._BLOCK_ELEMENTS, "cuda", elements)
    keys, pad_mask = scale * normal(4, 9, 3, dtype=dtype), torch.zeros(4, 9, dtype=torch.bool)
    pad_mask[0, :3], pad_mask[1, -8:], pad_mask[2] = True, True, True
    for pool in (pair_pooling.pooled_tanh, lambda keys, mask: pair_pooling.pooled_basis(keys, 12, mask)):
        for mask in (pad_mask, None):
            ours, expected = (
                differentiated(lambda k, d=d, m=mask, p=pool: p(k, None if m is None else m.to(d)), [keys], d)
                for d in (DEVICE, CPU)
            )
            agree(ours, expected)


@both_types
@pytest.mark.parametrize("count", [0, 12])
def test_compiled_pairs(dtype, count):
    """What a captured training step of a density matrix has."""
    pad_mask = torch.zeros(4, 9, dtype=torch.bool)
    pad_mask[0, :3], pad_mask[1, -8:], pad_mask[2] = True, True, True
    for mask, keys in ((pad_mask, normal(4, 9, 3, dtype=dtype)), (None, normal(3, 7, 5, dtype=dtype))):

        def pool(x, mask=mask):
            pad = None if mask is None else mask.to(x.device)
            return pair_pooling.pooled_basis(x, count, pad) if count else pair_pooling.pooled_tanh(x, pad)

        with pair_pooling.compiling():
            assert pair_pooling.fuses(keys.to(DEVICE))
            ours = differentiated(pool, [keys], DEVICE)
            assert pair_pooling.fuses(keys.to(DEVICE)), "it was not compiled"
        agree(ours, differentiated(pool, [keys], CPU))


@both_types
@pytest.mark.parametrize("enumerated", [False, True])
def test_chains(enumerated, dtype, monkeypatch):
    monkeypatch.setattr(chain_crf, "_enumerates", lambda potentials: enumerated)
    for size in (1, 2, 9, 40, 90):
        pad_mask = torch.zeros(3, size, dtype=torch.bool)
        if size > 1:
            pad_mask[0, : size // 2], pad_mask[1] = True, True
        leaves = [3 * normal(3, size, dtype=dtype), normal(2, 2, dtype=dtype, seed=1)]

        def log_marginals(potentials, transitions, pad_mask=pad_mask):
            mask = pad_mask.to(potentials.device)
            return chain_crf.chain_log_marginals(potentials, transitions, mask).masked_fill(mask, 0.0)

        ours, expected = (differentiated(log_marginals, leaves, device) for device in (DEVICE, CPU))
        agree(ours, expected)
