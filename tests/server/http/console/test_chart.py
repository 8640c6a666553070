"""The chart and its points: gaps, the scale, names of limits apart from each other, and forecasts from steady rates."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.brokers import BrokerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Page

END = 1_700_000_000
NONE = {"resume": None, "stop": None, "capacity": None, "wall": None}
DRAW = """async ([data, keys]) => {
    const { Chart } = await import("/static/parts/chart.js");
    const chart = new Chart({ name: "depth", lane: "gate closed", gate: "gate" });
    const place = document.createElement("div");
    place.append(chart.readout, chart.place);
    document.getElementById("main").prepend(place);
    chart.show(data);
    for (const key of keys) chart.place.dispatchEvent(new KeyboardEvent("keydown", { key }));
    const find = (query) => [...chart.place.querySelectorAll(query)];
    const found = {
        depth: find("path.depth")[0].getAttribute("d"), shut: find("path.shut")[0]?.getAttribute("d") ?? "",
        names: find("text.limit").map((each) => [each.textContent, Number(each.getAttribute("y"))]),
        axis: find("text.axis").map((each) => each.textContent), zones: find("rect.zone").length,
        label: chart.place.getAttribute("aria-label"), hair: find("path.hair").length,
        height: chart.place.clientHeight };
    chart.leave();
    place.remove();
    return found;
}"""


def points(*depths: int | None, step: int = 5, closed: float = 0.0) -> list[dict[str, Any]]:
    """Return points of one step each, of which the last is at the end; None leaves a point out."""
    first = END - (len(depths) - 1) * step
    return [
        {"at": first + at * step, "depth": depth, "in": 1.0, "out": 2.0, "closed": closed}
        for at, depth in enumerate(depths)
        if depth is not None
    ]


def draw(page: Page, *keys: str, **data: Any) -> Any:
    now = {"depth": 7, "in": 1.0, "out": 2.0, "open": True}
    whole = {"points": [], "span": 300, "step": 5, "end": END, "unit": "messages", "limits": NONE, "now": now, **data}
    return page.evaluate(DRAW, [whole, list(keys)])


def test_line_has_a_gap_where_the_broker_was_away(process: BrokerProcess, page: Page) -> None:
    assert draw(page, points=points(1, 2, 3, 4))["depth"].count("M") == 1
    assert draw(page, points=points(1, 2, None, None, 3, 4))["depth"].count("M") == 2


def test_lane_is_as_long_as_the_gate_was_closed(process: BrokerProcess, page: Page) -> None:
    whole, half = (draw(page, points=points(1, closed=part))["shut"] for part in (1.0, 0.5))
    lengths = [float(each.partition("h")[2]) for each in (whole, half)]
    assert lengths[1] == pytest.approx(lengths[0] / 2, abs=1)
    assert draw(page, points=points(1))["shut"] == ""


def test_scale_ends_at_the_capacity_unless_the_depth_is_far_below(process: BrokerProcess, page: Page) -> None:
    limits = {**NONE, "resume": 700, "stop": 800, "capacity": 1000}
    near = draw(page, points=points(500, 600), limits=limits)
    assert [name for name, _ in near["names"]][:3] == ["resume 700", "stop 800", "capacity 1,000"]
    assert (near["zones"], "1k" in near["axis"]) == (2, True)
    far = draw(page, points=points(5, 6), limits=limits)
    assert [name for name, _ in far["names"]][:1] == ["stop 800 ↑"]
    assert (far["zones"], "1k" in far["axis"]) == (0, False)


def test_names_of_limits_do_not_touch(process: BrokerProcess, page: Page) -> None:
    limits = {**NONE, "resume": 990, "stop": 995, "capacity": 1000}
    heights = sorted(y for name, y in draw(page, points=points(999), limits=limits)["names"] if "/s" not in name)
    assert all(below - above >= 14 for above, below in pairwise(heights))


def test_arrow_keys_move_the_cursor_by_five_points(process: BrokerProcess, page: Page) -> None:
    all_points = points(*range(20))
    assert "gate: now, depth 7" in draw(page, points=all_points)["label"]
    moved = draw(page, "ArrowLeft", points=all_points)
    assert (moved["hair"], "depth 14" in moved["label"]) == (1, True)
    assert "depth 19" in draw(page, "ArrowLeft", "ArrowRight", "ArrowRight", points=all_points)["label"]
    assert "depth 0" in draw(page, "Home", points=all_points)["label"]


def test_chart_without_points_has_its_final_height(process: BrokerProcess, page: Page) -> None:
    assert draw(page)["height"] == draw(page, points=points(1, 2))["height"]


TAKE = """async (tiers) => {
    const { Past } = await import("/static/pages/queue/past.js");
    const past = new Past("/none", () => {});
    for (const tier of tiers) past.take("300", tier);
    past.leave();
    return past.points("300").map((each) => [each.at, each.messages]);
}"""


def tier(end: int, *messages: int) -> dict[str, Any]:
    zeros = [0.0 for _ in messages]
    rates = dict.fromkeys(("publish", "deliver_get", "closed"), zeros)
    return {"seconds": 5, "end": end * 1000, "messages": messages, "bytes": messages, **rates}


def test_points_of_before_a_restart_stay_for_as_long_as_they_are_in_the_span(
    process: BrokerProcess, page: Page
) -> None:
    before = tier(END, 1, 2, 3)
    kept = [[END - 10, 1], [END - 5, 2], [END, 3]]
    assert page.evaluate(TAKE, [before, tier(END + 60, 8, 9)]) == [*kept, [END + 55, 8], [END + 60, 9]]
    assert page.evaluate(TAKE, [before, tier(END + 5, 1, 2, 3, 4)]) == [*kept, [END + 5, 4]]
    assert page.evaluate(TAKE, [before, tier(END + 400, 9)]) == [[END + 400, 9]]


@pytest.mark.parametrize(
    ("values", "rate"),
    [
        ([100, 90, 80, 70, 60], -2.0),
        ([100, 90, 81, 70, 60], -2.0),
        ([100, 100, 100, 100, 100], None),
        ([100, 50, 100, 40, 60], None),
        ([100, 90], None),
        ([500, 100, *range(0, 130, 10)], 2.0),
    ],
)
def test_forecast_needs_a_steady_rate_of_the_last_minute(
    process: BrokerProcess, page: Page, values: list[int], rate: float | None
) -> None:
    script = "async (values) => (await import('/static/pages/queue/reason.js')).steady(values)"
    found = page.evaluate(script, values)
    assert found == (None if rate is None else pytest.approx(rate, rel=0.05))


def test_sending_rate_counts_only_the_time_of_the_open_gate(process: BrokerProcess, page: Page) -> None:
    script = "async (points) => (await import('/static/pages/queue/reason.js')).sendingRate(points)"
    half = [{"in": 10, "closed": 0.5}, {"in": 0, "closed": 1}, {"in": 10, "closed": 0.5}]
    assert page.evaluate(script, half) == 20
    assert page.evaluate(script, [{"in": 0, "closed": 1}]) is None
