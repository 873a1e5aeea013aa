"""Text of a configuration or of a data folder is parsed and never evaluated.

Stock fairseq calls ``eval`` on options: ``eval_str_list``, ``eval_str_dict``, ``eval_bool``, the convolutions of
``fconv`` and wav2vec, the betas of Adam. Options come from checkpoints, so that a checkpoint could run any code. The
patch gives the modules of fairseq a name ``eval`` of their own, which hides the builtin: :func:`literal`. Functions
that were imported from these modules before are covered as well, since a function looks names up in its own module.

:func:`literal` takes Python's literals, and sums and products of them such as ``[(512, 3)] * 20``, which stock defaults
use.
"""

import ast
import operator
import sys
from argparse import Namespace
from typing import Any, Callable, Dict

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import flag

from ..wrapping import Patch, around


class NotLiteral(OptionError):
    """Text that is not a literal. ``text`` is the text, for those who know the option's name."""

    def __init__(self, text: str) -> None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(
            f"{shown!r}: must be a literal such as True, 3, [1, 2] or [(512, 3)] * 20; it is not evaluated"
        )
        self.text = text


def literal(text: Any, _globals: Any = None, _locals: Any = None) -> Any:
    """The value of a literal, of sums and products; takes the place of ``eval`` in fairseq.

    Raises:
        NotLiteral: anything else
        TypeError: ``text`` is not a string, as in ``eval``
    """
    if not isinstance(text, str):
        raise TypeError(f"literal() takes a string, not {type(text).__name__}")
    try:
        return _value(ast.parse(text.lstrip(" \t"), mode="eval").body)
    except (ValueError, TypeError, ArithmeticError, SyntaxError, MemoryError, RecursionError):
        raise NotLiteral(text) from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        combine = operator.add if isinstance(node.op, ast.Add) else operator.mul
        return combine(_value(node.left), _value(node.right))
    if isinstance(node, ast.Dict):
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values)}  # type: ignore[arg-type]
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.List):
        return list(map(_value, node.elts))
    return ast.literal_eval(node)


def hide_builtin() -> None:
    """Give each module of fairseq that is imported the name ``eval``; importing fairseq imports all that call it."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "fairseq":
            vars(module).setdefault("eval", literal)


@around
def _naming_the_option(build: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Names the option of the configuration whose text was refused."""
    try:
        return build(cfg, *args, **kwargs)
    except NotLiteral as error:
        options: Dict[str, Any] = vars(cfg) if isinstance(cfg, Namespace) else dict(cfg)
        names = [name for name, value in options.items() if isinstance(value, str) and value == error.text]
        if not names:
            raise
        raise OptionError(f"{flag(names[0])} {error}") from None


LITERALS = Patch(
    name="literals",
    reason="fairseq evaluates text of a checkpoint's configuration, which could run any code",
    wraps={"fairseq.models:build_model": _naming_the_option, "fairseq.tasks:setup_task": _naming_the_option},
    extra=hide_builtin,
)
