"""Which vocabulary a file was made for: files that hold words or positions of one are refused with another."""

from __future__ import annotations

import hashlib
from typing import Any, Dict

from fairseq_attn_plugin.errors import OptionError

__all__ = ["check_vocabulary", "describe_vocabulary"]


def describe_vocabulary(dictionary: Any) -> Dict[str, Any]:
    """Size and SHA-256 of a fairseq dictionary's symbols in their order, to be kept in a JSON file."""
    symbols = "\n".join(dictionary.symbols).encode("utf-8", "surrogatepass")
    return {"symbols": len(dictionary), "sha256": hashlib.sha256(symbols).hexdigest()}


def check_vocabulary(described: Any, dictionary: Any, option: str, path: Any, side: str) -> None:
    """Raises OptionError where ``described`` is not what :func:`describe_vocabulary` says of ``dictionary``.

    Args:
        described: what the file holds
        dictionary: the task's
        option: the option that names the file
        path: the file
        side: source or target
    """
    own = describe_vocabulary(dictionary)
    if not isinstance(described, dict) or described.get("sha256") != own["sha256"]:
        symbols = described.get("symbols", "?") if isinstance(described, dict) else "?"
        raise OptionError(
            f"{option} {path}: was made for another {side} vocabulary ({symbols} symbols; the data have "
            f"{own['symbols']}); make it again with these data"
        )
