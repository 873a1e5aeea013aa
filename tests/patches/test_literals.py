"""Nothing in a checkpoint or a data folder is evaluated: every stock architecture and task with hostile text."""

import argparse
import ast
import builtins
import contextlib
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, cast
from unittest import mock

import fairseq
import pytest
import torch
from fairseq import models, tasks, utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import _set_legacy_defaults
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from fairseq_attn_plugin.options import flag
from fairseq_attn_plugin.patches.safe_files.literals import NotLiteral, literal

FAIRSEQ = Path(fairseq.__file__).parent


@pytest.mark.parametrize(
    "text",
    "True|None|3|-2|1e-3|0.9,0.98|(0.9, 0.999)|[1, 2]|[(512, 3)] * 20|[(512, 10, 5)] + [(512, 3, 2)] * 4|"
    "{'a': [1, 'b']}|(1, [2] * 3)|'a' + 'b'|2 * 3 + 1|[]|3 * [True]|  7|[[1] * 3, (2,)]|1000 * 1000|"
    "{'a': [1] * 2}|{}|+1|1-2j".split("|"),
)
def test_a_literal_has_the_value_that_eval_gives(text: str) -> None:
    value = literal(text)
    assert value == eval(text) and type(value) is type(eval(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "print(1)",
        "__import__('os').system('true')",
        "().__class__",
        "[x for x in (1,)]",
        "lambda: 1",
        "9 ** 9 ** 9",
        "5e-4/2",
        "-(2*3)",
        "-[1]",
        "{1, 2} - {1}",
        "{**{}}",
        "'%s' % 1",
        "f'{1}'",
        "[(512, 3)] * 10**9",
        "[(512, 3)] * 1000000000",
        "'a' * 1000000000",
        "[0] * 5000 * 5000",
        "[0] * 5000 + [1] * 5001",
        "[1] + 2",
        "(" * 5000,
        "-" * 200_000 + "1",
        "1" * 10_000,
        "\0",
    ],
    ids=lambda text: text[:30] or "empty",
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(NotLiteral, match="must be a literal") as refused:
        literal(text)
    assert refused.value.text == text and len(str(refused.value)) < 250


def test_what_is_no_text_is_refused_as_eval_does() -> None:
    for value in (True, [1], compile("1", "", "eval")):
        with pytest.raises(TypeError):
            literal(value)
    assert utils.eval_bool(object(), default=True) is True


def test_no_module_of_fairseq_has_the_builtin() -> None:
    """Reads the source of fairseq: who calls eval has the parser of literals under this name, and nobody calls exec."""
    calling = {}
    for path in FAIRSEQ.rglob("*.py"):
        if "examples" in path.parts:
            continue
        calls = [node.func for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
        names = {function.id for function in calls if isinstance(function, ast.Name)}
        assert not names & {"exec", "compile", "__import__"}, path
        if "eval" in names:
            name = ".".join(path.relative_to(FAIRSEQ.parent).with_suffix("").parts)
            calling[name] = getattr(sys.modules.get(name), "eval", None)
    assert len(calling) > 15 and set(calling.values()) == {literal}, calling


# ---- every stock architecture and task

DICTIONARY = Dictionary()
for symbol in "abcdefgh":
    DICTIONARY.add_symbol(symbol)

# what options of the task and other groups are to the legacy architectures, which read one namespace
OTHERS = {
    "tokens_per_sample": 16,
    "max_source_positions": 16,
    "max_target_positions": 16,
    "criterion": "cross_entropy",
    "input_feat_per_channel": 8,
    "input_channels": 1,
    "n_frames_per_step": 1,
    "fp16": False,
    "speaker_embed_dim": 8,
    "target_speaker_embed": False,
    "model_parallel_size": 1,
    "w2v_path": None,
    "infonce": False,
    "normalize": False,
    "label_rate": 50,
    "add_bos_token": False,
    "sample_rate": 16000,
    "data": None,
}


class AnyTask(mock.MagicMock):
    """Has every attribute that a model may ask a task for."""


def any_task() -> Any:
    task = AnyTask()
    task.source_dictionary = task.target_dictionary = task.dictionary = task.src_dict = task.tgt_dict = DICTIONARY
    task.source_lang, task.target_lang = task.cfg.source_lang, task.cfg.target_lang = "xx", "yy"
    task.max_positions.return_value, task.lang_pairs, task.langs = 16, ["xx-yy"], ["xx", "yy"]
    task.dicts = {"xx": DICTIONARY, "yy": DICTIONARY}
    return task


def plain_options(dataclass: Any) -> Dict[str, Any]:
    """The defaults of a dataclass as they are in a checkpoint, where interpolations have their values."""
    options = OmegaConf.to_container(OmegaConf.structured(dataclass), resolve=False, enum_to_str=True)
    interpolated = {name: OTHERS.get(str(value)[2:-1].split(".")[-1], False) for name, value in options.items()}
    return {
        name: interpolated[name] if str(value).startswith("${") else None if value == "???" else value
        for name, value in options.items()
    }


def options_of(registry: Dict[str, Any], kind: str, name: str) -> Any:
    """The configuration with the defaults: a dictionary, or a namespace for legacy classes."""
    dataclass = getattr(registry[name], "__dataclass", None)
    if dataclass is not None:
        return OmegaConf.create({**plain_options(dataclass), "_name": name})
    options = argparse.Namespace(**{kind: name})
    _set_legacy_defaults(options, registry[name])
    for other, value in OTHERS.items():
        if not hasattr(options, other):
            setattr(options, other, value)
    if kind == "arch":
        ARCH_CONFIG_REGISTRY[name](options)
    return options


def with_texts(options: Any, texts: Dict[str, str]) -> Any:
    if isinstance(options, argparse.Namespace):
        return argparse.Namespace(**{**vars(options), **texts})
    return OmegaConf.create({**cast(Dict[str, Any], OmegaConf.to_container(options)), **texts})


def text_fields(options: Any) -> List[str]:
    """Those that hold text, or may: None, and the numbers of legacy options are not checked by anyone."""
    items = vars(options) if isinstance(options, argparse.Namespace) else dict(options)
    kinds = ("arch", "task", "criterion", "_name")
    return [name for name, value in items.items() if (value is None or isinstance(value, str)) and name not in kinds]


def build_arch(options: Any) -> None:
    with torch.device("meta"):
        models.build_model(options, any_task(), True)


def build_task(options: Any) -> None:
    tasks.setup_task(options)


def attempt(build: Callable[[Any], None], options: Any) -> Optional[Exception]:
    try:
        build(options)
    except (Exception, SystemExit) as error:  # as the model is, for lack of files or of optional packages
        return error
    return None


@contextlib.contextmanager
def evaluating(evaluate: Callable[..., Any]) -> Iterator[None]:
    """Every module of fairseq calls ``evaluate`` under the name eval."""
    with contextlib.ExitStack() as changes:
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] == "fairseq":
                changes.enter_context(mock.patch.dict(vars(module), eval=evaluate))
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    for name in ("dict.txt", "dict.xx.txt", "dict.yy.txt"):
        DICTIONARY.save(str(tmp_path / "data" / name))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def markers(folder: Path) -> List[str]:
    return sorted(path.name for path in (folder / "work").glob("executed-*"))


def run_hostile(build: Callable[[Any], None], options: Any) -> Set[str]:
    """Build with code in every field that may hold text; the fields that were refused by name.

    The field that stops the building gets its own value back, and the others stay, until nothing stops it.
    """
    code = {name: f"open('executed-{name}', 'w')" for name in text_fields(options)}
    refused: Set[str] = set()
    while code:
        error = attempt(build, with_texts(options, code))
        stopped_by = [name for name, text in code.items() if text in str(error)]
        if error is None or not stopped_by:
            break
        refused |= {name for name in stopped_by if "must be a literal" in str(error) and flag(name) in str(error)}
        for name in stopped_by:
            del code[name]
    for name, text in code.items() if error is not None else ():  # stopped without a word of its reason
        attempt(build, with_texts(options, {name: text}))
    return refused


def stock(registry: Dict[str, Any]) -> List[str]:
    """One name for each class, the first: architectures of one class read the same options."""
    names = sorted(name for name, kind in registry.items() if kind.__module__.startswith("fairseq."))
    return sorted({registry[name]: name for name in reversed(names)}.values())


def of_arch(name: str) -> Any:
    options = options_of(ARCH_MODEL_REGISTRY, "arch", name)
    for field in ("encoder_layers", "decoder_layers"):  # fewer layers, which build faster
        if getattr(options, field, None):
            setattr(options, field, 1 if isinstance(getattr(options, field), int) else "[(8, 3)]")
    if getattr(options, "criterion", None):
        options.criterion = "adaptive_loss"  # with which lstm reads its cutoffs
    return options


def of_task(name: str, folder: Path) -> Any:
    options = options_of(TASK_REGISTRY, "task", name)
    for field, value in {"data": str(folder / "data"), "source_lang": "xx", "target_lang": "yy"}.items():
        with contextlib.suppress(AttributeError, KeyError):
            setattr(options, field, value)
    return options


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_architecture_runs_code(folder: Path) -> None:
    names = stock(ARCH_MODEL_REGISTRY)
    assert len(names) > 30
    refused = {(name, field) for name in names for field in run_hostile(build_arch, of_arch(name))}
    assert markers(folder) == []
    expected = {"lstm": "adaptive_softmax_cutoff", "fconv": "encoder_layers", "fconv_self_att": "pretrained"}
    expected.update(
        transformer_lm="adaptive_softmax_cutoff", wav2vec2="conv_feature_layers", lstm_lm="adaptive_softmax_cutoff"
    )
    assert set(expected.items()) - refused == set()
    with evaluating(builtins.eval):  # the walk finds what stock fairseq runs
        run_hostile(build_arch, of_arch("lstm"))
        run_hostile(build_arch, of_arch("fconv"))
    assert {"executed-adaptive_softmax_cutoff", "executed-encoder_layers"} <= set(markers(folder))


@pytest.mark.filterwarnings("ignore")
def test_no_task_runs_code(folder: Path) -> None:
    names = stock(TASK_REGISTRY)
    assert len(names) > 25
    refused = {(name, field) for name in names for field in run_hostile(build_task, of_task(name, folder))}
    assert markers(folder) == [] and ("multilingual_translation", "left_pad_source") in refused
    with evaluating(builtins.eval):
        run_hostile(build_task, of_task("multilingual_translation", folder))
    assert "executed-left_pad_source" in markers(folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_stock_defaults_mean_what_they_meant(folder: Path) -> None:
    """Every text that building the architectures and tasks evaluates has the same value as a literal."""
    texts: Dict[str, Any] = {}

    def both(text: Any, *_scopes: Any) -> Any:
        value = builtins.eval(text)
        if isinstance(text, str):
            texts[text] = value
        return value

    with evaluating(both), torch.device("meta"):
        built = [
            attempt(build_arch, options_of(ARCH_MODEL_REGISTRY, "arch", name)) for name in stock(ARCH_MODEL_REGISTRY)
        ]
        for name in stock(TASK_REGISTRY):
            attempt(build_task, of_task(name, folder))
    assert built.count(None) > 20, "few architectures were built"
    assert len(texts) > 10 and "[(512, 3)] * 20" in texts
    assert {text: literal(text) for text in texts} == texts
