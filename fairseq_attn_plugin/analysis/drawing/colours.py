"""Colours of systems and runs in a picture."""

from __future__ import annotations

import colorsys
from typing import List

__all__ = ["GAUSSIANS", "distinct_colours"]


GAUSSIANS = ("#d9480f", "#495057")
_FIRST = ("#1c7ed6", "#d9480f", "#2b8a3e", "#862e9c", "#b08900", "#0b7285", "#c2255c", "#343a40")


def distinct_colours(count: int) -> List[str]:
    """``count`` colours: the first of a fixed list of eight, or more than eight evenly spaced hues."""
    if count <= len(_FIRST):
        return list(_FIRST[:count])
    wheel = (colorsys.hsv_to_rgb(number / count, 0.85, 0.78) for number in range(count))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in colour) for colour in wheel]
