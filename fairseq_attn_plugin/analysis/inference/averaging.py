"""Averages checkpoints of a training: the parameters of the average are the means of theirs.

An average of the last or best checkpoints translates a little better than one of them (Popel and Bojar 2018,
"Training Tips for the Transformer Model", section 4.10). The file is a checkpoint of fairseq without the state of the
optimiser.
"""

import re
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import torch
from fairseq.checkpoint_utils import checkpoint_paths, load_checkpoint_to_cpu

import fairseq_attn_plugin  # noqa: F401  (checks checkpoints when they are read)
from fairseq_attn_plugin.checkpoints import architecture, check_finite, origin, plain_config
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import flag
from fairseq_attn_plugin.writing import whole_file

# what fairseq-train writes, and no averages or parts of other processes
CHECKPOINT = r"checkpoint(?:\d+|_\d+_\d+|_best|_last|\.best_.+_-?\d+\.\d+)\.pt"


def average(paths: Sequence[str], out: str) -> None:
    """Writes the average of at least two checkpoints of one training to ``out``.

    Raises:
        OptionError: a file cannot be read or written, or the checkpoints are not of one training of one model
    """
    sums: Dict[str, Any] = {}
    first: Dict[str, Any] = {}
    for path in paths:
        state = load_checkpoint_to_cpu(path)
        model = state["model"]
        means = {name: value.double() for name, value in model.items() if _has_mean(value)}
        check_finite(path, iter(means.items()))
        if not first:
            first = {**state, "model": {name: getattr(value, "shape", None) for name, value in model.items()}}
        _check_same(first, state, paths[0], path)
        # counters and tables of integers have no mean: the last one's count
        sums = {**model, **{name: value + sums.get(name, 0.0) for name, value in means.items()}}
    for name, value in model.items():
        if _has_mean(value):
            sums[name] = (sums[name] / len(paths)).to(value.dtype)
    kept = {key: value for key, value in state.items() if key != "last_optimizer_state"}
    kept.update({"model": sums, "cfg": plain_config(state["cfg"])})
    with whole_file(out, f"--out {out}: cannot be written") as partial, open(partial, "wb") as stream:
        torch.save(kept, stream)


def _has_mean(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _check_same(first: Dict[str, Any], state: Dict[str, Any], name: str, path: str) -> None:
    """Raises ``OptionError`` unless both are of one training, or of trainings that began with the same parameters."""
    models = [_section(one, "model") for one in (state, first)]
    arches = [architecture(model) for model in models]
    shapes = {key: getattr(value, "shape", None) for key, value in state["model"].items()}
    other = next((key for key in {**first["model"], **shapes} if shapes.get(key) != first["model"].get(key)), None)
    if arches[0] != arches[1] or other is not None:
        differs = f"{arches[0]} and {arches[1]}" if arches[0] != arches[1] else f"{other} differs"
        raise OptionError(
            f"{path}: is another model than {name}: {differs}; an average needs checkpoints of one model, such as "
            "those of one training"
        )
    # sparsemax has the parameters of softmax
    kinds = [{n: v for n, v in one.items() if n.startswith("attention") and isinstance(v, str)} for one in models]
    for option, kind in kinds[0].items():
        if kinds[1].get(option, kind) != kind:
            raise OptionError(
                f"{path}: has {flag(option)} {kind}, {name} {kinds[1][option]}; an average needs one attention. --path "
                f"{name}:{path} translates with the mean of their predictions"
            )
    began = [origin(_section(one, "checkpoint")) for one in (state, first)]
    seeds = [_section(one, "common").get("seed") for one in (state, first)]
    if seeds[0] != seeds[1] and (began[0] is None or began[0] != began[1]):
        raise OptionError(
            f"{path}: is of a training with --seed {seeds[0]}, {name} with {seeds[1]}; their parameters have no common "
            f"meaning and no average. --path {name}:{path} translates with the mean of their predictions"
        )


def _section(state: Dict[str, Any], name: str) -> Dict[str, Any]:
    section = (state.get("cfg") or {}).get(name) or {}
    return dict(section) if hasattr(section, "items") else vars(section)


def choose(folder: str, count: int, best: bool) -> List[str]:
    """The ``count`` checkpoints of a folder with the most updates, or the best ``--best-checkpoint-metric``.

    Raises ``OptionError`` if it has fewer. Of copies, such as ``checkpoint_best.pt`` of an epoch's, the one of the
    epoch is taken.
    """
    if not Path(folder).is_dir():
        raise OptionError(f"{folder}: is not a folder; --last and --best choose from a folder of checkpoints")
    found: Dict[int, Tuple[float, str]] = {}
    files = checkpoint_paths(folder, CHECKPOINT)
    for path in sorted(files, key=lambda path: (re.match(r"checkpoint_?\d", Path(path).name) is None, path)):
        state = load_checkpoint_to_cpu(path)
        updates = int(state["optimizer_history"][-1].get("num_updates", 0))
        value = (state.get("extra_state") or {}).get("val_loss") if best else -updates
        greatest = best and _section(state, "checkpoint").get("maximize_best_checkpoint_metric")
        if value is not None:
            found.setdefault(updates, (-value if greatest else value, path))
    if len(found) < count:
        raise OptionError(
            f"--{'best' if best else 'last'} {count}: {folder} has {len(found)} checkpoints to choose from; "
            "fairseq-train --keep-last-epochs or --keep-best-checkpoints (without --no-epoch-checkpoints) keeps more"
        )
    chosen = [path for _, path in sorted(found.values())[:count]]
    return chosen if best else chosen[::-1]  # the counts of an average are those of the last one
