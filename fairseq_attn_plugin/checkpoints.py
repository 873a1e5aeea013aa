"""What a checkpoint says about its model."""

from typing import Any, Optional

__all__ = ["architecture"]


def architecture(model: Any) -> Optional[str]:
    """The ``--arch`` or ``model._name`` of a model configuration, which is a dictionary, a namespace or None."""
    for name in ("arch", "_name"):
        value: Optional[str] = model.get(name) if isinstance(model, dict) else getattr(model, name, None)
        if value:
            return value
    return None
