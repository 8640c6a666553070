"""Plots of the analysis: well-formed, inside their frame, and safe with any name; chains of queues; no JVM."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest

from pyspark_penstock.analysis import svg
from pyspark_penstock.analysis.chains import CHAINS_MOST, LONGEST, chains

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["orders", "<b>\"&'</b>", "x" * 500, ""]


def drawn(text: str) -> ElementTree.Element:
    """Parse a plot; everything in it must be inside of its frame."""
    root = ElementTree.fromstring(text)
    width, height = (float(each) for each in root.attrib["viewBox"].split()[2:])
    for element in root.iter():
        points = re.findall(r"(-?[\d.]+),(-?[\d.]+)", element.get("points", ""))
        for x, y in [*points, *([(element.get("x"), element.get("y"))] if element.get("x") else [])]:
            assert -1 <= float(x) <= width + 1, element.attrib
            assert -1 <= float(y) <= height + 1, element.attrib
    return root


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0], [1e-9, 3.0], [1e12, 5.0, 0.0]])
def test_lines_stay_in_their_frame(values: list[float]) -> None:
    points = list(enumerate(values, 100))
    named = [(name, [(float(at), value) for at, value in points]) for name in NAMES]
    root = drawn(svg.lines("Depth", "messages", 100.0, 100.0 + len(values), named, lambda at: f"{at:.0f} s"))
    assert len(root.findall(f"{SVG}polyline")) == len(NAMES)


def test_bars_are_in_proportion() -> None:
    root = drawn(
        svg.bars("Blocked", [(name, value, "s") for name, value in zip(NAMES, (4.0, 2.0, 1.0, 0.0), strict=True)])
    )
    widths = [float(bar.attrib["width"]) for bar in root.findall(f"{SVG}rect")]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)
    assert widths[3] == 0.0
    drawn(svg.bars("Nothing", []))


def test_words_behind_bars_are_inside_of_the_frame() -> None:
    words = ("39.2 s, 83.4% of the time", "147.4 s, 3.13 blocked on average", "1")
    root = drawn(svg.bars("Blocked", [(name, 9.0, text) for name, text in zip(NAMES, words, strict=False)]))
    shown = {each.text: float(each.attrib["x"]) for each in root.findall(f"{SVG}text")}
    for text in words:
        assert shown[text] + svg.CHARACTER * len(text) <= svg.WIDTH


def test_unit_of_lines_is_above_the_highest_number() -> None:
    root = drawn(svg.lines("Depth", "messages", 0.0, 1.0, [("orders", [(0.0, 15_000.0)])], str))
    heights = {each.text: float(each.attrib["y"]) for each in root.findall(f"{SVG}text")}
    assert heights["15 k"] - heights["messages"] >= svg.LINE


def test_boxes_have_an_arrow_between_two() -> None:
    root = drawn(svg.boxes("Chains", [[(name, "closed 3 s") for name in NAMES], [("alone", "")]]))
    assert len(root.findall(f"{SVG}rect")) == len(NAMES) + 1
    assert len(root.findall(f"{SVG}path")) == len(NAMES) - 1


def queue_gate(name: str, seconds: float, blocked: float) -> dict[str, object]:
    return {"log": "l", "kind": "queue", "vhost": "/", "gate": name, "seconds": seconds, "blocked_seconds": blocked}


def link(first: str, second: str) -> dict[str, object]:
    ends = {"to_log": "l", "to_vhost": "/", "to_queue": second}
    return {"log": "l", "vhost": "/", "queue": first, **ends, "via": f"{first}{second}", "messages": 1}


def test_chains_end_where_the_next_gate_stays_open_and_in_circles() -> None:
    gates = [queue_gate("a", 50.0, 9.0), queue_gate("b", 60.0, 5.0), queue_gate("c", 1.0, 0.0)]
    (chain,) = chains(gates, [], [link("a", "b"), link("b", "c"), link("b", "a")], [])
    assert [row["queue"] for row in chain.queues] == ["a", "b"]
    assert chain.sentence() == (
        "blocked producers -> queue 'a' (closed 50.0 s) -> ab -> queue 'b' (closed 60.0 s) -> its consumers: "
        "9.0 s of blocked time"
    )


def test_chains_are_few_and_short() -> None:
    names = [f"q{number}" for number in range(40)]
    gates = [queue_gate(name, 5.0, 1.0) for name in names]
    assert len(chains(gates, [], [], [])) == CHAINS_MOST
    found = chains(gates, [], [link(one, other) for one, other in itertools.pairwise(names)], [])
    assert max(len(chain.queues) for chain in found) == LONGEST
