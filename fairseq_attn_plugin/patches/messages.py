"""What stock fairseq raises for a user's mistake becomes one line: the option, the value, what would be right.

Two rules cover most mistakes: what fairseq itself raises in words (:func:`own_words`), and a file that cannot be read
or written (:func:`file_error`). Other rules see the exception alone, too; explanations see the arguments of the
function that failed. Every other exception keeps its trace, and so do all with ``FAIRSEQ_ATTN_TRACEBACK=1``.
"""

import glob
import inspect
import linecache
import os
import re
import sys
import traceback
from dataclasses import fields, is_dataclass
from typing import Any, Callable, Dict, List, Optional

from fairseq_attn_plugin.checkpoints import architecture
from fairseq_attn_plugin.errors import Rule, annotate, did_you_mean, explain_by, install_hook

from .safe_files.contents import cannot_be_read
from .wrapping import MakeWrapper, Patch

__all__ = ["CHECKPOINTS", "ERRORS", "explain", "explained", "raised_inside"]

Explanation = Callable[[Exception, Dict[str, Any]], Optional[str]]


def explained(explain: Explanation) -> MakeWrapper:
    """What wraps a function such that ``explain(error, arguments)`` explains its exceptions.

    The same exception is raised again with the line attached, so that callers which catch it see no difference.

    Args:
        explain: takes the exception and the function's arguments by name; returns the line, or None for other mistakes
    """

    def make_wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                try:
                    line = explain(error, signature.bind(*args, **kwargs).arguments)
                except Exception:  # a fault in the explanation must never hide the error itself
                    line = None
                if line is not None:
                    annotate(error, line)
                raise

        return wrapper

    return make_wrapper


def raised_inside(error: BaseException, pattern: str, innermost: bool = True) -> bool:
    """Whether ``pattern`` matches the path of the file that raised ``error`` (or of any file of its trace)."""
    files, trace = [], error.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename.replace(os.sep, "/"))
        trace = trace.tb_next
    return any(re.search(pattern, file) for file in (files[-1:] if innermost else files))


def explain(error: BaseException) -> Optional[str]:
    """The line for a mistake that the exception alone tells, None for everything else."""
    return next(filter(None, (rule(error) for rule in RULES)), None)


# ---- explained by the exception alone


def from_worker(error: BaseException) -> Optional[str]:
    """An OptionError of a spawned process or a data-loading worker arrives as the text of its trace."""
    found = re.search(r"^fairseq_attn_plugin\.errors\.OptionError: (.*)\Z", str(error).strip(), re.M)
    return found[1] if found and "Traceback (most recent call last)" in str(error) else None


def dataset_not_found(error: BaseException) -> Optional[str]:
    match = re.match(r"Dataset not found: (\S+) \((.*)\)", str(error))
    if match is None:
        return None
    split, folder = match.groups()
    # a split consists of NAME.SRC-TGT.SRC.idx and so on
    files = [os.path.basename(path).split(".") for path in glob.glob(os.path.join(folder, "*.idx"))]
    present = sorted({"%s (%s)" % (parts[0], parts[1]) for parts in files if len(parts) > 3})
    return (
        "the data folder %s has no split '%s' that suits --source-lang, --target-lang and --dataset-impl "
        "(--train-subset, --valid-subset, --gen-subset choose the split): it has %s"
        % (folder, split, ", ".join(present) or "no binarised split; fairseq-preprocess makes them")
    )


def no_data_folder(error: BaseException) -> Optional[str]:
    filename = getattr(error, "filename", None)
    if isinstance(error, FileNotFoundError) and isinstance(filename, str):
        folder, name = os.path.split(filename)
        return _not_a_data_folder(folder, name) if re.match(r"dict\..*\.txt\Z", name) else None
    if str(error).startswith("Could not infer language pair"):
        return (
            "the data folder has no split that names its languages: give the folder that fairseq-preprocess --destdir "
            "wrote, or --source-lang and --target-lang"
        )
    return None


def _not_a_data_folder(folder: str, name: str) -> str:
    lack = "it has no %s" % name if os.path.isdir(folder) else "no such folder"
    return "data folder %s: %s; give the folder that fairseq-preprocess --destdir wrote" % (folder, lack)


def preprocessing_again(error: BaseException) -> Optional[str]:
    """fairseq-preprocess writes no dictionary over another."""
    if not isinstance(error, FileExistsError) or not raised_inside(error, "fairseq_cli/preprocess"):
        return None
    folder, name = os.path.split(str(error))
    return f"--destdir {folder}: has {name} of an earlier fairseq-preprocess; remove the folder, or name another one"


def model_not_found(error: BaseException) -> Optional[str]:
    match = re.match(r"Model file not found: (.*)", str(error))
    if match is None:
        return None
    folder = os.path.dirname(match.group(1)) or "."
    return "--path %s: no such file; %s" % (match.group(1), _contents(folder))


def wrong_sizes(error: BaseException) -> Optional[str]:
    """Divergence, half precision on a processor, sizes that no memory holds, a seed or a length that cannot be."""
    text = str(error)
    if isinstance(error, FloatingPointError) and text.startswith(("gradients are Nan", "Minimum loss scale")):
        return "the training has diverged: its gradients are NaN or infinite; lower --lr, or bound them by --clip-norm"
    if text == "Torch not compiled with CUDA enabled" and raised_inside(error, "fp16_optimizer", innermost=False):
        return "--fp16 trains on a GPU only: leave it out on the CPU"
    if isinstance(error, AttributeError) and "xla_device" in text:
        return "--bf16 trains on a GPU or TPU only: leave it out on the CPU"
    if text.startswith("min_len cannot be larger than max_len"):
        return "--min-len: is greater than the greatest length of a translation, which --max-len-a and --max-len-b give"
    if text.startswith("Seed must be between 0"):
        return "--seed: must be 0 or more and less than 2^32"
    match = re.search(r"(?:you tried to allocate (\d+) bytes|Tried to allocate ([\d.]+ \w+))", text)
    overflow = re.match(r"Storage size calculation overflowed|numel: integer multiplication overflow", text)
    if not isinstance(error, (RuntimeError, MemoryError)) or not (match or overflow):
        return None
    size = "too much for any memory" if match is None else match[2] or "%.1f GB" % (int(match[1]) / 1e9)
    return (
        "memory is not enough for one tensor (%s): choose smaller sizes of the model (--...-dim, --...-hidden-size), "
        "or smaller batches (--max-tokens, --batch-size)" % size
    )


def missing_value(error: BaseException) -> Optional[str]:
    """An option that the chosen scheduler, subword model or criterion needs, and that has no default."""
    match = re.match(r"Error merging override (\w+)\.(\w+)=null\Z", str(error))
    if match is not None:
        section, name = (part.replace("_", "-") for part in match.groups())
        return f"--{name} is missing: the chosen --{section} needs it"
    if "'criterion.classification_head_name' not found" in str(error):
        return (
            "--criterion is missing or does not go with --task: a task with classes needs --criterion "
            "document_classification or sentence_prediction (fairseq-validate, too)"
        )
    match = re.match(r"Missing mandatory value: ([\w.]+)", str(error))
    if match is None:
        return None
    if match[1] in ("data", "task.data"):
        return "the data folder is missing: give it as the first word, or as task.data=FOLDER with hydra"
    name = match[1] if "." in match[1] else f"--{match[1].replace('_', '-')}"
    return f"{name} is missing: what the other options choose needs it"


def wrong_key(error: BaseException) -> Optional[str]:
    """Of a section in YAML: a key that its dataclass does not have, a value of another type, an unknown name."""
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, ValidationError

    if isinstance(error, KeyError) and error.args and raised_inside(error, "/fairseq/registry.py"):
        return f"_name {error.args[0]}: there is none of this name"
    kind, key = getattr(error, "object_type", None), getattr(error, "full_key", None)
    if not is_dataclass(kind) or not key or not raised_inside(error, "/fairseq/dataclass/", innermost=False):
        return None
    if isinstance(error, ValidationError):
        return f"{key}: {str(error).splitlines()[0]}"
    if not isinstance(error, (ConfigAttributeError, ConfigKeyError)):
        return None
    meant = did_you_mean(key, [own.name for own in fields(kind)])
    return "; ".join(filter(None, [f"{key}: is no key of {getattr(kind, '__name__', kind)}", meant]))


def _is_fairseq(file: str) -> bool:
    """Whether a file of code is fairseq's: another folder may be called so, too."""
    packages = (sys.modules.get(name) for name in ("fairseq", "fairseq_cli"))
    return any(one is not None and file.startswith(os.path.dirname(one.__file__ or "?") + os.sep) for one in packages)


def own_words(error: BaseException) -> Optional[str]:
    """What fairseq itself raises about options and data says what is wrong, and its first line is enough."""
    kinds = (AssertionError, ValueError, NotImplementedError)
    if not (isinstance(error, kinds) or type(error) is Exception) or not str(error).strip():
        return None
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or not _is_fairseq(file := frames[-1][0].f_code.co_filename):
        return None
    # the words of Python, as of int("x"), name neither file nor option
    if not linecache.getline(file, frames[-1][1]).lstrip().startswith(("raise ", "assert ", "assert(")):
        return None
    return " ".join(str(error).strip().splitlines()[0][:300].split())


def file_error(error: BaseException) -> Optional[str]:
    """A file that cannot be opened, read or written, and the option that names it."""
    if isinstance(error, UnicodeDecodeError) and raised_inside(error, "fairseq_cli/interactive", innermost=False):
        return "--input (default: stdin) is not UTF-8 (%s at byte %d); convert the text" % (error.reason, error.start)
    if not isinstance(error, OSError):
        return None
    if not any(_is_fairseq(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)):
        return None
    file, words = error.filename or "", sys.argv[1:]
    given = [word for word, value in zip(words, words[1:]) if value == file and word.startswith("--")]
    return f"{' '.join([*given[:1], str(file)])}: {error.strerror}" if file else str(error) or None


RULES: List[Rule] = [
    from_worker,
    dataset_not_found,
    no_data_folder,
    preprocessing_again,
    model_not_found,
    wrong_sizes,
    missing_value,
    wrong_key,
    own_words,
    file_error,
]


# ---- explained by the arguments of the function


def empty_alignments(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """fairseq-preprocess makes a file of no bytes from alignments without a link, and fairseq cannot map it."""
    if str(error) != "cannot mmap an empty file":
        return None
    return (
        f"{arguments['path']}.bin: is empty: not one link where it holds alignments; prepare the data with links, or "
        "train without --load-alignments (alignments of the validation set may be left out)"
    )


def no_such_folder(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """The data folder is not there: fairseq lists it to find the languages."""
    folder = arguments["path"]
    return _not_a_data_folder(folder, "") if isinstance(error, FileNotFoundError) and error.filename == folder else None


def unknown_model(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """A name in a YAML file that is not registered; fairseq's message for it fails in its own formatting."""
    cfg = arguments["cfg"]
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    kinds = (AssertionError, KeyError, IndexError, ValueError)
    if not name or not isinstance(error, kinds) or not raised_inside(error, "fairseq/models/__init__.py"):
        return None
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY

    known = {*ARCH_MODEL_REGISTRY, *MODEL_DATACLASS_REGISTRY}
    hint = did_you_mean(name, known, "fairseq-train --help lists the architectures", 4)
    return "model._name (--arch) %s: there is no such model; %s" % (name, hint) if name not in known else None


def missing_task(error: Exception, _arguments: Dict[str, Any]) -> Optional[str]:
    """fairseq-validate is the only tool without a default task."""
    if isinstance(error, KeyError) and error.args == (None,) and raised_inside(error, "fairseq/options.py"):
        return "--task is missing: give the task that the model was trained with, as in --task translation"
    return None


def subword_model(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """``--bpe`` without the file that it needs."""
    name = getattr(arguments["args"], "_name", arguments["args"])
    missing = re.match(r"Missing mandatory value: (\w+)", str(error))
    if missing is not None:
        return f"--{missing[1].replace('_', '-')} is missing: --bpe {name} needs it"
    match = re.match(r"file (.+) not found\Z", str(error))
    return None if match is None else f"--bpe {name}: there is no file {match[1]}"


def no_constraints(_error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    if arguments.get("batch_constraints") is not None:
        return None
    return "--constraints: fairseq-interactive reads them, after a tab in each line; leave it out with other tools"


def _show() -> None:
    explain_by(explain)
    install_hook()
    try:
        from hydra.core.hydra_config import HydraConfig
    except ImportError:
        return
    # hydra catches every exception and prints a report of its own with a trace, unless it is told to raise it again
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")


ERRORS = Patch(
    name="explained_errors",
    reason="fairseq answers a mistake in an option or in the data folder with a stack trace",
    wraps={
        "fairseq.data.indexed_dataset:MMapIndexedDataset._do_init": explained(empty_alignments),
        "fairseq.data.data_utils:infer_language_pair": explained(no_such_folder),
        "fairseq.models:build_model": explained(unknown_model),
        "fairseq.search:LexicallyConstrainedBeamSearch.init_constraints": explained(no_constraints),
        "fairseq.options:parse_args_and_arch": explained(missing_task),
        "fairseq.tasks.fairseq_task:FairseqTask.build_bpe": explained(subword_model),
    },
    extra=_show,
)


# ---- checkpoints


def unreadable_checkpoint(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Whatever torch.load raises inside fairseq's reader: a refused pickle, or a damaged file."""
    path = arguments["path"]
    if isinstance(error, IsADirectoryError):
        return "checkpoint %s is a folder: name a file; %s" % (path, _contents(path))
    if not raised_inside(error, "torch/serialization", innermost=False):
        return None
    text = str(error)
    refused = re.search(r"GLOBAL (\S+)", text)
    if refused is not None:
        return (
            "refused to read checkpoint %s: it names %s, which is not one of the types of a fairseq checkpoint and "
            "could run code; nothing was executed" % (path, refused.group(1))
        )
    reason = re.search(r"WeightsUnpickler error:\s*(.*)", text)
    if reason is not None and "Unsupported operand" not in text:
        return "refused to read checkpoint %s, nothing was executed: %s" % (path, reason.group(1))
    return cannot_be_read(path)


def other_architecture(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """A training is continued with another model than that of the checkpoint."""
    if not str(error).startswith("Cannot load model parameters from checkpoint"):
        return None
    from fairseq import checkpoint_utils

    path, trainer = arguments["filename"], arguments["self"]
    cfg = checkpoint_utils.load_checkpoint_to_cpu(path).get("cfg")
    has, asked = architecture(None if cfg is None else cfg.get("model")), architecture(trainer.cfg.model)
    if has and asked and has != asked:
        return (
            "checkpoint %s is of architecture %s, --arch asks for %s: give --arch %s, or another checkpoint or "
            "--save-dir" % (path, has, asked, has)
        )
    return (
        "checkpoint %s does not fit the model%s: %s; give the options it was trained with, or another "
        "checkpoint or --save-dir" % (path, " (--arch %s)" % asked if asked else "", _mismatch(error.__context__))
    )


_LAST_READ: Dict[str, str] = {}


def other_data(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Decoding takes the model's options from the checkpoint, but the dictionaries from the data folder."""
    if not str(error).startswith("Error(s) in loading state_dict"):
        return None
    files = arguments["filenames"]
    # fairseq builds each model of an ensemble right after it has read its checkpoint
    path = files[0] if len(files) == 1 else _LAST_READ["path"]
    return "checkpoint %s does not fit: %s; use the data folder (dictionaries) that it was trained with" % (
        path,
        _mismatch(error),
    )


def _reading(load: Callable[..., Any]) -> Callable[..., Any]:
    """Explains why a checkpoint cannot be read, and remembers the path of the one that was read last."""
    read = explained(unreadable_checkpoint)(load)

    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        _LAST_READ["path"] = path
        return read(path, *args, **kwargs)

    return load_checkpoint_to_cpu


def _mismatch(error: Optional[BaseException]) -> str:
    text = " ".join(str(error).split())
    match = re.search(
        r"size mismatch for (\S+): copying a param with shape torch\.Size\((.*?)\) from checkpoint, "
        r"the shape in current model is torch\.Size\((.*?)\)",
        text,
    )
    if match is not None:
        return "%s is %s in the checkpoint and %s in the model" % match.groups()
    match = re.search(r"(Missing|Unexpected) key\(s\) in state_dict: (\S+?)[,.]? ", text + " ")
    if match is not None:
        where = "checkpoint" if match.group(1) == "Missing" else "model"
        return "the %s has no %s" % (where, match.group(2).strip('"'))
    return text[:200] or "its parameters differ"


def _contents(folder: str) -> str:
    names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(folder, "*.pt")))
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return "%s has the checkpoints %s" % (folder, shown) if names else "%s has no checkpoints" % folder


CHECKPOINTS = Patch(
    name="explained_checkpoints",
    reason="fairseq answers a checkpoint that is missing, damaged or of another model with a stack trace",
    wraps={
        "fairseq.checkpoint_utils:load_checkpoint_to_cpu": _reading,
        "fairseq.trainer:Trainer.load_checkpoint": explained(other_architecture),
        "fairseq.checkpoint_utils:load_model_ensemble_and_task": explained(other_data),
    },
)
