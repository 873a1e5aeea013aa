"""What mechanisms, scores, normalisers and biases have in common: a name in a registry, and options of their own.

A part declares its options as a mechanism does, by a dataclass ``Config`` with a ``prefix``. They become options of all
mechanisms that can have the part.
"""

import importlib
import pkgutil
import re
from dataclasses import MISSING, Field, dataclass, fields
from functools import lru_cache
from typing import Any, Callable, ClassVar, Dict, Generic, Iterable, List, Type, TypeVar, get_type_hints

from torch import nn

from ..errors import OptionError
from ..options import flag


@dataclass(frozen=True)
class Option:
    """One option of a mechanism or of a part: its full name (``adm_nodes``), its type, and its dataclass field."""

    name: str
    type: Any
    field: Field


@dataclass
class PartConfig:
    """Options of a part. A field ``x`` of a class with prefix ``p`` is ``--p-x`` on the command line and ``p_x`` in
    YAML."""

    prefix: ClassVar[str] = ""


class Part(nn.Module):
    """A score, a normaliser or a bias.

    Attributes:
        Config: dataclass of its options
        name: the name under which it is registered
    """

    Config: ClassVar[Type[PartConfig]] = PartConfig
    name: ClassVar[str] = ""

    def __init__(self, config: PartConfig):
        super().__init__()
        self.config: Any = config


AnyPart = TypeVar("AnyPart", bound=Part)
# Called when something registers; if one raises, it is not registered.
FOLLOWERS: List[Callable[[], None]] = []
# All that has options, for the check that names are unique.
_CONFIGS: List[Any] = []


class Parts(Generic[AnyPart]):
    """The registry of one kind of parts, or of mechanisms.

    Args:
        option: the option that chooses among them, ``attention_score``
        kind: what they are called in messages
        submodules: whether a module has them under their names
    """

    def __init__(self, option: str, kind: str, submodules: bool = False):
        self.option, self.kind, self.submodules = flag(option), kind, submodules
        self.found: Dict[str, Type[AnyPart]] = {}

    def register(self, name: str) -> Callable[[Type[AnyPart]], Type[AnyPart]]:
        """Class decorator.

        Raises:
            ValueError: the name, or the name of one of its options, is taken; a name that a submodule cannot have; an
                option without a default, or a flag that is on by default
        """

        def decorate(cls: Type[AnyPart]) -> Type[AnyPart]:
            if name in self.found:
                raise ValueError(f"the {self.kind} {name!r} is registered already, by {self.found[name].__name__}")
            if self.submodules and (not re.fullmatch(r"[A-Za-z][\w-]*", name) or hasattr(nn.Module, name)):
                raise ValueError(f"{name!r} is no name for a {self.kind}; letters, digits, _ and - are")
            check_options(f"the {self.kind} {name!r}", cls.Config)
            cls.name = name
            self.found[name] = cls
            announce(cls.Config, lambda: self.found.pop(name))
            return cls

        return decorate

    def names(self) -> List[str]:
        """The registered parts, sorted."""
        return sorted(self.found)

    def find(self, name: str, given: str = "") -> Type[AnyPart]:
        """The class registered as ``name``; ``given`` is the value of the option, if that holds more than the name.

        Raises:
            OptionError: an unknown name
        """
        if name not in self.found:
            wrong = f"{self.option} {given or name}: " + (f"{name!r} is unknown" if given else f"unknown {self.kind}")
            listed = ", ".join(self.names()) + (", separated by commas" if given else "")
            raise OptionError(f"{wrong}; {choices(listed)}")
        return self.found[name]

    def having(self, option: str) -> List[str]:
        """The parts that have an option."""
        return [name for name in self.names() if option in options_of(self.found[name].Config)]

    def options(self) -> Dict[str, Option]:
        """The options of all parts by full name."""
        return {name: own for cls in self.found.values() for name, own in options_of(cls.Config).items()}

    def build(self, name: str, *dims: int, **options: Any) -> AnyPart:
        """A part, with options by full name; those that are missing have their defaults, others are not read.

        Args:
            name: the registered name
            dims: what the class takes before its configuration: units of a query and of an encoding

        Raises:
            OptionError: unknown name, dimensions that it cannot take, or a wrong value
        """
        cls: Any = self.find(name)
        own = options_of(cls.Config)
        values = {own[key].field.name: value for key, value in options.items() if key in own}
        return cls(*dims, cls.Config(**values))


def options_of(config: Any) -> Dict[str, Option]:
    """The options that a dataclass of a mechanism or of a part declares or inherits, by full name."""
    return dict(_options_of(config))


@lru_cache(maxsize=None)
def _options_of(config: Any) -> Dict[str, Option]:
    types = get_type_hints(config)
    result = {}
    for item in fields(config):
        # The prefix is that of the class that declares the field, so that derived configurations share inherited
        # options.
        owner: Any = next(c for c in reversed(config.__mro__) if item.name in getattr(c, "__dataclass_fields__", {}))
        name = f"{owner.prefix}_{item.name}".lstrip("_")
        result[name] = Option(name, types[item.name], owner.__dataclass_fields__[item.name])
    return result


def need_own(right: bool, config: Any, field: str, what: str) -> None:
    """Raises OptionError, ``--PREFIX-FIELD VALUE: must be WHAT``, unless ``right``."""
    if not right:
        (name,) = (full for full, own in options_of(type(config)).items() if own.field.name == field)
        raise OptionError(f"{flag(name)} {getattr(config, field)}: must be {what}")


def check_options(who: str, config: Any) -> None:
    """Checks the options of what is about to register.

    Raises:
        ValueError: an option that another has, without a default, or a flag that is on by default
    """
    taken = {name: own for known in _CONFIGS for name, own in options_of(known).items()}
    for name, own in options_of(config).items():
        if config.__dataclass_fields__[own.field.name] is not own.field:
            raise ValueError(
                f"{who} changes the inherited option {name!r}: options are shared by all "
                "mechanisms; let the default be None and the mechanism choose, as default_score does"
            )
        if name in taken and taken[name].field is not own.field:
            raise ValueError(f"{who} redefines the option {name!r}, which is another's")
        if own.field.default is MISSING:
            raise ValueError(f"the option {name!r} of {who} needs a default")
        if own.field.default is True:
            raise ValueError(
                f"the option {name!r} of {who} is on by default, so that fairseq's flag "
                "switches it off; name the opposite and let it be off"
            )


def announce(config: Any, undo: Callable[[], object]) -> None:
    """Calls all followers after a registration, and ``undo`` if one of them raises."""
    _CONFIGS.append(config)
    try:
        for follower in FOLLOWERS:
            follower()
    except Exception:
        _CONFIGS.remove(config)
        undo()
        raise


def choices(names: str) -> str:
    """What to choose from instead of an unknown name."""
    return f"choose from {names}, or give the --user-dir of the folder that registers it"


def import_all(package: str, path: Iterable[str]) -> None:
    """Imports every file of a package, so that what is in it registers."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
