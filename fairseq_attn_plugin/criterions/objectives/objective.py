"""The registry of objectives, and their options.

An objective is a function from :class:`Batch`, :class:`Settings` and :class:`MovingAverage` to :class:`Terms`, which
registers itself with :func:`register_objective`, from this package or from outside. Options of its own are the fields
of a dataclass with a ``prefix``, like the options of a mechanism; the function finds them in ``settings.own``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Type

from ...attention import Option, PartConfig, options_of
from ...attention.part_registry import announce, check_options
from .batch import Batch, MovingAverage, Settings, Terms

__all__ = ["OBJECTIVES", "Objective", "RegisteredObjective", "objective_options", "register_objective"]

Objective = Callable[[Batch, Settings, MovingAverage], Terms]
# What validation reports as the value of an objective: exact values by enumeration, or the objective itself.
VALIDATIONS = ("own", "soft", "marginal", "hard", "elbo")


@dataclass(frozen=True)
class RegisteredObjective:
    """An objective with what it declares.

    Attributes:
        function: the objective
        Config: dataclass of its own options
        posterior: it reads q(z | x, y), so that the model needs the posterior network
        mean_context: the model that it trains predicts words from the prior's mean context, not from the marginal
        samples: the number where ``--num-samples`` is not given
        validation: what validation reports as its value: ``own``, the objective itself without gradients; or, by
            enumeration, ``soft``, ``marginal``, ``hard`` or ``elbo``
        recompute: whether to compute the posterior network again in the backward pass, for objectives that enumerate
        support: ``prior`` or ``posterior``, where it sums over the positions to which that gives a probability above
            zero, so that the model needs a sparse one
        chain: it sums over first-order alignments, so that the model needs them; its ``marginal`` is then the model's
            prediction
    """

    function: Objective
    Config: Type[PartConfig] = PartConfig
    posterior: bool = False
    mean_context: bool = False
    samples: int = 1
    validation: str = "own"
    recompute: bool = False
    support: str = ""
    chain: bool = False

    def __call__(self, batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
        """The terms of the loss; options of its own have their defaults where ``settings`` has none."""
        if settings.own is None:
            settings = replace(settings, own=self.Config())
        return self.function(batch, settings, average)

    def configure(self, values: Any) -> PartConfig:
        """Its own options, from the attributes of ``values``."""
        own = options_of(self.Config)
        return self.Config(**{option.field.name: getattr(values, name) for name, option in own.items()})


OBJECTIVES: Dict[str, RegisteredObjective] = {}


def register_objective(
    name: str, config: Type[PartConfig] = PartConfig, validation: str = "own", **declared: Any
) -> Callable[[Objective], Objective]:
    """Decorator that makes an objective available as ``--objective NAME`` of ``--criterion latent_alignment``.

    Args:
        name: the objective
        config: dataclass of its own options
        validation, declared: attributes of :class:`RegisteredObjective`

    Raises:
        ValueError: the name, or the name of one of the options, is taken; another ``validation``
    """

    def register(function: Objective) -> Objective:
        if name in OBJECTIVES:
            raise ValueError(f"the objective {name!r} is registered already")
        if validation not in VALIDATIONS:
            raise ValueError(f"the objective {name!r} has validation {validation!r}; choose from {VALIDATIONS}")
        check_options(f"the objective {name!r}", config)
        OBJECTIVES[name] = RegisteredObjective(function, config, validation=validation, **declared)
        announce(config, lambda: OBJECTIVES.pop(name))
        return function

    return register


def objective_options() -> Dict[str, Option]:
    """The options that objectives have of their own, by name."""
    return {name: own for found in OBJECTIVES.values() for name, own in options_of(found.Config).items()}


def having(option: str) -> List[str]:
    """The objectives that have an option of their own."""
    return [name for name, found in OBJECTIVES.items() if option in options_of(found.Config)]
