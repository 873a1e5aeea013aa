"""What is asked of a trained model: options of its use, files that it no longer needs, the code that it needs.

- fairseq-generate, -interactive and -validate take a model's options from its checkpoint, and change them by
  ``--model-overrides "{'latent_topk': 5}"``. The options of :data:`OPTIONS` have flags of their own there, which are
  merged into the overrides and win over entries of the same name. A name that no model has is refused.
- Options that name files whose contents become parameters or buffers (an election, a table of words, a teacher, a
  lexicon, word vectors; ``option(file=True)``) are left out when a model is built for a checkpoint, which holds the
  contents. A continued training builds its model as it did at first.
- A checkpoint without an option whose default may change is built with what was done before (``option(before=...)``).
- Options of a checkpoint's criterion that are gone are left out; those of models are left out by fairseq.
- A checkpoint holds the ``--user-dir`` of its training. That folder is code, chosen by whoever made the checkpoint: it
  is never imported unless the user names it. Where a name is unknown, the message says which folder may have it.
"""

import argparse
import contextlib
import copy
import os
import re
from typing import Any, Callable, Dict, Optional, Tuple

from fairseq import checkpoint_utils
from fairseq.models import FairseqLanguageModel

from fairseq_attn_plugin.errors import OptionError, did_you_mean, one_line
from fairseq_attn_plugin.options import earlier_values, file_options, flag, parse_overrides

from .wrapping import Patch, after, around

# ---- overrides


OPTIONS: Dict[str, Dict[str, Any]] = {
    "latent_topk": {
        "type": int,
        "metavar": "K",
        "help": "latent alignment models: predict from the K most probable alignments (default: the exact marginal)",
    },
    "latent_prediction": {
        "help": "latent alignment models: marginal, soft, or auto (default: what the model was trained with)",
    },
    "lexicon": {
        "metavar": "FILE",
        "help": "models of this package, also such as were trained without it: translation lexicon that biases them",
    },
    "lexicon_epsilon": {
        "type": float,
        "metavar": "X",
        "help": "what is added to the lexicon's probability (default: what the model was trained with, or 0.001)",
    },
}


PREFIX = "override_"  # of the flags in the namespace, so that none of them is taken for an option of the task


@after
def _with_flags(_none: None, parser: Any, dataclass_instance: Any, *_args: Any, **_kwargs: Any) -> None:
    from fairseq.dataclass.configs import CommonEvalConfig

    if isinstance(dataclass_instance, CommonEvalConfig):
        for name, settings in OPTIONS.items():
            parser.add_argument(flag(name), dest=PREFIX + name, default=argparse.SUPPRESS, **settings)


@after
def _merging(parsed: Any, *_args: Any, **_kwargs: Any) -> None:
    """Move the flags into ``model_overrides``."""
    options: Any = parsed[0] if isinstance(parsed, tuple) else parsed
    given = {name: vars(options).pop(PREFIX + name) for name in OPTIONS if PREFIX + name in options}
    overrides = parse_overrides(getattr(options, "model_overrides", None) or "{}")
    if given:
        options.model_overrides = repr({**overrides, **given})


@after
def _checked(loaded: Any, filenames: Any, arg_overrides: Any = None, *_args: Any, **_kwargs: Any) -> None:
    (models, cfg, task), overrides = loaded, arg_overrides or {}
    if "data" not in overrides:  # fairseq-validate, --lm-path and hubs pass more than --model-overrides
        check_names(models, cfg, overrides)
    elif "path" not in overrides and all(isinstance(model, FairseqLanguageModel) for model in models):
        return  # of --lm-path, which fairseq loads with the overrides of --path
    check(models, overrides)
    take_lexicon(models, overrides, task)


def check_names(models: Any, cfg: Any, overrides: Dict[str, Any]) -> None:
    """Raises OptionError for an override that no model has, which fairseq ignores; ``cfg`` is that of the last one."""
    sections = [one if hasattr(one, "keys") else getattr(one, "__dict__", {}) for one in cfg.values()]
    classes = [getattr(type(model), "__dataclass", None) for model in models]
    known = {*OPTIONS, *(name for section in sections for name in section)}
    known.update(name for one in classes for name in getattr(one, "__dataclass_fields__", ()))
    for name in overrides:
        if name not in known:
            hint = did_you_mean(name, known, "see the options of its training")
            raise OptionError(f"--model-overrides {name}: is no option of the model of --path; {hint}")


def check(models: Any, overrides: Dict[str, Any]) -> None:
    """Raises OptionError if an option of :data:`OPTIONS` is among the overrides, and none of the models has it."""
    from fairseq_attn_plugin.models.latent_lstm import LatentLSTMModel

    kinds: Dict[str, Tuple[Callable[[Any], bool], str]] = {
        "latent": (lambda model: isinstance(model, LatentLSTMModel), "has latent alignments"),
        "lexicon": (takes_lexicon, "takes a lexicon, which needs attention and an ordinary softmax"),
    }
    for name in OPTIONS:
        has, what = kinds[name.split("_")[0]]
        if name in overrides and not any(map(has, models)):
            raise OptionError(f"{flag(name)} {overrides[name]}: none of the models of --path {what}; leave it out")


def takes_lexicon(model: Any) -> bool:
    """Whether a lexicon may bias the model: a model of this package without latent alignment."""
    from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel
    from fairseq_attn_plugin.models.latent_lstm import LatentLSTMModel

    if not isinstance(model, AttnLSTMModel) or isinstance(model, LatentLSTMModel):
        return False
    return model.decoder.attention is not None and model.decoder.adaptive_softmax is None


def take_lexicon(models: Any, overrides: Dict[str, Any], task: Any) -> None:
    """Give the models the lexicon and the epsilon of the overrides instead of those that they were trained with.

    A lexicon cannot be read while the model is built: models are built for checkpoints without files
    (:func:`as_written`) and with the options that were saved with them, and old checkpoints have no epsilon.

    Raises:
        OptionError: the epsilon is not a positive number or no model has a lexicon, or the lexicon cannot be read
    """
    path, epsilon = overrides.get("lexicon"), overrides.get("lexicon_epsilon")
    if epsilon is not None and not (isinstance(epsilon, (int, float)) and epsilon > 0):
        raise OptionError(f"--lexicon-epsilon {epsilon}: must be a number above 0")
    for model in filter(takes_lexicon, models):
        if path is not None:
            model.decoder.lexicon.read(path, task.source_dictionary, task.target_dictionary)
        if epsilon is not None:
            model.decoder.lexicon.epsilon = float(epsilon)
    if epsilon is not None and not any(model.decoder.lexicon.active for model in filter(takes_lexicon, models)):
        raise OptionError(f"--lexicon-epsilon {epsilon}: has no effect without --lexicon; leave it out")


OVERRIDES = Patch(
    name="overrides",
    reason="options of a trained model can be changed by --model-overrides only, which checks nothing",
    wraps={
        "fairseq.options:gen_parser_from_dataclass": _with_flags,
        "fairseq.options:parse_args_and_arch": _merging,
        "fairseq.checkpoint_utils:load_model_ensemble_and_task": _checked,
    },
)


# ---- checkpoint files


@around
def _without_files(build: Callable[..., Any], cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
    return build(as_written(cfg) if from_checkpoint else cfg, task, from_checkpoint)


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
    with open_dict(result) if OmegaConf.is_config(result) else contextlib.nullcontext():
        for name, value in changes.items():
            setattr(result, name, value)
    return result


GONE = ("gumbel_tau_start", "gumbel_anneal_updates", "gumbel_straight_through", "alignment_weight_end")


@around
def _without_gone(build: Callable[..., Any], self: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY

    dataclass = CRITERION_DATACLASS_REGISTRY.get(getattr(cfg, "_name", None))
    taken = getattr(dataclass, "__dataclass_fields__", GONE)  # other criterions may have options of these names
    gone = [name for name in GONE if name in cfg and name not in taken]
    if gone:
        from omegaconf import open_dict

        cfg = copy.copy(cfg)
        with open_dict(cfg):
            for name in gone:
                del cfg[name]
    return build(self, cfg, *args, **kwargs)


CHECKPOINT_FILES = Patch(
    name="checkpoint_files",
    reason="a trained model cannot be used without the files that its training has read, or with options that are gone",
    wraps={
        "fairseq.models:build_model": _without_files,
        "fairseq.tasks.fairseq_task:FairseqTask.build_criterion": _without_gone,
    },
)


# ---- user dirs


# a mechanism, a part of one, an objective, a task or a model that nothing registers
UNKNOWN = re.compile(r"--user-dir|Could not infer (model|task) type")
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def user_dir_of(path: str) -> Optional[str]:
    """The ``--user-dir`` that a checkpoint was trained with, unless it is this package."""
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    folder = getattr((state.get("cfg") or {}).get("common") or state.get("args"), "user_dir", None)
    is_own = not isinstance(folder, str) or os.path.basename(folder.rstrip(os.sep)) == os.path.basename(OWN)
    return None if is_own else folder


@around
def _names_the_user_dir(load: Callable[..., Any], filenames: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return load(filenames, *args, **kwargs)
    except Exception as error:
        line = one_line(error)
        trained = {path: user_dir_of(path) for path in filenames} if line and UNKNOWN.search(line) else {}
        for path, folder in trained.items():
            if folder is not None:
                raise OptionError(
                    f"{line}; {path} was trained with --user-dir {folder}: code of a checkpoint is not imported by "
                    "itself; name the folder by --user-dir if you trust it"
                ) from error
        raise


USER_DIRS = Patch(
    name="user_dirs",
    reason="a checkpoint with a mechanism from a --user-dir does not say which folder it needs",
    wraps={"fairseq.checkpoint_utils:load_model_ensemble_and_task": _names_the_user_dir},
)
