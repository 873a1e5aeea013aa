"""Small models and batches for the tests, built through fairseq's registry as its command-line tools build them."""

import contextlib
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf

import fairseq_attn_plugin  # noqa: F401
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


def build(arch, task=None, **options):
    """A model of this package from its dataclass, or a stock one from a namespace."""
    task = task or fake_task()
    options = {**SIZES, **options}
    if arch in MODEL_DATACLASS_REGISTRY:
        config = OmegaConf.structured(MODEL_DATACLASS_REGISTRY[arch])
        config = OmegaConf.merge(config, options, {"_name": arch})
    else:
        config = Namespace(arch=arch, criterion="cross_entropy", **options)
    return models.build_model(config, task)


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
