"""What the flow map says of one queue: its band, its gate and line, those who publish, and those who read."""

from __future__ import annotations

from penstock.management.flow_map import FlowMap
from tests.management.test_flow_map import taken
from tests.management.test_why import GATED, Scene, consume, control
from tests.support.driven_connection import publish


def test_blocked_producers_have_the_gate_the_time_and_what_is_withheld() -> None:
    scene = Scene()
    producer = scene.join()
    producer.declare("orders", **GATED)
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    scene.at(103.0)
    found = taken(FlowMap(scene.driver, None, True))
    (gate,) = found["gates"]
    assert (gate["kind"], gate["name"], gate["open"], gate["closed_for_s"]) == ("queue", "orders", False, 3.0)
    assert (gate["blocked"], gate["waiting"], gate["line"]) == (1, 0, [])
    (shown,) = found["producers"]
    assert shown["blocked"] == [{"gate": gate["id"], "blocked_s": 3.0}]
    assert (shown["withheld"], shown["held"], shown["ticket"]) == (1, 0, None)
    (queue,) = found["queues"]
    assert queue["gate"] == gate["id"]
    assert [queue[name]["messages"] for name in ("resume", "stop", "capacity")] == [1, 3, 10]
    assert found["edges"] == [{"producer": shown["name"], "queue": queue["id"], "rate": None}]


def test_those_in_line_have_tickets_in_the_order_of_their_turns() -> None:
    scene = Scene()
    first, second = scene.join(), scene.join()
    first.declare("orders", **GATED)
    for _ in range(12):
        first.say(publish("orders", b"order"))
    second.say(publish("orders", b"late"))
    found = taken(FlowMap(scene.driver, None, True))
    line = found["gates"][0]["line"]
    assert [(each["name"][:5], each["held"], each["for"]) for each in line] == [
        ("con:1", 2, "publish"),
        ("con:2", 1, "publish"),
    ]
    assert line[0]["ticket"] <= line[1]["ticket"]
    assert [producer["ticket"] for producer in found["producers"]] == [each["ticket"] for each in line]


def test_readers_have_rates_and_obstacles() -> None:
    scene = Scene()
    producer, consumer = scene.join(), scene.join()
    producer.declare("orders")
    control(scene, "cursor.attach", cursor="billing", queues=["orders"])
    consume(consumer, "orders", prefetch=2)
    flow_map = FlowMap(scene.driver, None, True)
    taken(flow_map)
    for _ in range(4):
        producer.say(publish("orders", b"order"))
    scene.at(102.0)
    shown = taken(flow_map)["readers"]
    assert [(each["kind"], each["name"], each["rate"]) for each in shown] == [
        ("consumer", "c1", 1.0),
        ("cursor", "billing", 0.0),
    ]
    assert shown[0]["obstacles"] != []
    assert shown[1]["lag"] == 4
