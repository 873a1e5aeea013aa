"""What stock fairseq needs on today's Python and torch, mended when the plugin is imported.

Each entry is here because a stock command stops, or gives a wrong result, without it:

Checkpoints.  torch >= 2.6 reads files with ``weights_only=True`` and then stops at the types that a fairseq
    checkpoint holds beside tensors and plain containers. Seen in checkpoints of every stock optimizer,
    scheduler and meter tried: ``argparse.Namespace`` (the model options of ``--arch``), and numpy numbers and
    arrays (the meters of ``--eval-bleu``). These are allowed, numpy's through harmless stand-ins
    (:mod:`fairseq_attn_plugin._safe_arrays`); ``weights_only`` stays on, so that a file that carries
    executable pickle is refused, unexecuted. Older torch reads checkpoints as it always did.

Resuming data-parallel training.  Rank 0 reads the checkpoint and sends it to the other ranks through
    ``torch.save`` and ``torch.load``; by then it holds omegaconf's containers, which ``weights_only``
    refuses. The sender is the same job and has read the file under ``weights_only``, so that the transport
    is plain pickle, as it is in fairseq's ``all_gather_list``.

Evaluation of every sentence.  See :mod:`fairseq_attn_plugin._batches`.

Several trainings in one process.  See :mod:`fairseq_attn_plugin._multirun`.

Options of a trained model.  See :mod:`fairseq_attn_plugin._overrides`.

Files of a trained model.  See :mod:`fairseq_attn_plugin._checkpoint_files`.

Soft alignments of references.  See :mod:`fairseq_attn_plugin._scorer`.

Coverage in the scores of beam search.  See :mod:`fairseq_attn_plugin._coverage`.

Unknown words replaced by what they are aligned to.  See :mod:`fairseq_attn_plugin._replace_unk`.

Penalties of attention mechanisms in the loss of any criterion.  See :mod:`fairseq_attn_plugin._penalties`.

Errors under hydra.  fairseq-hydra-train catches every exception and prints its own report with a trace.
    With ``HYDRA_FULL_ERROR`` set it raises on, and the hook of :mod:`fairseq_attn_plugin.errors` decides.
"""

import argparse
import functools
import os
import pickle
from typing import Any, Dict, Optional

import torch

from fairseq_attn_plugin import (
    _batches,
    _checkpoint_files,
    _coverage,
    _multirun,
    _overrides,
    _penalties,
    _replace_unk,
    _safe_arrays,
    _scorer,
    errors,
)


def install() -> None:
    """Mend what needs mending; calling it again changes nothing. Needs fairseq; prints nothing."""
    allow_checkpoint_types()
    mend_broadcast()
    pass_errors_through_hydra()
    _batches.keep_last_batch()
    _multirun.install()
    _overrides.install()
    _checkpoint_files.install()
    _scorer.install()
    _coverage.install()
    _replace_unk.install()
    _penalties.install()
    errors.install_hook()


def reads_weights_only() -> bool:
    """Whether this torch reads files with ``weights_only=True`` unless told otherwise (torch >= 2.6)."""
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in torch.__version__.split(".")[:2])
    return (major, minor) >= (2, 6) and hasattr(torch.serialization, "add_safe_globals")


def allow_checkpoint_types() -> None:
    """Allow ``argparse.Namespace`` and the numpy stand-ins in files that ``torch.load`` reads."""
    if reads_weights_only():
        torch.serialization.add_safe_globals([argparse.Namespace, *_safe_arrays.stand_ins()])
        prefer_what_others_allow()


def prefer_what_others_allow() -> None:
    """Let numpy's own win over a stand-in of the same name where somebody has allowed it himself.

    torch takes the one that a set yields last, which is another in every process, and numpy's array does not take a
    stand-in for its dtype.
    """
    from torch import _weights_only_unpickler as unpickler

    original = getattr(unpickler, "_get_user_allowed_globals", None)
    if original is None or getattr(original, "prefers_others", False):
        return
    own = [stand_in for stand_in, _ in _safe_arrays.stand_ins()]

    @functools.wraps(original)
    def by_name() -> Dict[str, Any]:
        allowed: Dict[str, Any] = original()
        for entry in torch.serialization.get_safe_globals():
            if not isinstance(entry, tuple) and not any(entry is stand_in for stand_in in own):
                allowed[f"{entry.__module__}.{entry.__qualname__}"] = entry
        return allowed

    by_name.prefers_others = True  # type: ignore[attr-defined]
    unpickler._get_user_allowed_globals = by_name


def mend_broadcast() -> None:
    """Send objects between ranks by pickle where ``torch.load`` would refuse omegaconf's types."""
    if not reads_weights_only():
        return
    from fairseq.distributed import utils as distributed_utils

    distributed_utils._broadcast_object_slow = _broadcast_object


def _broadcast_object(obj: Any, src_rank: int, group: object, dist_device: Optional[torch.device] = None) -> Any:
    from fairseq.distributed import utils as distributed_utils

    sends = distributed_utils.get_rank(group) == src_rank
    raw = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8) if sends else torch.empty(0)
    length = torch.tensor([raw.numel()], dtype=torch.long, device=dist_device)
    distributed_utils.broadcast(length, src=src_rank, group=group)
    buffer = raw.to(dist_device) if sends else torch.empty(int(length), dtype=torch.uint8, device=dist_device)
    distributed_utils.broadcast(buffer, src=src_rank, group=group)
    return obj if sends else pickle.loads(buffer.cpu().numpy().tobytes())


def pass_errors_through_hydra() -> None:
    """Let hydra raise what it has caught, if the plugin is being imported inside a hydra job."""
    try:
        from hydra.core.hydra_config import HydraConfig
    except ImportError:
        return
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")
