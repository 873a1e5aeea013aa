"""How a patch changes fairseq: it wraps functions, each of them once; the wrapper carries the name of the patch."""

import functools
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

MARK = "fairseq_attn_patch"
CHECKED = ("0.12.3", "0.12.3.1")  # the versions of fairseq (``fairseq.__version__``) that the tests have run with

MakeWrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class PatchError(RuntimeError):
    """The installed fairseq has no function where a patch expects one."""


def wrap(owner: Any, name: str, make_wrapper: MakeWrapper, patch: str) -> None:
    """Replace ``owner.name`` by ``make_wrapper(owner.name)``, unless ``patch`` wraps it already.

    The wrapper takes name, docstring and signature of the original (``functools.wraps``).

    Args:
        owner: a module, a class, or an object. A class must define the function itself: the wrapper of an inherited
            function would run twice.
        make_wrapper: takes the original function and returns a new one
        patch: the name of the patch

    Raises:
        PatchError: ``owner`` has no function of this name
    """
    if patch in wrapped_by(owner, name, own=True):
        return
    original = _own(owner, name)
    if original is None or isinstance(original, (staticmethod, classmethod)) or not callable(original):
        where = f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"
        raise PatchError(f"patch {patch}: {where} is not a plain function of the installed fairseq")
    wrapper = functools.wraps(original)(make_wrapper(original))
    setattr(wrapper, MARK, patch)
    setattr(owner, name, wrapper)


def wrapped_by(owner: Any, name: str, own: bool = False) -> List[str]:
    """The patches that wrap ``owner.name``, the outermost first. With ``own``, inherited functions do not count."""
    function = _own(owner, name) if own else getattr(owner, name, None)
    found: List[str] = []
    while function is not None:
        patch = getattr(function, MARK, None)
        if patch is not None and patch not in found:  # functools.wraps of others copies the mark
            found.append(patch)
        function = getattr(function, "__wrapped__", None)
    return found


def around(action: Callable[..., Any]) -> MakeWrapper:
    """What wraps a function such that ``action`` takes the function and its arguments in its place; a decorator of
    ``action``."""

    def make_wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(original)(lambda *args, **kwargs: action(original, *args, **kwargs))

    return make_wrapper


def before(action: Callable[..., None]) -> MakeWrapper:
    """What wraps a function such that ``action`` takes its arguments first; a decorator of ``action``."""

    def first(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        action(*args, **kwargs)
        return original(*args, **kwargs)

    return around(first)


def after(action: Callable[..., None]) -> MakeWrapper:
    """What wraps a function such that ``action`` then takes its result and its arguments; a decorator of ``action``."""

    def then(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        action(result, *args, **kwargs)
        return result

    return around(then)


def storing(contents: Callable[[Any], Dict[str, Any]]) -> MakeWrapper:
    """For ``Trainer.save_checkpoint``: a checkpoint has the ``contents`` of the trainer in its ``extra_state``, too."""
    return around(lambda save, self, filename, extra_state: save(self, filename, {**extra_state, **contents(self)}))


def _own(owner: Any, name: str) -> Any:
    return vars(owner).get(name) if isinstance(owner, (type, ModuleType)) else getattr(owner, name, None)


def resolve(target: str) -> Tuple[Any, str]:
    """Owner and name of a target: ``package.module:function`` or ``package.module:Class.function``."""
    module, _, path = target.partition(":")
    *classes, name = path.split(".")
    return functools.reduce(getattr, classes, import_module(module)), name


@dataclass(frozen=True)
class Patch:
    """A change of fairseq (or of torch, on behalf of fairseq).

    Args:
        name: of the patch
        reason: one line that says what happens without it
        wraps: for each target (:func:`resolve`) the function that makes its wrapper
        extra: what else has to be done; must change nothing when it is called again
        needed: whether the installed versions need the patch
    """

    name: str
    reason: str
    wraps: Mapping[str, MakeWrapper] = field(default_factory=dict)
    extra: Optional[Callable[[], None]] = None
    needed: Callable[[], bool] = lambda: True

    def install(self) -> None:
        """Install the patch where it is needed; a second call changes nothing."""
        if not self.needed():
            return
        for target, make_wrapper in self.wraps.items():
            wrap(*resolve(target), make_wrapper, self.name)
        if self.extra is not None:
            self.extra()
