"""``--bf16`` on the command line trains on a GPU.

Stock's command line takes ``--bf16`` and ``--memory-efficient-bf16`` for ``--tpu``, although its trainer uses
bfloat16 on GPUs as well, and a training stops where torch_xla is not installed. The patch takes ``--tpu`` back where it
was not given and there is a GPU.
"""

import sys
from typing import Any, Callable, Optional, Sequence

import torch

from .wrapping import Patch

__all__ = ["PATCH"]


def _on_gpus(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_args_and_arch(parser: Any, input_args: Optional[Sequence[str]] = None, *args: Any, **kwargs: Any) -> Any:
        parsed = parse(parser, input_args, *args, **kwargs)
        options = parsed[0] if isinstance(parsed, tuple) else parsed
        if getattr(options, "bf16", False) and torch.cuda.is_available() and not getattr(options, "cpu", False):
            options.tpu = "--tpu" in (sys.argv if input_args is None else input_args)
        return parsed

    return parse_args_and_arch


PATCH = Patch(
    name="bfloat16",
    reason="fairseq-train --bf16 looks for a TPU on a machine with a GPU",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.options:parse_args_and_arch": _on_gpus},
)
