"""Information about the model of a checkpoint."""

from typing import Any, Optional

__all__ = ["architecture"]


def architecture(model: Any) -> Optional[str]:
    """The ``--arch`` or ``model._name`` of a model configuration (a dictionary, a namespace or None), if it has one."""
    for name in ("arch", "_name"):
        value: Optional[str] = model.get(name) if isinstance(model, dict) else getattr(model, name, None)
        if value:
            return value
    return None
