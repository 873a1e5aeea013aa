"""Options that are added to a registered dataclass when something from outside the package registers.

fairseq reads the options of a model or a criterion from a dataclass, and takes that class when the model is registered.
What is outside the package registers later. Its options are therefore added to the classes in place: fairseq's
registry, hydra's ConfigStore and every importer of the class then see them.
"""

from dataclasses import Field, dataclass, field
from typing import Any, Callable, Dict, Iterator

from hydra.core.config_store import ConfigStore

from .attention import Option, follow


def add_options(config: Any, options: Dict[str, Option], group: str, registry: Dict[str, Any]) -> None:
    """Adds fields to a dataclass and its subclasses in place.

    Args:
        config: the dataclass
        options: by full name
        group: of hydra's configuration, such as ``model``
        registry: fairseq's dataclasses of this group, by name

    Raises:
        ValueError: an option has the name of a field
    """
    if not options:
        return
    for known in _family(config):
        for name in options:
            if name in known.__dataclass_fields__:
                raise ValueError(f"the option {name!r} has the name of an option of {known.__name__}")
    for name, own in options.items():
        metadata = {"help": own.field.name, **own.field.metadata}
        config.__annotations__[name] = own.type
        setattr(config, name, field(default=own.field.default, metadata=metadata))
    for known in _family(config):
        _process_again(known)
    for name, registered in registry.items():
        if isinstance(registered, type) and issubclass(registered, config):
            node = registered()
            node._name = name  # type: ignore[attr-defined]
            ConfigStore.instance().store(name=name, group=group, node=node, provider="fairseq")


def keep_adding(config: Any, options: Callable[[], Dict[str, Option]], group: str, registry: Dict[str, Any]) -> None:
    """As :func:`add_options`, now and whenever something registers; ``options`` gives all that there are then."""
    added: Dict[str, Option] = {}

    def add() -> None:
        new = {name: own for name, own in options().items() if name not in added}
        add_options(config, new, group, registry)
        added.update(new)

    add()
    follow(add)


def _family(config: Any) -> Iterator[Any]:
    """A class and its subclasses, every class after its bases."""
    yield config
    for derived in config.__subclasses__():
        yield from _family(derived)


def _process_again(config: Any) -> None:
    """Lets ``dataclass`` read the fields of a class and of its bases once more."""
    own, fields = vars(config), config.__dataclass_fields__
    for name in own.get("__annotations__", {}):
        # After processing the class attribute is the default alone, without the metadata of its field.
        if name in fields and name in own and not isinstance(own[name], Field):
            setattr(config, name, fields[name])
    for name in ("__init__", "__repr__", "__eq__", "__match_args__"):
        if name in config.__dict__:  # dataclass does not replace methods
            delattr(config, name)
    dataclass(config)
