"""Rows of the flow map: blocked producers with their gates and lines, and readers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.describe.flow_map import FlowMap
from penstock.flow.work import finish
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.blocked_scene import GATED, Scene
from tests.support.driven_connection import publish


def taken(flow_map: FlowMap) -> Any:
    return finish(flow_map.steps())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_blocked_producers_have_the_gate_the_time_and_withheld_publishes(scene: Scene) -> None:
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
    (exchange,) = found["exchanges"]
    edge = {"producer": shown["name"], "exchange": exchange["id"], "queue": queue["id"], "rate": None}
    assert found["edges"] == [edge]


def test_waiting_producers_have_tickets_in_the_order_of_their_turns(scene: Scene) -> None:
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


def test_readers_have_rates_and_obstacles(scene: Scene) -> None:
    producer, consumer = scene.join(), scene.join()
    producer.declare("orders")
    scene.control("cursor.attach", cursor="billing", queues=["orders"])
    consumer.consume("orders", prefetch=2)
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


def test_producer_has_its_own_rate_and_virtual_host(scene: Scene) -> None:
    peer = scene.join()
    for name in ("one", "two"):
        peer.declare(name)
        peer.say(publish(name, b"x"))
    flow_map = FlowMap(scene.driver, None, True)
    taken(flow_map)
    for second in (102.0, 104.0):
        for name in ("one", "two"):
            peer.say(publish(name, b"x") * 3)
        scene.at(second)
        (shown,) = taken(flow_map)["producers"]
        assert (shown["vhost"], shown["letters_of"]) == ("/", None)
    assert shown["rate"] == 3.0, "of both queues together"


def test_dead_letters_come_from_their_queue(scene: Scene) -> None:
    peer, reader = scene.join(), scene.join()
    peer.declare("work", x_dead_letter_exchange="", x_dead_letter_routing_key="dead").declare("dead")
    flow_map = FlowMap(scene.driver, None, True)
    taken(flow_map)
    peer.say(publish("work", b"x") * 4)
    reader.consume("work")
    reader.say(method_frame(1, spec.BASIC_NACK, delivery_tag=0, multiple=True))
    scene.at(102.0)
    found = taken(flow_map)
    dead = next(queue["id"] for queue in found["queues"] if queue["name"] == "dead")
    (letters,) = [each for each in found["producers"] if each["letters_of"] == "work"]
    assert {edge["producer"] for edge in found["edges"] if edge["queue"] == dead} == {letters["name"]}
