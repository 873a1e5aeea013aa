"""A function is wrapped once by each patch, and can tell which patches wrap it."""

import functools
import inspect
import types

import pytest

from fairseq_attn_plugin.patches.wrapping import Patch, PatchError, resolve, wrap, wrapped_by


def adding(number):
    def make_wrapper(original):
        def wrapper(*args, **kwargs):
            return original(*args, **kwargs) + number

        return wrapper

    return make_wrapper


@pytest.fixture
def module():
    def double(number: int) -> int:
        """Twice the number."""
        return 2 * number

    result = types.ModuleType("a_module")
    result.double = double
    return result


class Base:
    def method(self):
        return 1

    @staticmethod
    def static():
        return 1

    @classmethod
    def of_class(cls):
        return 1


def test_a_function_is_wrapped_once_by_each_patch(module):
    assert wrapped_by(module, "double") == []
    wrap(module, "double", adding(1), "one")
    first = module.double
    wrap(module, "double", adding(1), "one")
    assert module.double is first and module.double(3) == 7
    wrap(module, "double", adding(10), "ten")
    wrap(module, "double", adding(1), "one")
    assert module.double(3) == 17 and wrapped_by(module, "double") == ["ten", "one"]
    assert module.double.__name__ == "double" and module.double.__doc__ == "Twice the number."
    assert list(inspect.signature(module.double).parameters) == ["number"]


def test_wrappers_of_others_hide_nothing(module):
    wrap(module, "double", adding(1), "one")
    inner = module.double
    module.double = functools.wraps(inner)(lambda number: inner(number))
    wrap(module, "double", adding(1), "one")
    assert module.double(3) == 7 and wrapped_by(module, "double") == ["one"]


def test_objects_and_classes():
    class Own(Base):
        def method(self):
            return super().method() + 1

    class Inherits(Base):
        pass

    kinds = type("Root", (Base,), {"method": Base.method})
    wrap(Own, "method", adding(10), "ten")
    assert Own().method() == 12 and Base().method() == 1 and wrapped_by(Base, "method") == []
    one, other = kinds(), kinds()
    wrap(one, "method", adding(5), "five")
    wrap(one, "method", adding(5), "five")
    assert one.method() == 6 and other.method() == 1
    with pytest.raises(PatchError, match="patch ten: Inherits.method is not a plain function"):
        wrap(Inherits, "method", adding(10), "ten")


@pytest.mark.parametrize("name", ["missing", "static", "of_class", "__doc__"])
def test_what_cannot_be_wrapped_is_refused(name):
    with pytest.raises(PatchError, match=f"patch one: Base.{name} is not a plain function of the installed fairseq"):
        wrap(Base, name, adding(1), "one")


def test_targets():
    assert resolve("os.path:join")[1] == "join"
    owner, name = resolve("collections:Counter.update")
    assert (owner.__name__, name) == ("Counter", "update")


def test_a_patch_that_is_not_needed_changes_nothing(monkeypatch, module):
    monkeypatch.setitem(__import__("sys").modules, "a_module", module)
    calls = []
    parts = {"reason": "none", "wraps": {"a_module:double": adding(1)}}
    patch = Patch("one", **parts, extra=lambda: calls.append(1), needed=lambda: False)
    patch.install()
    assert module.double(3) == 6 and not calls and not patch.is_installed()
    patch = Patch("one", **parts, extra=lambda: calls.append(1))
    patch.install()
    assert module.double(3) == 7 and calls == [1] and patch.is_installed()
