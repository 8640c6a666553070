"""What a queue's row says of all gates that hold its publishes."""

from __future__ import annotations

import pytest

from penstock.core.queue.queue import Queue
from penstock.describe.road import BINDINGS_MOST, road_of
from tests.support.broker_fixture import House


@pytest.fixture
def house() -> House:
    house = House("orders", capacity_messages=10, stop_messages=3, resume_messages=1)
    house.vhost.declare_exchange("logs", "topic", {}, False, False, False)
    house.vhost.bind("logs", house.vhost.queue("orders"), None, "eu", {})
    return house


def queue_of(house: House) -> Queue:
    return house.vhost.queue("orders")


def held_by(house: House) -> str | None:
    return road_of(queue_of(house), house.broker).held_by()


def test_open_road_is_held_by_nothing(house: House) -> None:
    assert road_of(queue_of(house), house.broker).row(5.0) == {
        "open": True, "held_by": None, "closed_for_s": None, "blocked": 0
    }  # fmt: skip


def test_full_queue_holds_its_road(house: House) -> None:
    house.publish_now("orders", 100, count=4)
    assert held_by(house) == "own"


@pytest.mark.parametrize(
    ("scope", "vhost", "name", "word"),
    [
        ("queue", "/", "orders", "operator"),
        ("vhost", "/", "/", "operator"),
        ("address", "/", "logs", "exchange"),
        ("address", "/", "", "exchange"),
    ],
)
def test_operator_holds_the_road_of_a_queue(house: House, scope: str, vhost: str, name: str, word: str) -> None:
    house.broker.gates.block(scope, vhost, name, "upgrade")
    house.broker.now += 3.0
    row = road_of(queue_of(house), house.broker).row(house.broker.now)
    assert (row["open"], row["held_by"], row["closed_for_s"]) == (False, word, 3.0)
    house.broker.gates.unblock(scope, vhost, name)
    assert held_by(house) is None


def test_bound_of_a_virtual_host_of_an_address_and_of_the_memory_hold_the_road(house: House) -> None:
    house.publish_now("orders", 100, count=2)
    house.vhost.declare_queue("other", {}, False, False, None, None)
    for scope, name, settings, word in (
        ("vhost", "/", {"capacity_bytes": 250, "stop_bytes": 150, "resume_bytes": 10}, "virtual host"),
        ("broker", "", {"memory_capacity": 250, "memory_stop": 150, "memory_resume": 10}, "memory"),
    ):
        house.set(scope, name, **settings)
        assert held_by(house) == word
        house.set(scope, name, **dict.fromkeys(settings, "none"))


def test_bound_of_an_exchange_holds_the_road_of_its_queues(house: House) -> None:
    house.set("address", "logs", capacity_messages=3, stop_messages=1, resume_messages=0)
    house.published("p", "eu", 100, exchange="logs", count=2)
    assert held_by(house) == "address"


def test_exchange_that_is_bound_to_another_queue_holds_nothing_here(house: House) -> None:
    house.vhost.declare_exchange("news", "topic", {}, False, False, False)
    house.broker.gates.block("address", "/", "news", "")
    assert held_by(house) is None


def test_own_gate_is_named_before_other_gates_and_the_longest_closing_counts(house: House) -> None:
    house.publish_now("orders", 100, count=4)
    house.broker.now += 2.0
    house.broker.gates.block("queue", "/", "orders", "")
    road = road_of(queue_of(house), house.broker)
    assert [gate.kind for gate in road.closed] == ["queue", "operator"]
    assert (road.held_by(), road.row(house.broker.now)["closed_for_s"]) == ("own", 2.0)


def test_producers_that_any_gate_of_the_road_blocks_are_counted(house: House) -> None:
    house.broker.gates.block("address", "/", "logs", "")
    for name in ("p1", "p2"):
        house.published(name, "eu", 100, exchange="logs")
    assert road_of(queue_of(house), house.broker).blocked == 2


def test_queue_below_its_guaranteed_share_is_not_held_by_the_memory(house: House) -> None:
    house.set("broker", "", memory_capacity=1_000_000, memory_stop=10, memory_resume=5)
    house.publish_now("orders", 100)
    memory = house.broker.gates.memory
    assert memory is not None
    assert not memory.gate.open
    assert queue_of(house).bytes < memory.gate.guaranteed_bytes
    assert held_by(house) is None


def bind_exchange(house: House, source: str, destination: str) -> None:
    for name in (source, destination):
        if name not in house.vhost.exchanges:
            house.vhost.declare_exchange(name, "topic", {}, False, False, False)
    house.vhost.bind(source, None, house.vhost.exchange(destination), "#", {})


def test_exchange_that_leads_to_the_queue_through_others_holds_its_road(house: House) -> None:
    for source, destination in (("all", "logs"), ("world", "all"), ("logs", "world")):  # The last one closes a circle.
        bind_exchange(house, source, destination)
    house.broker.gates.block("address", "/", "world", "")
    assert held_by(house) == "exchange"
    house.broker.gates.unblock("address", "/", "world")
    bind_exchange(house, "logs", "elsewhere")
    house.broker.gates.block("address", "/", "elsewhere", "")
    assert held_by(house) is None


def test_row_looks_at_a_bounded_number_of_bindings(house: House) -> None:
    """Of more bindings than that the later ones are not seen."""
    house.vhost.declare_exchange("more", "topic", {}, False, False, False)
    house.broker.gates.block("address", "/", "more", "")
    for number in range(BINDINGS_MOST - 2):
        house.vhost.bind("logs", queue_of(house), None, f"k{number}", {})
    house.vhost.bind("more", queue_of(house), None, "last seen", {})
    assert held_by(house) == "exchange"
    bind_exchange(house, "far", "logs")
    house.broker.gates.block("address", "/", "far", "")
    assert [gate.name for gate in road_of(queue_of(house), house.broker).closed] == ["address more"]
