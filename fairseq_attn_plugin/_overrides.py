"""Options of a trained model that may be chosen when it is used.

fairseq-generate, -interactive and -validate take a model's options from its checkpoint, and change them by
``--model-overrides "{'latent_topk': 5}"``. The options listed here have flags of their own there, which are merged into
the overrides, in whatever order they are given.
"""

import argparse
import ast
import functools
import os
from typing import Any, Callable, Dict, Tuple

from fairseq_attn_plugin.errors import OptionError

OPTIONS: Dict[str, Dict[str, Any]] = {
    "latent_topk": {
        "type": int,
        "metavar": "K",
        "help": "latent alignment models: predict from the K most probable alignments (default: the exact marginal)",
    },
    "latent_prediction": {
        "help": "latent alignment models: marginal, soft, or auto (default: what the model was trained with)",
    },
    "latent_alignment": {
        "help": "latent alignment models: weights to return: prior; posterior or bayes with --score-reference",
    },
    "agreement_direction": {
        "metavar": "SRC-TGT",
        "help": "agreement models: the direction to translate in, such as de-en (default: that of the data, which are "
        "read in this one unless --source-lang or --target-lang is given or their languages have other names)",
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


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def install() -> None:
    """Add the flags to fairseq's parsers; calling it again changes nothing."""
    from fairseq import checkpoint_utils, options
    from fairseq.dataclass.configs import CommonEvalConfig

    original = options.gen_parser_from_dataclass
    if getattr(original, "adds_overrides", False):
        return

    @functools.wraps(original)
    def with_flags(parser: Any, dataclass_instance: Any, *args: Any, **kwargs: Any) -> None:
        original(parser, dataclass_instance, *args, **kwargs)
        if isinstance(dataclass_instance, CommonEvalConfig):
            add_flags(parser)

    with_flags.adds_overrides = True  # type: ignore[attr-defined]
    options.gen_parser_from_dataclass = with_flags

    parse = options.parse_args_and_arch

    @functools.wraps(parse)
    def with_languages(*args: Any, **kwargs: Any) -> Any:
        result = parse(*args, **kwargs)
        _read_in_direction(result[0] if isinstance(result, tuple) else result)
        return result

    options.parse_args_and_arch = with_languages

    load = checkpoint_utils.load_model_ensemble_and_task

    @functools.wraps(load)
    def checked(filenames: Any, arg_overrides: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = load(filenames, arg_overrides, *args, **kwargs)
        check(result[0], arg_overrides or {})
        take_lexicon(result[0], arg_overrides or {}, result[2])
        return result

    checkpoint_utils.load_model_ensemble_and_task = checked


def add_flags(parser: Any) -> None:
    """The flags, and a ``--model-overrides`` that adds to what they have set."""
    stock = parser._option_string_actions["--model-overrides"]
    stock.__class__ = _Merge
    for name, settings in OPTIONS.items():
        parser.add_argument(
            flag(name), dest="model_overrides", action=_Merge, default=argparse.SUPPRESS, **settings
        ).key = name


class _Merge(argparse._StoreAction):
    """Adds one entry, or for ``--model-overrides`` itself all of its entries, to the overrides."""

    key = None

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        merged = parse_overrides(getattr(namespace, self.dest, None) or "{}")
        merged.update(parse_overrides(values) if self.key is None else {self.key: values})
        setattr(namespace, self.dest, repr(merged))


def _read_in_direction(args: Any) -> None:
    """``--agreement-direction de-en`` chooses the languages of the data, too, where they are these and none were given.

    Otherwise it is left to the model, which knows its directions."""
    direction = parse_overrides(getattr(args, "model_overrides", None) or "{}").get("agreement_direction")
    parts, data = str(direction).split("-"), getattr(args, "data", None)
    given = any(getattr(args, name, None) for name in ("source_lang", "target_lang"))
    if not data or given:
        return
    folder = data.split(os.pathsep)[0]
    for i in range(1, len(parts)):  # languages may have hyphens in their names
        languages = "-".join(parts[:i]), "-".join(parts[i:])
        if all(os.path.exists(os.path.join(folder, f"dict.{language}.txt")) for language in languages):
            args.source_lang, args.target_lang = languages


def parse_overrides(text: str) -> Dict[str, Any]:
    """The dictionary that ``--model-overrides`` is; raises OptionError for anything else."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, dict):
        raise OptionError(f"--model-overrides {text}: must be a dictionary, as in \"{{'latent_topk': 5}}\"")
    return value


def check(models: Any, overrides: Dict[str, Any]) -> None:
    """Raises OptionError where an option of this module was given and no model has it."""
    from fairseq_attn_plugin.models.agreement_lstm import AgreementLSTMModel
    from fairseq_attn_plugin.models.latent_lstm import LatentLSTMModel

    kinds: Dict[str, Tuple[Callable[[Any], bool], str]] = {
        "latent": (lambda model: isinstance(model, LatentLSTMModel), "has latent alignments"),
        "agreement": (lambda model: isinstance(model, AgreementLSTMModel), "has two directions"),
        "lexicon": (takes_lexicon, "takes a lexicon, which needs attention and an ordinary softmax"),
    }
    for name in OPTIONS:
        has, what = kinds[name.split("_")[0]]
        if name in overrides and not any(map(has, models)):
            raise OptionError(f"{flag(name)} {overrides[name]}: none of the models of --path {what}; leave it out")


def takes_lexicon(model: Any) -> bool:
    """Whether a lexicon may bias the model: one of this package, without latent alignment."""
    from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel
    from fairseq_attn_plugin.models.latent_lstm import LatentLSTMModel

    if not isinstance(model, AttnLSTMModel) or isinstance(model, LatentLSTMModel):
        return False
    return model.decoder.attention is not None and model.decoder.adaptive_softmax is None


def take_lexicon(models: Any, overrides: Dict[str, Any], task: Any) -> None:
    """Gives the models the lexicon of the overrides, in the place of one that they were trained with, and its epsilon.

    It cannot be read when a model is built: for checkpoints that is done without files (``_checkpoint_files``), and
    with the options that it was saved with, of which an old checkpoint has no epsilon.
    """
    path, epsilon = overrides.get("lexicon"), overrides.get("lexicon_epsilon")
    if epsilon is not None and not (isinstance(epsilon, (int, float)) and epsilon > 0):
        raise OptionError(f"--lexicon-epsilon {epsilon}: must be a number above 0")
    for model in filter(takes_lexicon, models):
        if path is not None:
            model.decoder.lexicon.read(path, task.source_dictionary, task.target_dictionary)
        if epsilon is not None:
            model.decoder.lexicon.epsilon = float(epsilon)
