"""A function is wrapped once by each patch, and every patch is installed when the plugin is imported."""

import functools
import inspect
import sys
import types

import pytest
from fairseq_cli import preprocess

from fairseq_attn_plugin import patches
from fairseq_attn_plugin.patches import PATCHES
from fairseq_attn_plugin.patches.wrapping import Patch, PatchError, resolve, wrap, wrapped_by


@pytest.mark.parametrize("patch", [patch for patch in PATCHES if patch.needed()], ids=lambda patch: patch.name)
def test_a_patch_is_installed_once_when_the_plugin_is_imported(patch):
    assert (patch.wraps or patch.extra is not None) and "\n" not in patch.reason
    before = {target: getattr(*resolve(target)) for target in patch.wraps}
    patches.install()
    for target, function in before.items():
        assert getattr(*resolve(target)) is function, target
        assert wrapped_by(*resolve(target)).count(patch.name) == 1


def test_a_tool_that_runs_as_a_module_is_patched(monkeypatch):
    """``python -m fairseq_cli.preprocess`` calls the functions of the module ``__main__``."""
    tool = types.ModuleType("__main__")
    vars(tool).update(__file__=preprocess.__file__, main=lambda args: None, cli_main=lambda: None)
    monkeypatch.setitem(sys.modules, "__main__", tool)
    monkeypatch.delitem(sys.modules, preprocess.__name__)
    patches.install()
    assert wrapped_by(tool, "main") == ["corpora"]


def test_patches_have_names_of_their_own():
    assert len({patch.name for patch in PATCHES}) == len(PATCHES) > 25


def adding(number):
    def make_wrapper(original):
        def wrapper(*args, **kwargs):
            return original(*args, **kwargs) + number

        return wrapper

    return make_wrapper


class Base:
    def method(self):
        return 1

    @staticmethod
    def static():
        return 1


def test_a_function_is_wrapped_once_by_each_patch():
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    module = types.ModuleType("a_module")
    module.double = double
    wrap(module, "double", adding(1), "one")
    first = module.double
    wrap(module, "double", adding(1), "one")
    assert module.double is first and module.double(3) == 7
    wrap(module, "double", adding(10), "ten")
    inner = module.double
    assert inner.__doc__ == "Twice the number." and list(inspect.signature(inner).parameters) == ["number"]
    module.double = functools.wraps(inner)(lambda number: inner(number))  # by somebody else
    wrap(module, "double", adding(1), "one")
    assert module.double(3) == 17 and wrapped_by(module, "double") == ["ten", "one"]


def test_objects_and_classes():
    class Own(Base):
        def method(self):
            return super().method() + 1

    wrap(Own, "method", adding(10), "ten")
    assert Own().method() == 12 and Base().method() == 1 and wrapped_by(Base, "method") == []
    one, other = Base(), Base()
    for _ in range(2):
        wrap(one, "method", adding(5), "five")
    assert one.method() == 6 and other.method() == 1


@pytest.mark.parametrize("name", ["missing", "method", "static", "__doc__"])
def test_what_cannot_be_wrapped_is_refused(name):
    """An inherited method is none of the class."""
    kind = type("Inherits", (Base,), {"static": vars(Base)["static"]})
    with pytest.raises(PatchError, match=f"patch one: Inherits.{name} is not a plain function of the installed"):
        wrap(kind, name, adding(1), "one")


def test_a_patch_that_is_not_needed_changes_nothing():
    def fails():
        raise AssertionError

    Patch("one", "none", {"os.path:join": lambda original: fails()}, fails, needed=lambda: False).install()
