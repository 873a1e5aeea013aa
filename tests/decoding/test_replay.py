"""Steps of a search as graphs. A stand-in replays on the processor what a graph does; tests/test_gpu.py has the real
ones."""

import contextlib
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from models_for_tests import build, make, systems
from test_search import LENGTHS, assert_same, generator, sample, sharpened

from fairseq_attn_plugin.decoding import generator as decoding_generator
from fairseq_attn_plugin.decoding import replay, stepper
from fairseq_attn_plugin.decoding.replay import Graphs, copies_of
from fairseq_attn_plugin.decoding.stepper import tensors_of
from fairseq_attn_plugin.modules.latent.latent_decoder import LatentDecoder

OPTIONS = [
    {},
    {"beam": 1},
    {"beam": 7, "nbest": 7},
    {"min_len": 4},
    {"min_len": 9},  # the greatest length
    {"max_len_b": 1},
    {"max_len_b": 0, "min_len": 0},
    {"unkpen": 2.0},
    {"lenpen": 2.0, "max_len_a": 2.0, "max_len_b": 17},
    {"unnormalized": True},
    {"temperature": 0.7},
]


class StandIn:
    """Has fixed places, as a graph has."""

    def __init__(self, search, places):
        self.search, self.places = search, places

    def replay(self):
        with torch.inference_mode():
            before = tensors_of(self.places)
            self.search.replayed_step(self.places)
            assert all(one is other for one, other in zip(before, tensors_of(self.places), strict=True))


def replaying(graphs, search, places):
    """As :meth:`Graphs.replaying`: the graph of an earlier batch keeps its own search."""
    shape = tuple((tensor.shape, tensor.dtype) for tensor in tensors_of(places))
    if shape not in graphs.steps:
        own = copies_of(places)
        graphs.steps[shape] = StandIn(search, own), own, search
    graph, own, _ = graphs.steps[shape]
    for place, tensor in zip(tensors_of(own), tensors_of(places), strict=True):
        place.copy_(tensor)
    return graph, own


@pytest.fixture
def replays(monkeypatch):
    """Searches as on a GPU; counts the graphs that are made."""
    monkeypatch.setattr(Graphs, "replaying", replaying)
    monkeypatch.setattr(stepper, "is_fixed", lambda model: False)
    able = replay.can_replay

    class Here:
        type, index = "cuda", 1

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)

    def can_replay(steppers, options, net_input, prefix):
        class Tokens:
            device = Here

        return able(steppers, options, {"src_tokens": Tokens}, prefix)

    def use(on):
        monkeypatch.setattr(decoding_generator, "can_replay", can_replay if on else lambda *_: False)

    return use


def compare(replays, models, batches, **options):
    found = []
    for on in (False, True):
        replays(on)
        ours = generator("plugin", models, **options)
        found.append([ours.generate(models, batch) for batch in batches])
        graphs = ours.graphs
    for one, other in zip(*found, strict=True):
        assert_same(other, one)
    assert not graphs.off
    return graphs


@systems
def test_every_model(attention, feeding, replays):
    model = sharpened(make(attention, feeding)).eval()
    batches = [sample(side=side, seed=seed) for seed, side in enumerate(("left", "right"))]
    graphs = compare(replays, [model], batches)
    assert len(graphs.steps) == (0 if isinstance(model.decoder, LatentDecoder) else 1)


@pytest.mark.parametrize(
    ("options", "several"),
    [*((options, False) for options in OPTIONS), ({}, True), ({"temperature": 0.7}, True)],
    ids=str,
)
def test_every_option(options, several, replays):
    models = [sharpened(make("soft")).eval()]
    if several:
        models.append(sharpened(build("lstm_adm")).eval())
    compare(replays, models, [sample(), sample((3, 3, 2))], **options)


def test_shapes_are_those_of_batches(replays):
    batches = [sample(), sample(LENGTHS[1:]), sample([6] * 9), sample([9] * 9), sample([17, 9, 3])]
    assert len(compare(replays, [sharpened(make("soft")).eval()], batches).steps) == 4


@pytest.mark.parametrize("options", [{"sampling": True}, {"no_repeat_ngram_size": 2}, {"eos_norm": 0.5}], ids=str)
def test_other_searches_are_not_replayed(options, replays):
    model = sharpened(make("soft")).eval()
    replays(True)
    ours = generator("plugin", [model], **options)
    ours.generate([model], sample())
    assert not ours.graphs.steps


def test_another_device_than_the_current_one_is_not_replayed(replays, monkeypatch):
    """A capture would record nothing of it."""
    model = sharpened(make("soft")).eval()
    replays(True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    ours = generator("plugin", [model])
    ours.generate([model], sample())
    assert not ours.graphs.steps


def test_a_capture_that_fails_is_said_once(replays, monkeypatch, caplog):
    model = sharpened(make("soft")).eval()
    expected = generator("plugin", [model]).generate([model], sample())

    def fail(*_):
        error = RuntimeError("the capture has failed")
        error.__context__ = RuntimeError("cannot wait for the host\nin two lines")
        raise error

    monkeypatch.setattr(Graphs, "replaying", fail)
    replays(True)
    states = []
    random = SimpleNamespace(clone_state=lambda: "own", graphsafe_set_state=states.append)
    monkeypatch.setattr(torch.cuda, "default_generators", [random])
    ours = generator("plugin", [model])
    for _ in range(3):
        assert_same(ours.generate([model], sample()), expected)
    assert states == ["own"], "a training around the search draws random numbers"
    (message,) = caplog.messages
    assert message == (
        "a step of the search cannot be captured as a CUDA graph (cannot wait for the host); translation goes on "
        "without graphs"
    )


@torch.inference_mode()
def test_a_capture_begins_outside_of_inference_mode(monkeypatch):
    """torch keeps the tensors of the first capture for all others, and a training could not write to them."""
    modes = []

    class Capture(contextlib.nullcontext):
        def __enter__(self):
            modes.append(torch.is_inference_mode_enabled())

    monkeypatch.setattr(torch.cuda, "graph", lambda graph, capture_error_mode: Capture())
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    for name in ("Stream", "current_stream", "CUDAGraph"):
        monkeypatch.setattr(torch.cuda, name, mock.MagicMock())
    search = SimpleNamespace(replayed_step=lambda own: modes.append(torch.is_inference_mode_enabled()))
    Graphs().replaying(search, (torch.ones(2),))
    assert modes == [True, False, True]
