"""Resuming data-parallel training under today's torch.

Rank 0 reads the checkpoint and sends it to the other ranks through ``torch.save`` and ``torch.load``. By then the
checkpoint holds omegaconf's containers, which ``weights_only`` refuses. The sender belongs to the same job and has
read the file under ``weights_only``. The patch therefore sends plain pickle, as fairseq's ``all_gather_list`` does.
"""

import pickle
from typing import Any, Callable, Optional

import torch

from .loading import reads_weights_only
from .wrapping import Patch

__all__ = ["PATCH"]


def _by_pickle(_original: Callable[..., Any]) -> Callable[..., Any]:
    from fairseq.distributed import utils as distributed_utils

    def broadcast(obj: Any, src_rank: int, group: object, dist_device: Optional[torch.device] = None) -> Any:
        sends = distributed_utils.get_rank(group) == src_rank
        raw = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8) if sends else torch.empty(0)
        length = torch.tensor([raw.numel()], dtype=torch.long, device=dist_device)
        distributed_utils.broadcast(length, src=src_rank, group=group)
        buffer = raw.to(dist_device) if sends else torch.empty(int(length), dtype=torch.uint8, device=dist_device)
        distributed_utils.broadcast(buffer, src=src_rank, group=group)
        return obj if sends else pickle.loads(buffer.cpu().numpy().tobytes())

    return broadcast


PATCH = Patch(
    name="broadcast",
    reason="torch >= 2.6 refuses the checkpoint that rank 0 sends to the other ranks",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.distributed.utils:_broadcast_object_slow": _by_pickle},
    needed=reads_weights_only,
)
