"""Roads of the flow map: exchanges, keys of bindings, and averages of samples."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.describe.flow_map import FlowMap
from penstock.describe.flow_map_roads import EXCHANGES_SHOWN, KEY_LETTERS, KEYS_EACH, blended
from penstock.flow.work import finish
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.blocked_scene import GATED, Scene
from tests.support.driven_connection import Dialogue, publish


def taken(flow_map: FlowMap) -> Any:
    return finish(flow_map.steps())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def exchange(peer: Dialogue, name: str, kind: str = "topic") -> None:
    peer.say(method_frame(1, spec.EXCHANGE_DECLARE, exchange=name, type=kind))


def bind(peer: Dialogue, queue: str, source: str, key: str) -> None:
    peer.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange=source, routing_key=key))


def named(found: Any, kind: str) -> dict[str, str]:
    """Return the names of rows by id."""
    return {each["id"]: each["name"] for each in found[kind]}


def roads(found: Any) -> dict[tuple[str, str], Any]:
    """Return the rows of routes by the names of exchange and queue."""
    exchanges, queues = named(found, "exchanges"), named(found, "queues")
    return {(exchanges[each["exchange"]], queues[each["queue"]]): each for each in found["routes"]}


def test_roads_have_rates_by_exchange_and_the_keys_of_their_bindings(scene: Scene) -> None:
    peer = scene.join()
    exchange(peer, "events")
    peer.declare("orders").declare("audit")
    bind(peer, "orders", "events", "order.*")
    bind(peer, "audit", "events", "#")
    flow_map = FlowMap(scene.driver, None, True)
    taken(flow_map)
    peer.say(publish("order.new", b"x", exchange="events") * 6)
    peer.say(publish("orders", b"x") * 2)
    scene.at(102.0)
    taken(flow_map)
    peer.say(publish("order.new", b"x", exchange="events") * 6)
    peer.say(publish("orders", b"x") * 2)
    scene.at(104.0)
    found = taken(flow_map)
    assert {key: (each["rate"], each["keys"]) for key, each in roads(found).items()} == {
        ("events", "orders"): (3.0, ["order.*"]),
        ("", "orders"): (1.0, ["orders"]),
        ("events", "audit"): (3.0, ["#"]),
    }
    assert {each["name"]: (each["type"], each["rate"]) for each in found["exchanges"]} == {
        "events": ("topic", 3.0),
        "": ("direct", 1.0),
    }
    exchanges, queues = named(found, "exchanges"), named(found, "queues")
    edges = {(exchanges[each["exchange"]], queues[each["queue"]]): each["rate"] for each in found["edges"]}
    assert edges == {("events", "orders"): 3.0, ("", "orders"): 1.0, ("events", "audit"): 3.0}


def test_blocked_producer_that_was_never_sampled_has_the_exchange_where_it_stopped(scene: Scene) -> None:
    peer = scene.join()
    for name in ("events", "other"):
        exchange(peer, name)
    peer.declare("orders", **GATED)
    for name in ("other", "events"):
        bind(peer, "orders", name, "order.*")
    for _ in range(4):
        peer.say(publish("order.new", b"x", exchange="events"))
    found = taken(FlowMap(scene.driver, None, True))
    (edge,) = found["edges"]
    assert named(found, "exchanges")[edge["exchange"]] == "events"
    assert roads(found)["events", "orders"]["keys"] == ["order.*"]


def test_held_producer_has_the_exchange_of_its_held_publish(scene: Scene) -> None:
    scene.filled("orders", 10)
    late = scene.join()
    exchange(late, "events", "fanout")
    bind(late, "orders", "events", "")
    late.say(publish("", b"late", exchange="events"))
    found = taken(FlowMap(scene.driver, None, True))
    by_producer = {each["producer"][:5]: named(found, "exchanges")[each["exchange"]] for each in found["edges"]}
    assert by_producer == {"con:1": "", "con:2": "events"}


def test_producer_at_the_gate_of_its_exchange_has_a_road_to_it(scene: Scene) -> None:
    peer = scene.join()
    exchange(peer, "events")
    peer.declare("orders")
    bind(peer, "orders", "events", "#")
    scene.control("block", address="events", reason="upgrade")
    scene.at(101.0)
    peer.say(publish("order.new", b"x", exchange="events"))
    found = taken(FlowMap(scene.driver, None, True))
    (edge,), (shown,) = found["edges"], found["producers"]
    (row,) = [each for each in found["exchanges"] if each["name"] == "events"]
    assert (edge["producer"], edge["exchange"]) == (shown["name"], row["id"])
    assert [each["gate"] for each in shown["blocked"]] == row["gates"]
    assert row["gates"][0] in {each["id"] for each in found["gates"]}


def test_keys_of_a_road_are_few_and_short(scene: Scene) -> None:
    peer = scene.join()
    exchange(peer, "events")
    peer.declare("orders")
    for number in range(KEYS_EACH + 2):
        bind(peer, "orders", "events", f"{'k' * 200}{number}")
    (road,) = taken(FlowMap(scene.driver, None, True))["routes"]
    assert (len(road["keys"]), road["more_keys"]) == (KEYS_EACH, 2)
    assert all(len(key) == KEY_LETTERS and key.endswith("…") for key in road["keys"])


def test_map_shows_a_bounded_number_of_exchanges(scene: Scene) -> None:
    peer = scene.join()
    for number in range(EXCHANGES_SHOWN // 4 + 1):
        peer.declare(f"q{number}")
        for part in range(4):
            name = f"e{number}-{part}"
            exchange(peer, name, "fanout")
            bind(peer, f"q{number}", name, "")
    flow_map = FlowMap(scene.driver, None, True)
    taken(flow_map)
    for number in range(EXCHANGES_SHOWN // 4 + 1):
        for part in range(4):
            peer.say(publish("", b"x", exchange=f"e{number}-{part}"))
    scene.at(102.0)
    found = taken(flow_map)
    assert (len(found["exchanges"]), found["more_exchanges"]) == (EXCHANGES_SHOWN, 4)
    assert len([each for each in found["edges"] if each["exchange"] is None]) == 4


def test_sender_that_stops_is_forgotten_after_a_few_maps_of_others() -> None:
    shares = blended({}, {("gone", "events"): 40})
    assert blended(shares, {}) == {("gone", "events"): 40.0}, "nothing has arrived"
    maps = 0
    while ("gone", "events") in shares:
        shares = blended(shares, {("here", "events"): 40})
        maps += 1
    assert maps == 6
    assert set(shares) == {("here", "events")}
