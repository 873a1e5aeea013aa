"""What stock fairseq needs to run with today's torch and numpy.

- **Checkpoints:** torch reads files with ``weights_only=True`` and stops at the types that a fairseq checkpoint
  holds besides tensors and plain containers: ``argparse.Namespace`` and numpy numbers and arrays (the meters of
  ``--eval-bleu``). They are allowed, numpy's through stand-ins that cannot be abused (:mod:`.safe_files.arrays`).
  ``weights_only`` stays on: executable pickle is refused.
- **Data-parallel training without a GPU:** a launcher such as ``torchrun`` starts as many processes as there are in the
  training. Stock divides by the number of GPUs, or, where it should start the processes itself, starts none and ends.
- **Resuming data-parallel training:** the checkpoint that rank 0 sends holds containers of omegaconf. The sender is of
  the same job; plain pickle is sent, as by fairseq's ``all_gather_list``.
- ``--num-batch-buckets`` asks for ``numpy.compat.long`` and the argument ``interpolation``, which numpy 2 lacks. It
  shifts targets after they are padded, so that the decoder reads the end of a sentence twice and makes a step without a
  word, which attention's penalties and statistics would count. That step reads padding.
- Hydra and torch warn, in each command, of what fairseq calls. Users cannot change it, and do not read what matters
  behind nearly thirty lines.
- ``--bf16`` means ``--tpu`` on stock's command line, which is taken back where it was not given and there is a GPU.
"""

import argparse
import logging
import os
import sys
import warnings
from types import SimpleNamespace
from typing import Any, Callable, Dict, Optional, Sequence

import numpy as np
import torch

from .safe_files.arrays import STAND_INS
from .wrapping import Patch, after, around, before

# ---- loading


@around
def _with_checkpoint_types(original: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    return {**original(), "argparse.Namespace": argparse.Namespace, **STAND_INS}


LOADING = Patch(
    name="loading",
    reason="torch refuses the types in a fairseq checkpoint",
    wraps={"torch._weights_only_unpickler:_get_user_allowed_globals": _with_checkpoint_types},
)


# ---- processes


@before
def _where_there_is_no_gpu(cfg: Any, *_args: Any, **_kwargs: Any) -> None:
    """A process is one rank: that of the launcher's environment, or of the options."""
    options = cfg.distributed_training
    if torch.cuda.device_count() or cfg.common.tpu:
        return
    is_launched = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"} <= os.environ.keys()
    if is_launched and options.distributed_init_method is None and options.distributed_world_size > 1:
        options.distributed_init_method = "env://"
        options.distributed_world_size, options.distributed_rank = (int(os.environ[x]) for x in ("WORLD_SIZE", "RANK"))
    if options.distributed_init_method is not None:
        options.distributed_no_spawn = True
        # the defaults need GPUs
        options.distributed_backend = options.distributed_backend.replace("nccl", "gloo")
        options.ddp_backend = {"c10d": "legacy_ddp", "pytorch_ddp": "legacy_ddp"}.get(
            options.ddp_backend, options.ddp_backend
        )


@around
def _by_objects(gather: Callable[..., Any], data: Any, group: Any = None, max_size: int = 16384) -> Any:
    """Stock's buffer is on a GPU: ``fairseq-validate`` and sums of some criterions stop without one."""
    if torch.cuda.is_available():
        return gather(data, group, max_size)
    found = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(found, data, group)
    return found


PROCESSES = Patch(
    name="processes",
    reason="without a GPU, training in several processes stops with a ZeroDivisionError, or ends without a word",
    wraps={
        "fairseq.distributed.utils:call_main": _where_there_is_no_gpu,
        "fairseq.distributed.utils:all_gather_list": _by_objects,
    },
)


# ---- batches that do not divide by the processes


@around
def _if_there_is_one(step: Callable[..., Any], self: Any, sample: Any, model: Any, criterion: Any) -> Any:
    """``fairseq-validate`` gives a process that has no batch left an empty one."""
    return step(self, sample, model, criterion) if sample else (0, 0, {})


@around
def _without_empty(step: Callable[..., Any], self: Any, samples: Any, *args: Any, **options: Any) -> Any:
    """fairseq takes the batches of an update for empty if the last one is: their gradients count, their words do not.
    A process without any batch keeps an empty one, and takes part in the update."""
    return step(self, [one for one in samples if one] or samples[:1], *args, **options)


EMPTY_BATCHES = Patch(
    name="empty_batches",
    reason="where batches do not divide by the processes, fairseq-validate stops, and with --update-freq the last "
    "update of an epoch has a wrong scale",
    wraps={
        "fairseq.tasks.fairseq_task:FairseqTask.valid_step": _if_there_is_one,
        "fairseq.tasks.translation:TranslationTask.valid_step": _if_there_is_one,
        "fairseq.trainer:Trainer.train_step": _without_empty,
    },
)


# ---- broadcast


@around
def _by_pickle(
    _original: Callable[..., Any], obj: Any, src_rank: int, group: Any, dist_device: Optional[torch.device] = None
) -> Any:
    objects = [obj]
    torch.distributed.broadcast_object_list(objects, src_rank, group, dist_device)
    return objects[0]


BROADCAST = Patch(
    name="broadcast",
    reason="torch refuses the checkpoint that rank 0 sends to the other ranks",
    wraps={"fairseq.distributed.utils:_broadcast_object_slow": _by_pickle},
)


# ---- buckets


@around
def _percentiles(_get_buckets: Callable[..., Any], sizes: Any, num_buckets: int) -> Any:
    return np.unique(np.percentile(sizes, np.linspace(0, 100, num_buckets + 1), method="lower")[1:])


@after
def _with_one_end(
    batch: Dict[str, Any], _samples: Any, pad_idx: int, eos_idx: Optional[int] = None, *_args: Any, **_options: Any
) -> None:
    inputs, target = batch.get("net_input", {}).get("prev_output_tokens"), batch.get("target")
    if inputs is not None and target is not None:
        inputs.masked_fill_(target.eq(pad_idx), pad_idx)
        if eos_idx is not None:  # a target that buckets have padded on the left has its start at another place
            first = target.ne(pad_idx).int().argmax(1, keepdim=True)
            start = inputs.gather(1, first)
            inputs.scatter_(1, first, start.masked_fill(start.eq(pad_idx), eos_idx))


def _name_types() -> None:
    if not hasattr(np, "compat"):
        np.compat = SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]


BUCKETS = Patch(
    name="buckets",
    reason="--num-batch-buckets stops with numpy 2",
    wraps={
        "fairseq.data.bucket_pad_length_dataset:get_buckets": _percentiles,
        "fairseq.data.language_pair_dataset:collate": _with_one_end,
    },
    extra=_name_types,
)


# ---- warnings


def _without_warnings() -> None:
    for message in ("\n'config' is validated against", "'pin_memory' argument is set as true but no accelerator"):
        warnings.filterwarnings("ignore", message, UserWarning)
    for category, module in ((FutureWarning, r"(fairseq|hydra)(\.|$)"), (UserWarning, r"hydra(\.|$)")):
        warnings.filterwarnings("ignore", category=category, module=module)
    logging.getLogger("hydra").setLevel(logging.INFO)


WARNINGS = Patch(
    name="warnings",
    reason="hydra and torch print nearly thirty lines of warnings about fairseq's own calls in every command",
    extra=_without_warnings,
)


# ---- bfloat16


@after
def _on_gpus(parsed: Any, parser: Any, input_args: Optional[Sequence[str]] = None, *_args: Any, **_kwargs: Any) -> None:
    options = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(options, "bf16", False) and torch.cuda.is_available() and not getattr(options, "cpu", False):
        options.tpu = "--tpu" in (sys.argv if input_args is None else input_args)


BFLOAT16 = Patch(
    name="bfloat16",
    reason="fairseq-train --bf16 looks for a TPU on a machine with a GPU",
    wraps={"fairseq.options:parse_args_and_arch": _on_gpus},
)
