"""``fairseq-generate`` spends less time between its batches.

Its loop looks up options in omegaconf's containers, twenty times for every sentence, and makes strings of tensors
symbol by symbol. The patch gives it groups of options with plain attributes, and the dictionary a list. What is printed
is the same.
"""

from typing import Any, Callable

import torch

from .wrapping import Patch

__all__ = ["PATCH"]

GROUPS = ("common", "common_eval", "dataset", "generation")


class _Group:
    """A group of options as plain attributes. What is set is set in the original, too."""

    _group: Any

    def __init__(self, group: Any):
        self.__dict__["_group"] = group
        self.__dict__.update((name, getattr(group, name)) for name in group)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value
        setattr(self._group, name, value)


class _Options:
    """A configuration with plain :data:`GROUPS`."""

    def __init__(self, cfg: Any):
        self._cfg = cfg
        self.__dict__.update((name, _Group(cfg[name])) for name in GROUPS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cfg, name)

    def __repr__(self) -> str:
        return repr(self._cfg)


def _with_plain_options(main: Callable[..., Any]) -> Callable[..., Any]:
    def _main(cfg: Any, output_file: Any) -> Any:
        return main(_Options(cfg), output_file)

    return _main


def _of_lists(string: Callable[..., str]) -> Callable[..., str]:
    def from_indices(self: Any, tensor: Any, *args: Any, **options: Any) -> str:
        flat = torch.is_tensor(tensor) and tensor.dim() == 1
        return string(self, tensor.tolist() if flat else tensor, *args, **options)

    return from_indices


PATCH = Patch(
    name="generation_loop",
    reason="fairseq-generate spends as long between the batches as a fast search in them",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq_cli.generate:_main": _with_plain_options,
        "fairseq.data.dictionary:Dictionary.string": _of_lists,
    },
)
