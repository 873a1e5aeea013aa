"""Training steps as graphs. A stand-in replays on the processor what a graph does: it writes results where they were
at its capture. tests/test_gpu.py has the real ones."""

import gc
import logging
import weakref
from types import SimpleNamespace

import latent_models
import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.tasks.fairseq_task import FairseqTask
from models_for_tests import build, fake_task, make
from training import SIZES, train

from fairseq_attn_plugin.patches import cuda_graphs
from fairseq_attn_plugin.patches.cuda_graphs import GraphedSteps, shape_of
from fairseq_attn_plugin.patches.penalties import add_penalties


def replaying(module, arguments, allow_unused_input, pool):
    """As torch.cuda.make_graphed_callables: inputs, outputs and gradients have fixed places."""
    parameters = tuple(module.parameters())
    places = {}

    class Replay(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            for place, value in zip(arguments, inputs):
                place.copy_(value)
            with torch.enable_grad():
                outputs = module(*arguments)
                gradients = torch.autograd.grad(outputs[0], parameters, allow_unused=True)
            places.setdefault("outputs", [one.detach().clone() for one in outputs])
            kept = {one.data_ptr(): torch.empty_like(one) for one in gradients if one is not None}
            places.setdefault("own", [None if one is None else kept[one.data_ptr()] for one in gradients])
            for place, value in zip(places["outputs"], outputs):
                place.copy_(value)
            ctx.gradients = gradients
            return tuple(place.detach() for place in places["outputs"])

        @staticmethod
        def backward(ctx, grad, *others):
            for place, value in zip(places["own"], ctx.gradients):
                if place is not None:
                    place.copy_(value * grad)
            inputs = [None] * len(arguments)
            return (*inputs, *(None if place is None else place.detach() for place in places["own"]))

    return lambda *inputs: Replay.apply(*inputs, *parameters)


@pytest.fixture
def graphs(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "on_gpu", lambda x: True)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", replaying)


def build_criterion(**options):
    settings = {"sentence_avg": False, "label_smoothing": 0.1, **options}
    criterion = LabelSmoothedCrossEntropyCriterion(fake_task(), **settings)
    add_penalties(criterion)
    return criterion


def batches(count=4):
    """Of one shape, with different words and numbers of words."""
    found = []
    for seed in range(count):
        sample = latent_models.sample()
        target, draw = sample["target"], torch.Generator().manual_seed(seed)
        sample["target"] = torch.where(target.eq(1), target, torch.randint(4, 15, target.shape, generator=draw))
        sample["target"][seed % 4, -1] = 1
        sample["ntokens"] = int(sample["target"].ne(1).sum())
        found.append(sample)
    return found


def without_dropout(model):
    for module in model.modules():
        if hasattr(module, "p"):
            module.p = 0.0
        if isinstance(module, torch.nn.RNNBase):
            module.dropout = 0.0
    return model


def step(criterion, model, sample, scale=1.0):
    loss, size, logged = criterion(model, sample)
    (scale * loss).backward()
    return loss.detach(), size, logged


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("attention", ["soft", "structured", "soft+position,markov,fertility", "aqt"])
@pytest.mark.parametrize("sentence_avg", [False, True])
def test_replays_are_the_steps_themselves(graphs, attention, sentence_avg):
    model = without_dropout(make(attention)).train()
    plain = build_criterion(sentence_avg=sentence_avg)
    steps = GraphedSteps(build_criterion(sentence_avg=sentence_avg))
    for number, sample in enumerate(batches()):
        results = []
        for criterion in (plain, steps):
            model.zero_grad()
            loss, size, logged = step(criterion, model, sample, scale=128.0)
            results.append(({"loss": loss, **gradients(model)}, size, logged))
        assert len(steps.graphs) == (number > 0)
        (expected, size, logged), (ours, our_size, our_logged) = results
        assert our_size == size and list(our_logged) == list(logged)
        torch.testing.assert_close(ours, expected)
        torch.testing.assert_close(our_logged, logged, check_dtype=False)


def test_batches_of_one_update_add_up(graphs):
    model, kept = without_dropout(make("soft")).train(), []
    for criterion in (build_criterion(), GraphedSteps(build_criterion())):
        for _ in range(3):
            model.zero_grad()
            logged = [step(criterion, model, sample)[2] for sample in batches()]
        kept.append({**gradients(model), "losses": torch.stack([one["loss"] for one in logged])})
    torch.testing.assert_close(kept[1], kept[0])


def test_each_parameter_has_a_gradient_of_its_own(graphs):
    """Also the biases of an LSTM, which are only added: a graph has one gradient for both."""
    model, criterion = without_dropout(make("soft")).train(), build_criterion()
    model.cuda_graphs = True
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    first, second = batches(2)
    other = latent_models.sample(width=7)  # without a graph
    for update in ([first], [second, other]):
        model.zero_grad()
        for sample in update:
            FairseqTask.train_step(None, sample, model, criterion, optimizer, 0)
    assert len(criterion.graphed_steps.graphs) == 1
    found = gradients(model)
    model.zero_grad()
    for sample in (second, other):
        step(build_criterion(), model, sample)
    torch.testing.assert_close(found, gradients(model))


def test_dropout_differs_between_replays(graphs):
    model, steps = make("soft", dropout=0.5).train(), GraphedSteps(build_criterion())
    losses = {float(step(steps, model, latent_models.sample())[0]) for _ in range(4)}
    assert len(steps.graphs) == 1 and len(losses) == 4


def test_a_shape_is_all_but_words():
    one, other = batches(2)
    assert shape_of(one) == shape_of(other) is not None
    other["target"] = other["target"][:, :-1]
    assert shape_of(one) != shape_of(other)
    assert shape_of({**one, "constraints": [[1]]}) is None


def test_graphs_are_limited(graphs, monkeypatch, caplog):
    monkeypatch.setattr(cuda_graphs, "MOST_GRAPHS", 1)
    model, steps = make("soft").train(), GraphedSteps(build_criterion())
    samples = [latent_models.sample(width=width) for width in (6, 7, 8)]
    with caplog.at_level(logging.WARNING):
        for sample in (*samples, *samples, *samples):
            step(steps, model, sample)
    assert len(steps.graphs) == 1 and caplog.text.count("--num-batch-buckets makes shapes few") == 1


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("device", "there is no GPU; the training goes on without graphs"),
        ("criterion", "it needs --criterion cross_entropy or label_smoothed_cross_entropy"),
        ("trained", "--gaussian-trained cannot be captured; the training goes on without graphs"),
        ("capture", "a training step cannot be captured (operation not permitted); the training"),
    ],
)
def test_what_cannot_be_captured_is_said_once(graphs, problem, message, monkeypatch, caplog):
    def fails(*args, **kwargs):
        raise RuntimeError("operation not permitted\nmore")

    model, criterion = make("soft").train(), build_criterion()
    if problem == "device":
        monkeypatch.setattr(cuda_graphs, "on_gpu", lambda x: False)
    elif problem == "criterion":
        criterion = type("Own", (LabelSmoothedCrossEntropyCriterion,), {})(fake_task(), False, 0.1)
    elif problem == "trained":
        model = build("lstm_gaussian", gaussian_trained=True).train()
    else:
        monkeypatch.setattr(torch.cuda, "make_graphed_callables", fails)
    steps, states = GraphedSteps(criterion), []
    random = SimpleNamespace(clone_state=lambda: "own", graphsafe_set_state=states.append)
    monkeypatch.setattr(torch.cuda, "default_generators", [random])
    with caplog.at_level(logging.WARNING):
        for sample in batches():
            step(steps, model, sample)
    assert states == ["own"] * (problem == "capture"), "random numbers no longer expect a capture"
    assert caplog.text.count(f"--cuda-graphs: {message}") == caplog.text.count("WARNING") == 1 and not steps.graphs


def test_modules_that_somebody_watches_are_called(graphs):
    """As fairseq does, to find the module that has made a NaN."""
    steps, model, calls = GraphedSteps(build_criterion()), make("soft").train(), []
    samples = batches(4)
    for sample in samples[:3]:
        step(steps, model, sample)
    assert len(steps.graphs) == 1
    with model.encoder.register_forward_hook(lambda *_: calls.append(1)):
        step(steps, model, samples[3])
    assert calls == [1] and len(steps.graphs) == 1


def test_graphs_end_with_their_criterion(graphs):
    steps, model = GraphedSteps(build_criterion()), make("soft").train()
    for sample in batches(2):
        step(steps, model, sample)
    steps.criterion.graphed_steps = steps
    seen = weakref.ref(steps)
    del steps
    gc.collect()
    assert seen() is None


def test_training_without_a_gpu_goes_on(tiny_data, tmp_path):
    options = ["--arch", "lstm_soft", *SIZES, "--cuda-graphs", "--num-batch-buckets", 3, "--max-tokens", 200]
    log = train(tiny_data, tmp_path, *options, "--disable-validation", updates=2).log
    assert log.count("--cuda-graphs: there is no GPU; the training goes on without graphs") == 1
