"""Options of a checkpoint that are not taken as they stand: files, and options that are younger than the checkpoint.

Some options name files whose contents become parameters or buffers when training starts: an election, a table of
words, a teacher, a lexicon, word vectors. The checkpoint holds both the contents and the options. When fairseq builds
a model in order to load a checkpoint into it, the patch leaves these options out: the files may be gone by then.
:func:`fairseq_attn_plugin.options.option` declares such an option by ``file=True``.

A continued training builds its model as it did at first: its command either still finds the files, or leaves the
options out. The values of the checkpoint win in either case.

An option whose default may change declares by ``before=`` what was done before it existed. A checkpoint without the
option is built with that value, whatever the default is now.
"""

import copy
from typing import Any, Callable

from fairseq_attn_plugin.options import earlier_values, file_options

from .wrapping import Patch

__all__ = ["PATCH", "as_written"]


def _without_files(build: Callable[..., Any]) -> Callable[..., Any]:
    def build_model(cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
        return build(as_written(cfg) if from_checkpoint else cfg, task, from_checkpoint)

    return build_model


def as_written(cfg: Any) -> Any:
    """A copy of a checkpoint's model configuration without its files, and with what was done before an option existed.

    The configuration itself if nothing is to be changed.
    """
    from fairseq.models import MODEL_DATACLASS_REGISTRY
    from omegaconf import OmegaConf, open_dict

    dataclass = MODEL_DATACLASS_REGISTRY.get(getattr(cfg, "_name", None) or getattr(cfg, "arch", None))
    if dataclass is None:
        return cfg
    changes = {name: None for name in file_options(dataclass) if getattr(cfg, name, None) is not None}
    changes.update({name: value for name, value in earlier_values(dataclass).items() if name not in cfg})
    if not changes:
        return cfg
    result = copy.copy(cfg)
    for name, value in changes.items():
        if OmegaConf.is_config(result):
            with open_dict(result):
                result[name] = value
        else:
            setattr(result, name, value)
    return result


PATCH = Patch(
    name="checkpoint_files",
    reason="a trained model cannot be used without the files that its training has read",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.models:build_model": _without_files},
)
