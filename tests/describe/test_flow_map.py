"""The flow map: its queues, counts, access rules and cost."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.rules import Rules
from penstock.describe.flow_map import QUEUES_SHOWN, VHOSTS_SHOWN, FlowMap
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED
from penstock.flow.work import LOOKING_SHARE, finish
from tests.support.blocked_scene import GATED, Scene
from tests.support.driven_connection import Dialogue, publish
from tests.support.turn_costs import turn_costs

MOST_A_STEP = 100


def taken(flow_map: FlowMap) -> Any:
    return finish(flow_map.steps())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_rates_are_differences_to_the_former_map_by_producer(scene: Scene) -> None:
    one, other = scene.join(), scene.join()
    one.declare("orders")
    flow_map = FlowMap(scene.driver, None, True)
    assert taken(flow_map)["seconds"] == 0.0
    for peer, count in ((one, 6), (other, 2)):
        for _ in range(count):
            peer.say(publish("orders", b"order"))
    scene.at(102.0)
    found = taken(flow_map)
    assert found["seconds"] == 2.0
    (queue,) = found["queues"]
    assert (queue["in_rate"], queue["out_rate"], queue["messages"]) == (4.0, 0.0, 8)
    assert found["totals"]["in_rate"] == 4.0
    assert {edge["producer"][:5]: edge["rate"] for edge in found["edges"]} == {"con:1": 3.0, "con:2": 1.0}


def test_queues_that_block_come_before_busy_ones_and_those_before_deep_ones(scene: Scene) -> None:
    peer = scene.join()
    for number in range(QUEUES_SHOWN + 10):
        peer.declare(f"q{number}")
        for _ in range(number):
            peer.say(publish(f"q{number}", b"deep"))
    peer.declare("busy")
    flow_map = FlowMap(scene.driver, None, False)
    taken(flow_map)
    peer.say(publish("busy", b"one"))
    blocked = scene.join()
    blocked.declare("shut", **GATED)
    for _ in range(4):
        blocked.say(publish("shut", b"order"))
    scene.at(102.0)
    found = taken(flow_map)
    names = [queue["name"] for queue in found["queues"]]
    assert names[:3] == ["shut", "busy", f"q{QUEUES_SHOWN + 9}"]
    assert len(names) == QUEUES_SHOWN
    assert found["more_queues"] == found["totals"]["queues"] - QUEUES_SHOWN == 12
    assert (found["totals"]["blocked_producers"], found["totals"]["closed_queues"]) == (1, 1)


def test_closed_publisher_is_removed_from_the_map(scene: Scene) -> None:
    peer = scene.join()
    peer.declare("orders")
    flow_map = FlowMap(scene.driver, None, True)
    taken(flow_map)
    peer.say(publish("orders", b"order"))
    scene.at(102.0)
    assert len(taken(flow_map)["edges"]) == 1
    scene.at(104.0)
    assert [edge["rate"] for edge in taken(flow_map)["edges"]] == [0.0], "an idle one stays"
    scene.driver.disconnect(peer.connection)
    scene.at(106.0)
    assert taken(flow_map)["edges"] == []


class OnlyRoot(Rules):
    """May enter / alone."""

    def __init__(self) -> None:
        pass

    def enters(self, vhost: str) -> bool:
        return vhost == "/"

    def tags(self) -> list[str]:
        return ["monitoring"]


class NoVhost(OnlyRoot):
    """May enter none."""

    def enters(self, vhost: str) -> bool:
        return False


def test_virtual_hosts_that_a_user_may_not_enter_are_neither_shown_nor_counted(driver: BrokerDriver) -> None:
    for vhost in (driver.broker.vhosts["/"], driver.broker.add_vhost("secret")):
        vhost.declare_queue(f"of {vhost.name}", {}, False, False, None, None)
    assert taken(FlowMap(driver, None, False))["totals"]["queues"] == 2
    found = taken(FlowMap(driver, OnlyRoot(), False))
    assert [queue["name"] for queue in found["queues"]] == ["of /"]
    assert found["totals"]["queues"] == 1
    assert [each["name"] for each in found["vhosts"]] == ["/"]


def test_blocked_producer_of_a_hidden_virtual_host_is_neither_shown_nor_counted(scene: Scene) -> None:
    scene.filled("shut")
    found = taken(FlowMap(scene.driver, NoVhost(), False))
    assert (found["producers"], found["totals"]["producers"], found["totals"]["blocked_producers"]) == ([], 0, 0)


def test_sums_of_virtual_hosts_add_up_to_those_of_the_map(scene: Scene) -> None:
    scene.filled("shut")
    busy = scene.driver.broker.add_vhost("busy")
    for number in range(3):
        busy.declare_queue(f"q{number}", {}, False, False, None, None)
    for number in range(VHOSTS_SHOWN):
        scene.driver.broker.add_vhost(f"empty{number:02}")
    found = taken(FlowMap(scene.driver, None, False))
    assert [each["name"] for each in found["vhosts"]][:2] == ["/", "busy"], "blocked ones first, then the largest"
    assert (len(found["vhosts"]), found["more_vhosts"]) == (VHOSTS_SHOWN, 2)
    for name in ("queues", "messages", "producers", "blocked_producers", "connections", "closed_queues"):
        assert sum(each[name] for each in found["vhosts"]) == found["totals"][name], name


def test_channel_that_never_published_is_no_producer(scene: Scene) -> None:
    reader, peer = scene.join(), scene.join()
    peer.declare("orders")
    reader.consume("orders")
    assert taken(FlowMap(scene.driver, None, False))["totals"]["producers"] == 0
    peer.say(publish("nowhere", b"unroutable"))
    assert taken(FlowMap(scene.driver, None, False))["totals"]["producers"] == 1


def test_queue_with_messages_and_no_consumer_is_counted_as_unread(scene: Scene) -> None:
    peer = scene.join()
    for name in ("left", "read", "empty"):
        peer.declare(name)
    for name in ("left", "read"):
        peer.say(publish(name, b"x"))
    scene.join().consume("read", prefetch=1)
    flow_map = FlowMap(scene.driver, None, False)
    taken(flow_map)
    scene.at(102.0)
    totals = taken(flow_map)["totals"]
    assert (totals["unread_queues"], totals["idle_queues"]) == (1, 3)


def test_samples_end_with_the_map(driver: BrokerDriver) -> None:
    queue = driver.broker.vhosts["/"].declare_queue("orders", {}, False, False, None, None)
    flow_map = FlowMap(driver, None, True)
    taken(flow_map)
    assert queue.counters.next_sample < UNLIMITED
    flow_map.stop()
    assert (queue.counters.next_sample, queue.counters.last_look) == (UNLIMITED, None)


def test_deleted_queue_leaves_the_map_with_the_rates_of_other_queues(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    for name in ("first", "second", "third"):
        vhost.declare_queue(name, {}, False, False, None, None)
    flow_map = FlowMap(driver, None, False)
    client = Dialogue(driver)
    driver.begin(10.0)
    assert taken(flow_map)["totals"]["queues"] == 3
    driver.broker.delete_queue(vhost.queues["first"])
    for _ in range(4):
        client.say(publish("second", b"x"))
    driver.begin(12.0)
    found = taken(flow_map)
    assert (found["totals"]["queues"], found["totals"]["in_rate"]) == (2, 2.0)
    vhost.declare_queue("first", {}, False, False, None, None)
    driver.begin(14.0)
    found = taken(flow_map)
    assert (found["totals"]["queues"], found["totals"]["in_rate"]) == (3, 0.0)


@pytest.mark.once
def test_map_of_many_queues_is_made_a_share_a_turn(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    for number in range(20_000):
        vhost.declare_queue(f"q{number}", {}, False, False, None, None)
    turns, found = turn_costs(driver.broker.work, FlowMap(driver, None, False).steps(), LOOKING_SHARE)
    assert len(turns) >= 2
    assert max(turns) <= LOOKING_SHARE + MOST_A_STEP
    assert found["totals"]["queues"] == 20_000


def test_queue_held_by_the_operator_is_in_the_map_and_the_longest_held_is_named(scene: Scene) -> None:
    peer = scene.join()
    for number in range(QUEUES_SHOWN + 2):
        peer.declare(f"busy{number}")
        peer.say(publish(f"busy{number}", b"x"))
    peer.declare("held").declare("idle")
    scene.control("block", queue="held", reason="upgrade")
    scene.at(104.0)
    scene.filled("shut")
    scene.at(105.0)
    found = taken(FlowMap(scene.driver, None, False))
    (held,) = [queue for queue in found["queues"] if queue["name"] == "held"]
    assert held["state"]["text"].startswith("held by the operator")
    assert (held["state"]["held"]["scope"], held["state"]["held"]["reason"]) == ("queue", "upgrade")
    assert found["longest"] == held["id"]
    assert found["nearest"] is None
    assert found["totals"]["idle_queues"] == found["totals"]["queues"] - 2


def test_map_names_the_queue_whose_gate_closes_next(scene: Scene) -> None:
    peer = scene.join()
    for name, stop in (("far", 5_000), ("near", 300)):
        peer.declare(name, capacity_messages=10_000, stop_messages=stop, resume_messages=1)
    flow_map = FlowMap(scene.driver, None, False)
    scene.driver.stats.times.start(100.0)
    for slot in range(1, 16):
        for name in ("far", "near"):
            peer.say(publish(name, b"x") * 10)
        scene.at(100.0 + 5 * slot)
        scene.driver.stats.sample(scene.driver.connections)
    found = taken(flow_map)
    (near,) = [queue for queue in found["queues"] if queue["name"] == "near"]
    assert (found["nearest"], found["longest"]) == (near["id"], None)
    assert near["state"]["closes_in_s"] == 75.0
