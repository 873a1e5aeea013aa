"""Files that a trained model does not need any more.

Some options name files whose contents become parameters or buffers when training starts: an election, a table of words,
a teacher, a lexicon, word vectors. The checkpoint has the contents, and the options, too. When fairseq builds a model
in order to load a checkpoint into it, these options are left out, so that the files may be gone by then.

A training that is continued builds its model as it did at first: its command either still finds the files, or leaves
the options out. The checkpoint's values win in any case.
"""

import copy
import functools
from typing import Any

OPTIONS = (
    "gaussian_election",
    "election_table",
    "election_teacher",
    "lexicon",
    "encoder_embed_path",
    "decoder_embed_path",
    "word_embeddings",
)


def install() -> None:
    """Have fairseq build models of this package without files for checkpoints; calling it again changes nothing."""
    from fairseq import models

    build = models.build_model
    if getattr(build, "leaves_files_out", False):
        return

    @functools.wraps(build)
    def without_files(cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
        return build(leave_out(cfg) if from_checkpoint else cfg, task, from_checkpoint)

    without_files.leaves_files_out = True  # type: ignore[attr-defined]
    models.build_model = without_files


def leave_out(cfg: Any) -> Any:
    """A model's configuration without its files; that of other packages' models as it is."""
    from fairseq.models import MODEL_REGISTRY
    from omegaconf import OmegaConf, open_dict

    from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel
    from fairseq_attn_plugin.models.han import HANModel

    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    if not issubclass(MODEL_REGISTRY.get(name, object), (AttnLSTMModel, HANModel)):
        return cfg
    result = copy.copy(cfg)
    for option in OPTIONS:
        if getattr(result, option, None) is None:
            continue
        if OmegaConf.is_config(result):
            with open_dict(result):
                result[option] = None
        else:
            setattr(result, option, None)
    return result
