"""Colours that readers with any kind of colour vision tell apart, and series that are told apart without colours."""

from itertools import combinations

import numpy as np
import pytest

from fairseq_attn_plugin.analysis.drawing.canvas import PAPER, series_of

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
# severity 1, for linear RGB
VISION = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    ratios = XYZ @ rgb / XYZ.sum(axis=1)
    x, y, z = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(colours, vision):
    """The distance of the two colours that are hardest to tell apart, in CIELAB; 2.3 is just noticeable."""
    seen = [lab(np.clip(np.asarray(VISION[vision]) @ linear(colour), 0, 1)) for colour in colours]
    return min(np.linalg.norm(a - b) for a, b in combinations(seen, 2))


@pytest.mark.parametrize("vision", VISION)
def test_colours_are_told_apart(vision):
    assert nearest([one.colour for one in series_of(7)], vision) > 15


def test_colours_stand_out_from_the_paper():
    """At least 2 : 1, and the first four 3 : 1, as WCAG 1.4.11 wants of graphics; markers and edges add to it."""
    paper = XYZ[1] @ linear(PAPER)
    for number, one in enumerate(series_of(7)):
        light, dark = sorted([paper, XYZ[1] @ linear(one.colour)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) > (3 if number < 4 else 2)


def test_series_are_told_apart_without_colours():
    first, many = series_of(7), series_of(49)
    assert len({one.marker for one in first}) == len({one.hatch for one in first}) == 7
    assert len({(one.colour, one.marker) for one in many}) == len({(one.colour, one.hatch) for one in many}) == 49
