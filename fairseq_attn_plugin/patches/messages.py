"""What stock fairseq raises for a user's mistake becomes one line: the option, the value, what would be right.

Three rules cover most mistakes: what fairseq itself raises in words (:func:`own_words`), a file that cannot be read or
written (:func:`file_error`), and what :data:`REMEDIES` names. Explanations see the arguments of the function that
failed. Every other exception keeps its trace, and so do all with ``FAIRSEQ_ATTN_TRACEBACK=1``.
"""

import inspect
import io
import json
import linecache
import os
import re
import sys
import traceback
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from fairseq_attn_plugin.errors import OptionError, Rule, annotate, did_you_mean, explain_by, install_hook
from fairseq_attn_plugin.options import flag

from .wrapping import MakeWrapper, Patch, after, around

Explanation = Callable[[Exception, Dict[str, Any]], Optional[str]]


def explained(*explanations: Explanation) -> MakeWrapper:
    """What wraps a function such that the first of ``explanations`` that knows an exception explains it.

    The same exception is raised again with the line attached, so that callers which catch it see no difference.

    Args:
        explanations: take the exception and the function's arguments by name; return the line, or None for other
            mistakes
    """

    @around
    def explaining(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception as error:
            for explain in explanations:
                try:
                    line = explain(error, inspect.signature(original).bind(*args, **kwargs).arguments)
                except Exception:  # a fault in the explanation must never hide the error itself
                    line = None
                if line is not None:
                    annotate(error, line)
                    break
            raise

    return explaining


def _files(error: BaseException) -> List[str]:
    """The files of code of a trace, the innermost last."""
    return [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]


def raised_inside(error: BaseException, pattern: str, innermost: bool = False) -> bool:
    """Whether ``pattern`` matches the path of a file of the trace, or of its innermost one."""
    files = _files(error)[-1:] if innermost else _files(error)
    return any(re.search(pattern, file.replace(os.sep, "/")) for file in files)


def explain(error: BaseException) -> Optional[str]:
    """The line for a mistake that the exception alone tells, None for everything else."""
    return next(filter(None, (rule(error) for rule in RULES)), None)


# ---- explained by the exception alone

# What fairseq or a library says inside fairseq, and what the user is told.
REMEDIES: Tuple[Tuple[str, str], ...] = (
    (
        r"Dataset not found: (?P<split>\S+) \((?P<folder>.*)\)",
        "the data folder {folder} has no split '{split}' that suits --source-lang, --target-lang and --dataset-impl "
        "(--train-subset, --valid-subset, --gen-subset choose the split): it has {present}",
    ),
    (
        "Could not infer language pair",
        "the data folder has no split that names its languages: give the folder that fairseq-preprocess --destdir "
        "wrote, or --source-lang and --target-lang",
    ),
    (r"Model file not found: (?P<file>.*)", "{given} {file}: no such file"),
    (
        r"\[Errno 2\] .*'(?P<folder>[^']*)/dict\.(?P<language>[^.']+)\.txt'",
        "the data folder {folder} has no dictionary of '{language}' (--source-lang, --target-lang): it has those of "
        "{languages}",
    ),
    (
        r"Unknown post_process option: (?P<kind>.*)",
        "--remove-bpe (--post-process) {kind}: is unknown; choose from subword_nmt, sentencepiece, wordpiece, letter",
    ),
    (
        "gradients are Nan|Minimum loss scale",
        "the training has diverged: its gradients are NaN or infinite; lower --lr, or bound them by --clip-norm",
    ),
    ("Torch not compiled with CUDA enabled", "--fp16 trains on a GPU only: leave it out on the CPU"),
    (".*xla_device", "--bf16 trains on a GPU or TPU only: leave it out on the CPU"),
    (
        "min_len cannot be larger than max_len",
        "--min-len: is greater than the greatest length of a translation, which --max-len-a and --max-len-b give",
    ),
    (
        r"Sentences lengths should not exceed max_tokens=(?P<tokens>\d+)",
        "--max-tokens {tokens} (of validation --max-tokens-valid): a sentence is longer; raise it",
    ),
    (
        r"world size is (?P<size>\d+) but have 0 available devices",
        "--distributed-world-size {size}: there is no GPU; on processors torchrun --nproc-per-node {size} -m "
        "fairseq_cli.train ... starts the processes",
    ),
    ("Seed must be between 0", "--seed: must be 0 or more and less than 2^32"),
    (
        ".*[Tt]ried to allocate|Storage size calculation overflowed|numel: integer multiplication overflow",
        "memory is not enough for one tensor: choose smaller sizes of the model (--...-dim, --...-hidden-size), or "
        "smaller batches (--max-tokens, --batch-size)",
    ),
    (
        r"Error merging override (?P<section>\w+)\.(?P<option>\w+)=null\Z",
        "--{option} is missing: the chosen --{section} needs it",
    ),
    (
        ".*'criterion.classification_head_name' not found",
        "--criterion is missing or does not go with --task: a task with classes needs --criterion "
        "document_classification or sentence_prediction (fairseq-validate, too); fairseq-attn classify needs neither",
    ),
    (
        ".*has no attribute 'register_classification_head'",
        "--arch: is no model that classifies, which this --task needs; choose han, han_flat or han_mean",
    ),
    (
        ".*has no attribute 'supported_targets'",
        "--arch: is no language model, which this --task needs; choose lstm_lm or transformer_lm",
    ),
    (
        r"Valid paths (?P<paths>.*) will be ignored",
        "the data have more validation sets, {paths}: --combine-val joins them all, --ignore-unused-valid-subsets "
        "validates on those of --valid-subset alone",
    ),
    (
        r".*forward\(\) (missing 1 required positional argument: 'prev_output|takes 4 positional arguments but 5 )",
        "--arch: is no model for this --task or --criterion; choose --task translation and another criterion",
    ),
    (
        ".*'TranslationFromPretrainedBARTTask' object has no attribute 'args'",
        "--task translation_from_pretrained_bart: cannot train in this fairseq; choose --task translation",
    ),
    (
        r"Missing mandatory value: (task\.)?data\b",
        "the data folder is missing: give it as the first word, or as task.data=FOLDER with hydra",
    ),
    (
        "Key 'left_pad_source' not in ",
        "--task multilingual_translation: needs an --arch with a model for each direction, such as "
        "multilingual_transformer; --task translation_multi_simple_epoch trains one model of any --arch",
    ),
    (r"Missing mandatory value: (?P<option>[\w.]+)", "--{option} is missing: what the other options choose needs it"),
)


def remedy(error: BaseException) -> Optional[str]:
    """Mistakes that are known by their words."""
    found = ((re.match(pattern, str(error), re.DOTALL), line) for pattern, line in REMEDIES)
    match, line = next((one for one in found if one[0]), (None, ""))
    if match is None or not any(map(_is_fairseq, _files(error))):
        return None
    values = match.groupdict()
    for name in {"option", "section"} & values.keys():
        values[name] = values[name].replace("_", "-")
    values["given"] = _option_of(values.get("file")) or "--path"
    if "folder" in values:  # a split consists of NAME.SRC-TGT.SRC.idx and so on
        names = sorted(path.name.split(".")[1] for path in Path(values["folder"]).glob("dict.*.txt"))
        none = "fairseq-preprocess makes them" if os.path.isdir(values["folder"]) else "there is no such folder"
        values["languages"] = " and ".join(names) or f"none; {none}"
        files = [path.name.split(".") for path in Path(values["folder"]).glob("*.idx")]
        present = sorted({f"{parts[0]} ({parts[1]})" for parts in files if len(parts) > 3 and parts[1] != "align"})
        values["present"] = ", ".join(present) or "no binarised split; fairseq-preprocess makes them"
    return line.format(**values)


def _option_of(value: Any) -> str:
    """The option of the command line that has a value; empty if none has."""
    words = sys.argv[1:]
    given = (word for word, after in zip(words, words[1:]) if after == value and word.startswith("-"))
    return next(given, next((word[: -len(value) - 1] for word in words if value and word.endswith(f"={value}")), ""))


def not_json(error: BaseException) -> Optional[str]:
    """Options of options, such as ``--eval-bleu-args``."""
    if not isinstance(error, json.JSONDecodeError) or not any(map(_is_fairseq, _files(error))):
        return None
    option = _option_of(error.doc)
    return f"{option} {error.doc}: must be JSON, as in '{{\"beam\": 5}}' ({error.msg})" if option else None


def from_worker(error: BaseException) -> Optional[str]:
    """An OptionError of a spawned process or a data-loading worker arrives as the text of its trace."""
    found = re.search(r"^fairseq_attn_plugin\.errors\.OptionError: (.*)\Z", str(error).strip(), re.M)
    return found[1] if found and "Traceback (most recent call last)" in str(error) else None


def wrong_key(error: BaseException) -> Optional[str]:
    """Of a section in YAML: a key that its dataclass does not have, a value of another type, an unknown name."""
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, ValidationError

    if isinstance(error, KeyError) and raised_inside(error, r"/fairseq/(registry|options)\.py", innermost=True):
        if error.args == (None,):
            return "--task is missing: give the task that the model was trained with, as in --task translation"
        name = error.args[0] if error.args else ""
        return f"{_option_of(name) or '_name'} {name}: there is none of this name" if name else None
    kind, key = getattr(error, "object_type", None), getattr(error, "full_key", None)
    kinds = (ConfigAttributeError, ConfigKeyError, ValidationError)
    if not isinstance(error, kinds) or not is_dataclass(kind) or not raised_inside(error, "/fairseq/dataclass/"):
        return None
    meant = did_you_mean(str(key), kind.__dataclass_fields__) if not isinstance(error, ValidationError) else ""
    return "; ".join(filter(None, [f"{key}: {str(error).splitlines()[0]}", meant]))


def _is_fairseq(file: str) -> bool:
    """Whether a file of code is fairseq's: another folder may be called so, too."""
    packages = (sys.modules.get(name) for name in ("fairseq", "fairseq_cli"))
    return any(one is not None and file.startswith(os.path.dirname(one.__file__ or "?") + os.sep) for one in packages)


def own_words(error: BaseException) -> Optional[str]:
    """What fairseq itself raises about options and data says what is wrong, and its first line is enough."""
    kinds = (AssertionError, ValueError, NotImplementedError, ImportError)  # the last: "Please install ..."
    if not (isinstance(error, kinds) or type(error) in (Exception, RuntimeError)) or not str(error).strip():
        return None
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or not _is_fairseq(file := frames[-1][0].f_code.co_filename):
        return None
    # the words of Python, as of int("x"), name neither file nor option; it has none for an assertion
    of_python = not linecache.getline(file, frames[-1][1]).lstrip().startswith("raise ")
    if of_python and not isinstance(error, AssertionError):
        return None
    return " ".join(str(error).strip().splitlines()[0][:300].split())


def moved(error: BaseException) -> Optional[str]:
    """A relative path that is there, and was not in the folder of the run: hydra is back from it by now."""
    file = error.filename if isinstance(error, FileNotFoundError) else None
    if not isinstance(file, str) or os.path.isabs(file) or not os.path.exists(file):
        return None
    return f"{file}: needs an absolute path, since hydra changes into the folder of the run"


def file_error(error: BaseException) -> Optional[str]:
    """A file that cannot be opened, read or written, and the option that names it."""
    if isinstance(error, UnicodeDecodeError) and raised_inside(error, "fairseq_cli/interactive"):
        return f"--input (default: stdin) is not UTF-8 ({error.reason} at byte {error.start}); convert the text"
    if not isinstance(error, OSError) or not any(map(_is_fairseq, _files(error))):
        return None
    # fairseq-preprocess writes no dictionary over another
    if isinstance(error, FileExistsError) and not error.filename:
        return f"{error}: exists; remove it, or name another folder"
    file = error.filename or ""
    if os.path.basename(file) == "dummy" and not os.path.exists(file):  # fairseq tries --save-dir by such a file
        file = os.path.dirname(file)
    return f"{_option_of(file)} {file}: {error.strerror}".lstrip() if file else str(error) or None


def padded_lstm(error: BaseException) -> Optional[str]:
    """The encoder of stock ``lstm`` asserts, without words, that a sentence of the batch has no padding."""
    inside = raised_inside(error, r"/fairseq/models/lstm\.py", innermost=True)
    if not isinstance(error, AssertionError) or str(error) or not inside:
        return None
    return (
        "--num-batch-buckets: stock --arch lstm takes no batch that is padded beyond its longest sentence; leave it "
        "out, or take --arch lstm_soft"
    )


def no_architecture(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """fairseq-train raises a RuntimeError without words."""
    bare = type(error) is RuntimeError and not str(error)
    return "--arch is missing; give one, as in --arch lstm_adm (fairseq-hydra-train takes YAML)" if bare else None


RULES: List[Rule] = [from_worker, moved, remedy, not_json, wrong_key, own_words, file_error, padded_lstm]


# ---- explained by the arguments of the function


def unknown_model(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """A name in a YAML file that is not registered; fairseq's message for it fails in its own formatting."""
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

    cfg = arguments["cfg"]
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    known = {*ARCH_MODEL_REGISTRY, *MODEL_DATACLASS_REGISTRY}
    if not name or name in known or not isinstance(error, (AssertionError, KeyError, IndexError, ValueError)):
        return None
    hint = did_you_mean(name, known, "fairseq-train --help lists the architectures", 4)
    return f"model._name (--arch) {name}: there is no such model; {hint}"


def no_constraints(_error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    if arguments.get("batch_constraints") is not None:
        return None
    return "--constraints: fairseq-interactive reads them, after a tab in each line; leave it out with other tools"


def no_subwords(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """A file of subwords that is none: the libraries name no option."""
    name = next(name for name in ("bpe_codes", "sentencepiece_model") if hasattr(arguments["cfg"], name))
    unreadable = isinstance(error, (RuntimeError, UnicodeDecodeError))
    return f"{flag(name)} {getattr(arguments['cfg'], name)}: is no model of subwords ({error})" if unreadable else None


def no_dictionary(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """A dictionary that cannot be read: fairseq names a line of it, but not the file."""
    path = arguments["f"]
    if not isinstance(path, str) or isinstance(error, OSError) or path in str(error):
        return None
    reason = str(error).split(". ")[0]
    return f"{path}: is no dictionary of fairseq ({reason}); give the one of the training and of its data"


def no_group(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Processes that cannot meet; torch names no option."""
    given = arguments["cfg"].distributed_training
    names = ("backend", "init_method", "world_size", "rank")
    options = ", ".join(f"--distributed-{n.replace('_', '-')} {given[f'distributed_{n}']}" for n in names)
    return f"{options}: the processes form no group ({str(error).strip().splitlines()[0]})"


@after
def _found(path: Optional[str], archive_file: str) -> None:
    if path is None:  # the hub interface then fails at joining paths
        raise OptionError(f"{archive_file}: there is no such folder or archive of a model or of data")


@around
def _unless_refused(save: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A training that a user's mistake ends has nothing to save as ``crash.pt``."""
    return None if isinstance(sys.exc_info()[1], OptionError) else save(*args, **kwargs)


def _show() -> None:
    explain_by(explain)
    install_hook()
    if "fairseq_cli.interactive" in sys.modules and isinstance(sys.stdin, io.TextIOWrapper):
        # in some locales bytes that are not UTF-8 become an unknown word
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    from hydra.core.hydra_config import HydraConfig

    # hydra catches every exception and prints a report of its own with a trace, unless it is told to raise it again
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")


ERRORS = Patch(
    name="explained_errors",
    reason="fairseq answers a mistake in an option or in the data folder with a stack trace",
    wraps={
        "fairseq.distributed.utils:distributed_init": explained(no_group),
        "fairseq.models:build_model": explained(unknown_model),
        "fairseq.options:parse_args_and_arch": explained(no_architecture),
        "fairseq.file_utils:load_archive_file": _found,
        "fairseq.trainer:Trainer.save_checkpoint": _unless_refused,
        "fairseq.data.dictionary:Dictionary.add_from_file": explained(no_dictionary),
        "fairseq.search:LexicallyConstrainedBeamSearch.init_constraints": explained(no_constraints),
        "fairseq.data.encoders.subword_nmt_bpe:SubwordNMTBPE.__init__": explained(no_subwords),
        "fairseq.data.encoders.sentencepiece_bpe:SentencepieceBPE.__init__": explained(no_subwords),
    },
    extra=_show,
)
