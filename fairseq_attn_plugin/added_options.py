"""The options of all attention mechanisms as fields of a model's configuration.

fairseq reads the options of a model from a dataclass, and takes that class when the model is registered. A mechanism
from outside the package registers later. Its options are therefore added to the classes in place: fairseq's registry,
hydra's ConfigStore and every importer of the class then see them.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, Type, TypeVar

from fairseq.models import MODEL_DATACLASS_REGISTRY
from hydra.core.config_store import ConfigStore

from .. import attention as attentions

__all__ = ["offers_attention_options"]

Config = TypeVar("Config")
Accept = Callable[[Type[attentions.Attention], attentions.Option], bool]


def offers_attention_options(
    accept: Accept = lambda mechanism, option: True,
) -> Callable[[Type[Config]], Type[Config]]:
    """Class decorator that adds the options of all mechanisms, later ones included, to a dataclass and its subclasses.

    Args:
        accept: whether to add this option of this mechanism

    Raises:
        ValueError: an option of a mechanism has the name of an option of the model
    """

    def decorate(config: Type[Config]) -> Type[Config]:
        offered: Dict[str, attentions.Option] = {}

        def offer(mechanisms: Iterable[Type[attentions.Attention]]) -> None:
            new = {
                own.name: own
                for mechanism in mechanisms
                for own in attentions.options_of(mechanism.Config)
                if own.name not in offered and accept(mechanism, own)
            }
            _extend(config, new)
            offered.update(new)

        offer(map(attentions.attention_class, attentions.names()))
        attentions.follow(lambda mechanism: offer([mechanism]))
        return config

    return decorate


def _extend(config: Any, options: Dict[str, attentions.Option]) -> None:
    """Adds fields to a dataclass in place."""
    if not options:
        return
    for known in _family(config):
        for name in options:
            if name in known.__dataclass_fields__:
                raise ValueError(f"an attention's option {name!r} has the name of an option of {known.__name__}")
    for name, own in options.items():
        metadata = {"help": f"option of attention mechanisms, {own.field.name}", **own.field.metadata}
        config.__annotations__[name] = own.type
        setattr(config, name, field(default=own.field.default, metadata=metadata))
    for known in _family(config):
        _process_again(known)
    for name, registered in MODEL_DATACLASS_REGISTRY.items():
        if isinstance(registered, type) and issubclass(registered, config):
            node = registered()
            node._name = name  # type: ignore[attr-defined]
            ConfigStore.instance().store(name=name, group="model", node=node, provider="fairseq")


def _family(config: Any) -> Iterator[Any]:
    """A class and its subclasses, every class after its bases."""
    yield config
    for derived in config.__subclasses__():
        yield from _family(derived)


def _process_again(config: Any) -> None:
    """Lets ``dataclass`` read the fields of a class and of its bases once more."""
    for name in config.__dict__.get("__annotations__", {}):
        # After processing the class attribute is the default alone, without the metadata of its field.
        if name in config.__dataclass_fields__ and name in config.__dict__ and not _is_field(config.__dict__[name]):
            setattr(config, name, config.__dataclass_fields__[name])
    for name in ("__init__", "__repr__", "__eq__", "__match_args__"):
        if name in config.__dict__:  # dataclass does not replace methods
            delattr(config, name)
    dataclass(config)


def _is_field(value: Any) -> bool:
    return isinstance(value, type(field()))
