"""Errors under hydra.

``fairseq-hydra-train`` runs inside hydra, which catches every exception and prints its own report with a trace. With
``HYDRA_FULL_ERROR`` set, hydra raises the exception again, and the hook of :mod:`fairseq_attn_plugin.errors` shows it.
"""

import os
from dataclasses import fields, is_dataclass
from typing import Any, Iterator, Optional

from fairseq_attn_plugin.errors import did_you_mean, explain_by

from .explaining import raised_inside
from .wrapping import Patch

__all__ = ["PATCH"]


def raise_through_hydra() -> None:
    """Make hydra raise what it has caught, if the plugin is imported inside a hydra job."""
    try:
        from hydra.core.hydra_config import HydraConfig
    except ImportError:
        return
    if HydraConfig.initialized():
        os.environ.setdefault("HYDRA_FULL_ERROR", "1")


def wrong_key(error: BaseException) -> Optional[str]:
    """A key of a section that its dataclass does not have, or a value of another type."""
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError, ValidationError

    kind, key = getattr(error, "object_type", None), getattr(error, "full_key", None)
    if not is_dataclass(kind) or not key or not raised_inside(error, "/fairseq/dataclass/", innermost=False):
        return None
    if isinstance(error, ValidationError):
        return f"{key}: {str(error).splitlines()[0]}"
    if not isinstance(error, (ConfigAttributeError, ConfigKeyError)):
        return None
    owner = next((name for name, known in _registered() if known is kind), getattr(kind, "__name__", kind))
    meant = did_you_mean(key, [own.name for own in fields(kind)])
    return "; ".join(filter(None, [f"{key}: is no key of {owner}", meant]))


def wrong_name(error: BaseException) -> Optional[str]:
    """The name of a criterion, an optimizer or a scheduler that is not registered."""
    if not isinstance(error, KeyError) or not error.args or not raised_inside(error, "/fairseq/registry.py"):
        return None
    name = str(error.args[0])
    meant = did_you_mean(name, (known for known, _ in _registered()))
    return "; ".join(filter(None, [f"_name {name}: there is none of this name", meant]))


def _registered() -> Iterator[Any]:
    """Names and dataclasses of models, tasks and all other choices."""
    from fairseq.models import MODEL_DATACLASS_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    for registry in (
        MODEL_DATACLASS_REGISTRY,
        TASK_DATACLASS_REGISTRY,
        *(one["dataclass_registry"] for one in REGISTRIES.values()),
    ):
        yield from registry.items()


def _install() -> None:
    for rule in (wrong_key, wrong_name):
        explain_by(rule)
    raise_through_hydra()


PATCH = Patch(
    name="hydra_errors",
    reason="fairseq-hydra-train reports a mistake in an option with a stack trace",
    checked=("0.12.3", "0.12.3.1"),
    extra=_install,
)
