"""What stock fairseq raises for a user's mistake becomes one line: the option, the value, what would be right.

The functions of :data:`EXPLANATIONS` see the arguments of the fairseq function that failed. The rules of :data:`RULES`
see the exception alone, whose message says enough. :mod:`.explained_checkpoints` explains what concerns checkpoints.
"""

import errno
import glob
import os
import re
import sys
from typing import Any, Dict, List, Optional

from fairseq_attn_plugin.errors import Rule, did_you_mean, explain_by, install_hook

from .explaining import Explanation, explained, raised_inside
from .wrapping import Patch

__all__ = ["EXPLANATIONS", "PATCH", "RULES", "explain"]


def explain(error: BaseException) -> Optional[str]:
    """The line for a mistake that the exception alone tells, None for everything else."""
    for rule in RULES:
        line = rule(error)
        if line is not None:
            return line
    return None


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
    """``--bpe`` or ``--tokenizer`` without the file that it needs."""
    cfg = arguments["args"]
    name, missing = getattr(cfg, "_name", cfg), re.match(r"Missing mandatory value: (\w+)", str(error))
    if missing is not None:
        return "--%s is missing: --bpe %s needs it" % (missing.group(1).replace("_", "-"), name)
    match = re.match(r"file (.+) not found\Z", str(error))
    return None if match is None else "--bpe %s: there is no file %s" % (name, match.group(1))


def no_constraints(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    """Only fairseq-interactive reads constraints."""
    if arguments.get("batch_constraints") is not None:
        return None
    return "--constraints: fairseq-interactive reads them, after a tab in each line; leave it out with other tools"


EXPLANATIONS: Dict[str, Explanation] = {
    "fairseq.data.indexed_dataset:MMapIndexedDataset._do_init": empty_alignments,
    "fairseq.data.data_utils:infer_language_pair": no_such_folder,
    "fairseq.models:build_model": unknown_model,
    "fairseq.search:LexicallyConstrainedBeamSearch.init_constraints": no_constraints,
    "fairseq.options:parse_args_and_arch": missing_task,
    "fairseq.tasks.fairseq_task:FairseqTask.build_bpe": subword_model,
}


# ---- explained by the exception alone


def from_worker(error: BaseException) -> Optional[str]:
    """An OptionError of a spawned process or a data-loading worker arrives as the text of its trace."""
    text = str(error)
    if "Traceback (most recent call last)" not in text:
        return None
    last = text.strip().splitlines()[-1]
    match = re.match(r"fairseq_attn_plugin\.errors\.OptionError: (.*)", last)
    return match.group(1) if match else None


def sample_too_long(error: BaseException) -> Optional[str]:
    match = re.match(r"Size of sample #(\d+) is invalid \(=(.*?)\) since max_positions=(.*), skip this", str(error))
    if match is None:
        return None
    sample, sizes, limits = match.group(1), _numbers(match.group(2)), _numbers(match.group(3))
    if len(sizes) != 2 or len(limits) != 2:
        return (
            "sample %s has %s tokens, the model takes at most %s: leave such samples out with "
            "--skip-invalid-size-inputs-valid-test" % (sample, match.group(2), match.group(3))
        )
    faults = [
        "%d %s tokens (with end of sentence), more than --max-%s-positions %d" % (size, side, side, limit)
        for size, side, limit in zip(sizes, ("source", "target"), limits)
        if size > limit
    ]
    return (
        "sample %s has %s: raise the limit (a trained model's own with --model-overrides), or leave such "
        "samples out with --skip-invalid-size-inputs-valid-test" % (sample, " and ".join(faults))
    )


def _numbers(text: str) -> List[int]:
    return [int(number) for number in re.findall(r"\d+", re.sub(r"np\.\w+\(", "(", text))]


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


def unpaired(error: BaseException) -> Optional[str]:
    """A data folder of texts with different numbers of lines."""
    if not str(error).startswith("Source and target must contain the same number of examples"):
        return None
    return (
        "the data folder has a split with different numbers of source and target sentences: its texts must have a line "
        "for each pair; fairseq-preprocess --user-dir fairseq_attn_plugin names the files and their lines"
    )


def missing_criterion(error: BaseException) -> Optional[str]:
    """Tasks with classes read options of the criterion; every tool's default criterion, cross_entropy, has none."""
    if "'criterion.classification_head_name' not found" in str(error):
        return (
            "--criterion is missing or does not go with --task: a task with classes needs --criterion "
            "document_classification or sentence_prediction (fairseq-validate, too)"
        )
    return None


def diverged(error: BaseException) -> Optional[str]:
    if isinstance(error, FloatingPointError) and str(error).startswith(("gradients are Nan", "Minimum loss scale")):
        return "the training has diverged: its gradients are NaN or infinite; lower --lr, or bound them by --clip-norm"
    return None


def needs_gpu(error: BaseException) -> Optional[str]:
    if str(error) == "Torch not compiled with CUDA enabled" and raised_inside(error, "fp16_optimizer", innermost=False):
        return "--fp16 trains on a GPU only: leave it out on the CPU"
    if isinstance(error, AttributeError) and "xla_device" in str(error):
        return "--bf16 trains on a GPU or TPU only: leave it out on the CPU"
    return None


def no_room(error: BaseException) -> Optional[str]:
    if str(error).startswith("min_len cannot be larger than max_len"):
        return "--min-len: is greater than the greatest length of a translation, which --max-len-a and --max-len-b give"
    return None


def not_utf8(error: BaseException) -> Optional[str]:
    """fairseq-interactive reads its sentences."""
    if isinstance(error, UnicodeDecodeError) and raised_inside(error, "fairseq_cli/interactive", innermost=False):
        return "--input (default: stdin) is not UTF-8 (%s at byte %d); convert the text" % (error.reason, error.start)
    return None


def stock_check(error: BaseException) -> Optional[str]:
    """fairseq's own checks of options name them in the message, and its first line is enough."""
    checked = isinstance(error, (AssertionError, ValueError, NotImplementedError)) or type(error) is Exception
    if checked and re.search(r"--[a-z]", str(error)) and raised_inside(error, "/fairseq(_cli)?/"):
        return str(error).splitlines()[0][:300]
    return None


def missing_number(error: BaseException) -> Optional[str]:
    """An option that the chosen scheduler, optimizer or criterion needs, and that has no default."""
    match = re.match(r"Error merging override (\w+)\.(\w+)=null\Z", str(error))
    if match is None:
        return None
    section, name = (part.replace("_", "-") for part in match.groups())
    return f"--{name} is missing: the chosen --{section} needs it"


def preprocessing_again(error: BaseException) -> Optional[str]:
    """fairseq-preprocess writes no dictionary over another."""
    if not isinstance(error, FileExistsError) or not raised_inside(error, "fairseq_cli/preprocess"):
        return None
    folder, name = os.path.split(str(error))
    return f"--destdir {folder}: has {name} of an earlier fairseq-preprocess; remove the folder, or name another one"


def no_dictionary_to_prepare_with(error: BaseException) -> Optional[str]:
    if not isinstance(error, FileNotFoundError) or not raised_inside(error, "fairseq_cli/preprocess", innermost=False):
        return None
    words = sys.argv[1:]
    given = [word for word, value in zip(words, words[1:]) if value == error.filename and word.startswith("--")]
    return f"{given[0]} {error.filename}: there is no such file" if given else None


def full_disk(error: BaseException) -> Optional[str]:
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC:
        return None
    return f"{error.filename or 'the output'}: cannot be written, because the disk is full; make room, and call again"


def task_of_other_models(error: BaseException) -> Optional[str]:
    """Stock's multilingual task reads options that only models made for it have."""
    if not raised_inside(error, "tasks/multilingual_translation", innermost=False) or "not in" not in str(error):
        return None
    return (
        "--task multilingual_translation: takes models that fairseq has made for it only; train a model of this --arch "
        "with --task translation"
    )


def no_such_pair_of_options(error: BaseException) -> Optional[str]:
    """fairseq's assertion that half precision is of one kind."""
    if "Cannot use fp16 and AMP together" in str(error):
        return "--fp16 and --amp: exclude each other; leave one of the two out"
    return None


RULES: List[Rule] = [
    from_worker,
    sample_too_long,
    dataset_not_found,
    no_data_folder,
    missing_criterion,
    unpaired,
    diverged,
    needs_gpu,
    no_room,
    not_utf8,
    stock_check,
    missing_number,
    preprocessing_again,
    no_dictionary_to_prepare_with,
    full_disk,
    task_of_other_models,
    no_such_pair_of_options,
]


def _show() -> None:
    explain_by(explain)
    install_hook()


PATCH = Patch(
    name="explained_errors",
    reason="fairseq answers a mistake in an option or in the data folder with a stack trace",
    checked=("0.12.3", "0.12.3.1"),
    wraps={target: explained(explanation) for target, explanation in EXPLANATIONS.items()},
    extra=_show,
)
