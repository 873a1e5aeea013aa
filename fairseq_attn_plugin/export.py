"""Exports one direction of an agreement model as an ordinary checkpoint.

The result is a checkpoint of ``attn_lstm`` with a value for every option, as if ``fairseq-train --source-lang en
--target-lang de`` had trained one direction. All commands of this package read it. Its translations equal those of the
agreement model in that direction. It has no optimizer state.
"""

import os
from typing import Any, Dict, Sequence, Tuple

import torch

from fairseq_attn_plugin.checkpoints import architecture, check_finite, plain_config
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import earlier_values
from fairseq_attn_plugin.writing import make_folder, whole_file


def export_direction(checkpoint: str, direction: str, out: str, force: bool = False) -> Dict[str, Any]:
    """Writes one direction of an agreement model as a checkpoint of its own.

    Args:
        checkpoint: file that ``fairseq-train --arch lstm_agreement`` wrote
        direction: one of its directions, such as ``en-de``
        out: file to write; its folder is created
        force: whether an existing file may be overwritten

    Returns:
        the state that was written

    Raises:
        OptionError: the checkpoint does not exist or is not of an agreement model, the model lacks the direction, or
            ``out`` exists or cannot be written
    """
    from fairseq import checkpoint_utils

    if not os.path.isfile(checkpoint):
        raise OptionError(f"{checkpoint}: no such file; give a checkpoint of --arch lstm_agreement")
    if os.path.exists(out) and (not force or os.path.isdir(out) or os.path.samefile(out, checkpoint)):
        remedy = "name another" if force else "name another file, or add --force"
        raise OptionError(f"--out {out}: exists; {remedy}")
    state = checkpoint_utils.load_checkpoint_to_cpu(checkpoint)
    exported = _one_direction(state, checkpoint, direction)
    make_folder("--out", os.path.dirname(out) or ".")
    with whole_file(out, f"--out {out}: cannot be written") as unfinished, open(unfinished, "wb") as stream:
        torch.save(exported, stream)  # to a stream, whose errors say why
    return exported


def _one_direction(state: Dict[str, Any], name: str, direction: str) -> Dict[str, Any]:
    """The checkpoint state of one direction, from that of an agreement model, whose file is ``name``."""
    from fairseq.models import MODEL_REGISTRY

    from fairseq_attn_plugin.models.agreement_lstm import AgreementLSTMModel, directions_of

    config = plain_config(state.get("cfg"))
    if not all(isinstance(config.get(group), dict) for group in ("model", "task", "criterion")):
        raise OptionError(f"{name}: lacks options of model, task or criterion; must be a checkpoint of lstm_agreement")
    trained = architecture(config["model"])
    if not issubclass(MODEL_REGISTRY.get(trained, object), AgreementLSTMModel):
        raise OptionError(f"{name}: has the architecture {trained}, which has one direction; must be lstm_agreement")
    known = directions_of(state["model"])
    if direction not in known:
        raise OptionError(f"--direction {direction}: {name} translates {' and '.join(known)}; choose one of these")
    config["model"] = _model_config(config["model"])
    source, target = _languages(direction, known)
    # the data folder may have chosen the languages: with the larger limit no training sentence is too long
    sides = ("max_source_positions", "max_target_positions")
    longest = max(config["task"].get(side) or 1024 for side in sides)
    config["task"].update(source_lang=source, target_lang=target, **dict.fromkeys(sides, longest))
    smoothing, by_sentence = (config["criterion"].get(key) for key in ("label_smoothing", "sentence_avg"))
    config["criterion"] = {
        "_name": "label_smoothed_cross_entropy",
        "label_smoothing": smoothing or 0.0,
        "sentence_avg": bool(by_sentence),
    }
    prefix = f"models.{direction}."
    parameters = {key[len(prefix) :]: value for key, value in state["model"].items() if key.startswith(prefix)}
    check_finite(name, parameters.items())
    extra = {key: value for key, value in state["extra_state"].items() if not key.startswith("ema")}
    return {**state, "cfg": config, "model": parameters, "extra_state": extra, "last_optimizer_state": None}


def _model_config(saved: Dict[str, Any]) -> Dict[str, Any]:
    """Every option of ``attn_lstm``. An option that is not in the checkpoint has the value that it had before it was
    there, or the default of its architecture."""
    from fairseq.models import MODEL_DATACLASS_REGISTRY

    from fairseq_attn_plugin.models.attn_lstm import AttnLSTMConfig

    defaults = MODEL_DATACLASS_REGISTRY[saved["_name"]]()
    known = {**vars(defaults), **earlier_values(defaults), **saved}
    config = {key: known[key] for key in AttnLSTMConfig.__dataclass_fields__}
    # The embeddings are in the checkpoint. Their files belong to languages, and the sides of a direction may differ.
    for side in ("encoder", "decoder"):
        config[f"{side}_embed_path"], config[f"{side}_freeze_embed"] = None, False
    return {**config, "_name": "attn_lstm"}


def _languages(direction: str, known: Sequence[str]) -> Tuple[str, str]:
    """Source and target of ``de-en``. If names have hyphens, the name of the other direction tells where to split."""
    parts = direction.split("-")
    splits = (("-".join(parts[:i]), "-".join(parts[i:])) for i in range(1, len(parts)))
    return next((source, target) for source, target in splits if f"{target}-{source}" in known)
