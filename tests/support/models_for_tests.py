"""Small models and batches for the tests, built through fairseq's registry as its command-line tools build them."""

import contextlib
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf

import fairseq_attn_plugin  # noqa: F401
from fairseq_attn_plugin.attention import names
from fairseq_attn_plugin.ops.precision import has_bfloat16

needs_autocast = pytest.mark.skipif(
    not has_bfloat16("cpu"), reason="torch's LSTM fails under autocast on a processor without bfloat16"
)
SIZES = {
    "encoder_embed_dim": 10,
    "encoder_hidden_size": 8,
    "encoder_layers": 2,
    "encoder_bidirectional": True,
    "decoder_embed_dim": 12,
    "decoder_hidden_size": 14,
    "decoder_layers": 2,
    "decoder_out_embed_dim": 14,
    "dropout": 0.0,
    "decoder_init_dropout": 0.0,
    "output_layer": "tanh",
}


def dictionary(symbols=20):
    result = Dictionary()
    for i in range(symbols):
        result.add_symbol(f"w{i}")
    return result


def fake_task(source=None, target=None, **config):
    config = {"max_source_positions": 1024, "max_target_positions": 1024, **config}
    return SimpleNamespace(
        source_dictionary=source or dictionary(),
        target_dictionary=target or dictionary(15),
        cfg=SimpleNamespace(**config),
    )


def build(arch, task=None, seed=None, **options):
    """A model of this package from its dataclass, or a stock one from a namespace; ``seed`` draws its parameters."""
    if seed is not None:
        torch.manual_seed(seed)
    task = task or fake_task()
    options = {**SIZES, **options}
    if arch in MODEL_DATACLASS_REGISTRY:
        config = OmegaConf.structured(MODEL_DATACLASS_REGISTRY[arch])
        config = OmegaConf.merge(config, options, {"_name": arch})
    else:
        config = Namespace(arch=arch, criterion="cross_entropy", **options)
    return models.build_model(config, task)


def enlarged(module, factor):
    """With parameters larger than at initialisation, so that differences show."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(factor)
    return module


def save_checkpoint(path, model, arch="lstm_soft"):
    """What ``take_parameters`` needs of a file that fairseq-train writes."""
    history = [{"criterion_name": "x", "num_updates": 1, "lr_scheduler_state": {}}]
    extra = {"optimizer_history": history, "last_optimizer_state": None}
    extra["extra_state"] = {"train_iterator": {"epoch": 1}}
    torch.save({"args": None, "cfg": {"model": {"_name": arch}}, "model": model.state_dict(), **extra}, path)
    return str(path)


def pad_batch(lengths, side="left", width=None, symbols=20, seed=0, pad=1, eos=2):
    """Random sentences of the given lengths (eos included), ``[B, N]``."""
    generator = torch.Generator().manual_seed(seed)
    width = width or max(lengths)
    tokens = torch.full((len(lengths), width), pad)
    for row, length in enumerate(lengths):
        if length:
            words = torch.randint(4, 4 + symbols, (length,), generator=generator)
            words[-1] = eos
            start = width - length if side == "left" else 0
            tokens[row, start : start + length] = words
    return tokens


def logged(criterion, logs):
    """The metrics that fairseq shows of the logs of some workers."""
    with metrics.aggregate(new_root=True) as result:
        criterion.reduce_metrics(logs)
    return result.get_smoothed_values()


_GROUPS = []


@contextlib.contextmanager
def data_parallel(model, folder, **options):
    """torch's own wrapper of a model, in a group of one worker that meets in ``folder``."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=0, world_size=1)
    # Kept until the process ends: Python destroys the wrapper's reducer with the interpreter's lock held. Where the
    # reducer had the last reference, the group would wait for its threads, which may wait for that lock.
    _GROUPS.append(torch.distributed.group.WORLD)
    try:
        yield torch.nn.parallel.DistributedDataParallel(model, **options)
    finally:
        torch.distributed.destroy_process_group()


# --- The encoder-decoder models that the tests of models run on: every mechanism, input feeding and latent alignment

FEEDING = ("output", "context", "none")
LENGTHS = [3, 6, 1, 4]
NO_PRIORS = ("sigmoid", "local-p", "election", "monotonic", "mocha")  # of an alignment
# Mechanisms, some with biases, and models with a latent alignment whose prior they are.
ALL_BIASES = "+position,markov,fertility"
BIASED = ["soft" + ALL_BIASES, "mqt+position", "structured+markov", "local-p+fertility"]
LATENT = [f"latent/{name}" for name in (*names(), "soft" + ALL_BIASES) if name not in NO_PRIORS]
LATENT += ["latent-linear/soft", "latent-gru/soft"]
LINEAR = ["linear/soft", "linear/structured+markov"]  # --output-layer linear
OTHERS = [*BIASED, *LINEAR, "gru/soft", "gru/structured+markov"]
# Each in one kind of input feeding, in turn; in every kind those that have states of their own, and the plainest.
SYSTEMS = [(name, FEEDING[place % 3]) for place, name in enumerate([*names(), *OTHERS])]
SYSTEMS += [(name, FEEDING[1 + place % 2]) for place, name in enumerate(LATENT)]
EVERYWHERE = ("soft", "soft" + ALL_BIASES, "monotonic", "structured", "latent/soft", "latent/soft" + ALL_BIASES)
SYSTEMS = list(
    dict.fromkeys([*SYSTEMS, *((name, kind) for name in EVERYWHERE for kind in FEEDING[name.startswith("latent") :])])
)
systems = pytest.mark.parametrize(("attention", "feeding"), SYSTEMS)


def make(attention, feeding="output", dtype=torch.float64, **options):
    kind, _, attention = attention.rpartition("/")
    attention, _, bias = attention.partition("+")
    arch = "attn_lstm"
    # Without the penalty of fertilities, which is not part of the logits; tests/patches/test_penalties.py checks it.
    options = {"attention_bias": bias, "attention_fertility_weight": 0, **options}
    if kind.endswith("linear"):
        options = {"output_layer": "linear", **options}
    if kind.endswith("gru"):
        options = {"rnn": "gru", **options}
    if kind.startswith("latent"):
        arch = "lstm_latent_small"
        options = {"attention_score": None, "latent_posterior": "False", "structured_scale": 1.0, **options}
    return build(arch, seed=7, attention=attention, input_feeding=feeding, **options).to(dtype).eval()


def watched(model):
    """What the attention of a model is asked and answers, call by call."""
    calls, step = [], model.decoder.attention.step

    def spy(query, *rest, **more):
        calls.append((query, step(query, *rest, **more)))
        return calls[-1][1]

    model.decoder.attention.step = spy
    return calls


def targets(batch=4, steps=5):
    return pad_batch([steps] * batch, "right", symbols=15, seed=1)


ORDERS = [[1, 0, 0, 5, 4, 3, 6, 6, 6, 11, 9, 10], [8, 7, 6, 2, 1, 0], [0, 2, 1, 3, 3, 4], [3, 4, 5]]


def assert_steps_equal_the_whole(model, source, weights=True):
    """As fairseq's generator does it with four sentences and beam 3: expands to the beam, makes a step, permutes
    hypotheses, makes a step, drops sentences, makes a step. Every step is that of the whole prefix.

    Returns the encoder's result and the progress at the end.
    """
    rows = torch.arange(4, device=source.device).repeat_interleave(3)
    prefixes = pad_batch([len(ORDERS) + 1] * len(rows), "right", symbols=15, seed=3).to(source.device)
    encoder_out, state = model.encoder.reorder_encoder_out(model.encoder(source), rows), {}
    assert len(encoder_out["encodings"]) == 4
    for t, order in enumerate([list(range(12)), *ORDERS], 1):
        order = torch.tensor(order, device=source.device)
        model.decoder.reorder_incremental_state(state, order)
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
        prefixes, rows = prefixes[order].clone(), rows[order]
        found, extra = model.decoder(prefixes[:, :t], encoder_out, state)
        whole, own = model(source[rows], source[rows].ne(1).sum(1), prefixes[:, :t])
        torch.testing.assert_close(found[:, 0], whole[:, -1])
        if weights:
            torch.testing.assert_close(extra["attn"][0][:, 0], own["attn"][0][:, -1])
    assert len(encoder_out["encodings"]) == 1
    return encoder_out, model.decoder.get_incremental_state(state, "progress")


def exactly(load):
    """``load_models`` with models in float64, whose nearly equal weights have one order on all processors."""

    def loaded(*args, **options):
        found = load(*args, **options)
        for model in found.models:
            model.double()
        return found

    return loaded
