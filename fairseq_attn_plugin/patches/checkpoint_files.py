"""Files that a trained model does not need any more.

Some options name files whose contents become parameters or buffers when training starts: an election, a table of
words, a teacher, a lexicon, word vectors. The checkpoint holds both the contents and the options. When fairseq builds
a model in order to load a checkpoint into it, the patch leaves these options out: the files may be gone by then.
:func:`fairseq_attn_plugin.options.option` declares such an option by ``file=True``.

A continued training builds its model as it did at first: its command either still finds the files, or leaves the
options out. The values of the checkpoint win in either case.
"""

import copy
from typing import Any, Callable

from fairseq_attn_plugin.options import file_options

from .wrapping import Patch

__all__ = ["PATCH", "leave_out"]


def _without_files(build: Callable[..., Any]) -> Callable[..., Any]:
    def build_model(cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
        return build(leave_out(cfg) if from_checkpoint else cfg, task, from_checkpoint)

    return build_model


def leave_out(cfg: Any) -> Any:
    """A copy of a model's configuration without its files; the configuration itself if it cannot name any."""
    from fairseq.models import MODEL_DATACLASS_REGISTRY
    from omegaconf import OmegaConf, open_dict

    dataclass = MODEL_DATACLASS_REGISTRY.get(getattr(cfg, "_name", None) or getattr(cfg, "arch", None))
    options = [] if dataclass is None else file_options(dataclass)
    if not options:
        return cfg
    result = copy.copy(cfg)
    for option in options:
        if getattr(result, option, None) is None:
            continue
        if OmegaConf.is_config(result):
            with open_dict(result):
                result[option] = None
        else:
            setattr(result, option, None)
    return result


PATCH = Patch(
    name="checkpoint_files",
    reason="a trained model cannot be used without the files that its training has read",
    checked=("0.12.3.1",),
    wraps={"fairseq.models:build_model": _without_files},
)
