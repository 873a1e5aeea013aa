"""Nothing in a checkpoint or a data folder is evaluated: who calls eval in fairseq gets a parser of literals."""

import argparse
import ast
import builtins
import contextlib
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import fairseq
import pytest
from fairseq import models, tasks, utils
from fairseq.models import ARCH_CONFIG_REGISTRY
from models_for_tests import dictionary, fake_task

from fairseq_attn_plugin.errors import OptionError
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
        assert b"builtins" not in path.read_bytes(), f"{path} may call eval by another name"
        if "eval" in names:
            name = ".".join(path.relative_to(FAIRSEQ.parent).with_suffix("").parts)
            calling[name] = getattr(sys.modules.get(name), "eval", None)
    assert len(calling) > 15 and set(calling.values()) == {literal}, calling


# ---- what is built from options


def build_arch(arch: str, **texts: Any) -> None:
    options = argparse.Namespace(arch=arch, criterion="adaptive_loss", **texts)
    ARCH_CONFIG_REGISTRY[arch](options)
    models.build_model(options, fake_task(), True)


def build_translation(task: str, folder: Path, **texts: Any) -> None:
    options = argparse.Namespace(task=task, data=str(folder), lang_pairs="xx-yy", **texts)
    for name in ("source_lang", "target_lang", "encoder_langtok"):
        setattr(options, name, None)
    options.training, options.decoder_langtok, options.max_source_positions = True, False, 16
    tasks.setup_task(options)


HOSTILE: Dict[str, "tuple[str, Callable[..., None]]"] = {
    "lstm": ("adaptive_softmax_cutoff", lambda folder, **texts: build_arch("lstm", **texts)),
    "fconv": ("encoder_layers", lambda folder, **texts: build_arch("fconv", **texts)),
    "multilingual": (
        "left_pad_source",
        lambda folder, **texts: build_translation("multilingual_translation", folder, left_pad_target="False", **texts),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_option_runs_code(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is one that stock fairseq runs: with the builtin under the name eval the file is there."""
    option, build = HOSTILE[name]
    for side in ("xx", "yy"):
        dictionary().save(str(tmp_path / f"dict.{side}.txt"))
    made = tmp_path / "executed"
    hostile = {option: f"open({str(made)!r}, 'w')"}
    with pytest.raises(OptionError, match=f"--{option.replace('_', '-')} .*: must be a literal"):
        build(tmp_path, **hostile)
    assert not made.exists()
    for module in [one for name, one in sys.modules.items() if name.split(".")[0] == "fairseq"]:
        monkeypatch.setattr(module, "eval", builtins.eval, raising=False)
    with contextlib.suppress(Exception):  # a file is no value of the option
        build(tmp_path, **hostile)
    assert made.exists()
