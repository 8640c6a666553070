"""Pictures of runs: lines, levels and bands as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from penstock.bench import picture


def test_picture_has_a_line_a_level_and_a_band_with_names_escaped() -> None:
    seen = picture.Picture("a < b", "messages", {"depth": [(0.0, 0.0), (1.0, 5.0)]}, {"stop": 4.0}, [(0.5, 1.0)])
    drawn = picture.draw(seen)
    ElementTree.fromstring(drawn)
    assert "a &lt; b" in drawn
    assert (drawn.count("<polyline"), drawn.count("the gate is closed</title>")) == (1, 1)


def test_points_in_the_middle_of_a_level_are_left_out() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0)]
    assert picture.thinned(points) == [(0.0, 1.0), (2.0, 1.0), (3.0, 2.0)]
