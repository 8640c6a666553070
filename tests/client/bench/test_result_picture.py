"""Pictures of runs: lines, levels and bands as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from penstock.client.bench import result


def test_picture_has_a_line_a_level_and_a_band_with_names_escaped() -> None:
    seen = result.Picture("a < b", "messages", {"depth": [(0.0, 0.0), (1.0, 5.0)]}, {"stop": 4.0}, [(0.5, 1.0)])
    drawn = result.draw(seen)
    ElementTree.fromstring(drawn)
    assert "a &lt; b" in drawn
    assert (drawn.count("<polyline"), drawn.count("the gate is closed</title>")) == (1, 1)


def test_points_in_the_middle_of_a_level_are_left_out() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0)]
    assert result.thinned(points) == [(0.0, 1.0), (2.0, 1.0), (3.0, 2.0)]


def test_grid_has_round_numbers() -> None:
    assert [result.tick(highest) for highest in (1.0, 4.0, 11.0, 634.0, 123_456.0)] == [0.2, 1.0, 5.0, 200.0, 50_000.0]
    drawn = result.draw(result.Picture("rate", "messages", {"confirmed": [(0.5, 90_000.0), (3.5, 123_456.0)]}))
    assert all(f">{label}</text>" in drawn for label in ("0", "50,000", "100,000", "150,000"))
    assert [f">{second}</text>" in drawn for second in (1, 2, 3, 4)] == [True, True, True, False]


def test_line_of_zeros_is_drawn() -> None:
    ElementTree.fromstring(result.draw(result.Picture("rate", "messages", {"received": [(0.5, 0.0), (1.0, 0.0)]})))
