"""Describes a vocabulary in a file, so that the file can be refused with another vocabulary."""

import hashlib
from typing import Any, Dict

from fairseq_attn_plugin.errors import OptionError


def describe_vocabulary(dictionary: Any) -> Dict[str, Any]:
    """Number and SHA-256 of the symbols of a fairseq dictionary, in order, to be stored in a JSON file."""
    symbols = "\n".join(dictionary.symbols).encode("utf-8", "surrogatepass")
    return {"symbols": len(dictionary), "sha256": hashlib.sha256(symbols).hexdigest()}


def check_vocabulary(described: Any, dictionary: Any, option: str, path: Any, side: str) -> None:
    """Raises ``OptionError`` unless ``described``, in the file ``path`` of an ``option``, is
    :func:`describe_vocabulary` of ``dictionary``, that of the ``side`` source or target."""
    own = describe_vocabulary(dictionary)
    if not isinstance(described, dict) or described.get("sha256") != own["sha256"]:
        symbols = described.get("symbols", "?") if isinstance(described, dict) else "?"
        raise OptionError(
            f"{option} {path}: was made for another {side} vocabulary ({symbols} symbols; the data have "
            f"{own['symbols']}); create it again with these data"
        )
