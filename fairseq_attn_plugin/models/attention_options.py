"""The options of all attention mechanisms, scores, normalisers and biases as fields of a model's configuration."""

from typing import Callable, Dict, Type, TypeVar

from fairseq.models import MODEL_DATACLASS_REGISTRY

from .. import attention as attentions
from ..added_options import add_options

__all__ = ["offers_attention_options"]

Config = TypeVar("Config")
Accept = Callable[[Type[attentions.Attention], attentions.Option], bool]


def offers_attention_options(
    accept: Accept = lambda mechanism, option: True,
) -> Callable[[Type[Config]], Type[Config]]:
    """Class decorator that adds the options of all mechanisms and their parts, later ones included, to a dataclass and
    its subclasses.

    Args:
        accept: whether to add this option of this mechanism

    Raises:
        ValueError: an option of a mechanism has the name of an option of the model
    """

    def decorate(config: Type[Config]) -> Type[Config]:
        offered: Dict[str, attentions.Option] = {}

        def offer() -> None:
            new = {
                name: own
                for mechanism in map(attentions.attention_class, attentions.names())
                for name, own in attentions.options_taken(mechanism).items()
                if name not in offered and accept(mechanism, own)
            }
            add_options(config, new, "model", MODEL_DATACLASS_REGISTRY)
            offered.update(new)

        offer()
        attentions.follow(offer)
        return config

    return decorate
