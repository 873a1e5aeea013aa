"""Tables of what is refused: each mistake, and what the line says that names it."""

import functools
import inspect
from typing import Any, Callable

import pytest

from fairseq_attn_plugin.errors import OptionError

Test = Callable[..., Any]


def refuses(*cases: "tuple[Any, ...]") -> Callable[[Test], Test]:
    """A test for each case: the function raises an OptionError of one line that says what the case ends with.

    A function that yields makes ready what it yields, the call that is refused, and goes on with what holds afterwards.

    Args:
        cases: values of the function's first parameters, and a regular expression of the message. The function's other
            parameters are fixtures
    """

    def decorate(function: Test) -> Test:
        parameters = list(inspect.signature(function).parameters.values())

        @functools.wraps(function)
        def test(message: str, **given: Any) -> None:
            steps = function(**given) if inspect.isgeneratorfunction(function) else iter([lambda: function(**given)])
            call = next(steps)
            with pytest.raises(OptionError, match=message) as error:
                call()
            assert "\n" not in str(error.value)
            assert next(steps, None) is None

        said = inspect.Parameter("message", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([*parameters, said])  # type: ignore[attr-defined]
        names = [parameter.name for parameter in parameters[: len(cases[0]) - 1]]
        return pytest.mark.parametrize((*names, "message"), cases)(test)

    return decorate
