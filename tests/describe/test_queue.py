"""Metrics of queues: their values are those of the deciding code."""

from __future__ import annotations

import pytest

from penstock.core.publish.credit_window import CreditWindow
from penstock.describe.gate import because, gate_row
from penstock.describe.metrics import Selection
from penstock.describe.queue import QUEUE, fill_percent, queue_row
from penstock.describe.session import consumer_row, producer_row
from penstock.describe.table import field_at, key_of, reading
from tests.support.blocked_producers import BlockedProducers
from tests.support.blocked_scene import GATED
from tests.support.broker_fixture import MIB, House
from tests.support.driven_connection import Dialogue, make_driver, publish, sampled
from tests.support.metrics import Samples, samples_of, scraped
from tests.support.sender_links import CHARGE, OCTETS, Link, run_until_quiet


def of_queue(samples: Samples, name: str, queue: str = "orders") -> float | None:
    return samples.get((name, f"queue={queue}", "vhost=/"))


def test_blocked_queue_shows_gate_producers_and_depth() -> None:
    rig = BlockedProducers()
    for _ in range(4):
        rig.do("publish", 0, "orders")
    rig.do("publish", 1, "orders")
    rig.do("publish", 2, "orders")
    rig.do("wait", 1, "")
    found = samples_of(scraped(rig.driver, Selection(100)))
    assert of_queue(found, "penstock_queue_gate_open") == 0
    assert of_queue(found, "penstock_queue_gate_open", "audit") == 1
    assert of_queue(found, "penstock_queue_depth_messages") == 5
    assert of_queue(found, "penstock_queue_capacity_messages") == 5
    assert of_queue(found, "penstock_queue_stop_messages") == 3
    assert of_queue(found, "penstock_queue_resume_messages") == 1
    assert of_queue(found, "penstock_queue_fill_ratio") == 1.0
    assert of_queue(found, "penstock_queue_gate_crossings_total") == 1
    assert of_queue(found, "penstock_queue_gate_closed_seconds_total") == 10
    assert of_queue(found, "penstock_queue_blocked_producers") == 3
    assert of_queue(found, "penstock_queue_producers_blocked_seconds_total") == 30
    assert of_queue(found, "penstock_queue_waiting_producers") == 1
    assert of_queue(found, "penstock_queue_publishes_held_total") == 1
    assert of_queue(found, "penstock_queue_confirms_withheld_total") == 2
    assert of_queue(found, "rabbitmq_queue_messages_ready") == 5
    assert of_queue(found, "rabbitmq_queue_messages_published_total") == 5


def test_queue_without_a_capacity_has_no_fill_and_infinite_limits() -> None:
    rig = BlockedProducers()
    rig.user.declare("wide")
    rig.driver.broker.vhosts["/"].queues["wide"].thresholds.capacity.messages = 1 << 62
    found = samples_of(scraped(rig.driver, Selection(100)))
    assert of_queue(found, "penstock_queue_capacity_messages", "wide") == float("inf")


def test_every_family_says_what_it_means_and_counters_end_with_total() -> None:
    names = [family.name for family in QUEUE.families]
    assert len(set(names)) == len(names)
    for family in QUEUE.families:
        assert family.help
        assert (family.kind == "counter") is family.name.endswith("_total"), family.name


NUMBERS = (
    *("messages", "messages_ready", "messages_unacknowledged", "consumers", "penstock.fill_percent"),
    *("penstock.gate.blocked", "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate"),
)


@pytest.mark.parametrize("path", NUMBERS)
def test_number_of_a_queue_is_that_of_its_row(path: str) -> None:
    client = Dialogue(make_driver())
    client.confirm()
    for name, count in (("none", 0), ("few", 2), ("many", 7)):
        client.declare(name, **GATED)
        client.say(publish(name, b"x") * count)
    client.declare("unbounded", capacity_messages="none", capacity_bytes="none")
    client.consume("few")
    sampled(client.driver, 1)
    client.say(publish("few", b"x") + publish("none", b"x"))
    sampled(client.driver, 2)
    number = QUEUE.number(path)
    assert number is not None
    for queue in client.driver.broker.vhosts["/"].queues.values():
        at = reading(client.driver)
        value = field_at(QUEUE.row(queue, at), path)
        assert field_at(QUEUE.row(queue, at, QUEUE.select([path])), path) == value
        found = key_of(number.value(queue, at))
        if value is None:
            assert found in ((0, ""), (1, 0.0))
        else:
            assert found == (1, pytest.approx(value, abs=0.001))


def test_view_of_a_queue_has_its_depth_its_thresholds_and_its_gate() -> None:
    house = House("a", capacity_messages=10, stop_messages=3, resume_messages=1)
    house.publish_now("a", 100, count=4)
    house.session.get(house.vhost.queue("a"), False, 100.0)
    view = queue_row(house.vhost.queue("a"), 101.0)
    assert view["depth"] == {"messages": 4, "bytes": 400}
    assert view["unacknowledged"] == {"messages": 1, "bytes": 100}
    assert (view["overflow"], view["fill_percent"], view["paged"], view["max_length"]) == ("block", 40.0, None, None)
    gate = view["gate"]
    assert (gate["kind"], gate["name"], gate["open"]) == ("queue", "a", False)


def test_view_of_a_fill_is_the_higher_of_messages_and_bytes() -> None:
    house = House("a", capacity_messages=10, capacity_bytes=1000)
    house.publish_now("a", 250)
    assert fill_percent(house.vhost.queue("a")) == 25.0
    house.queue("free", capacity_bytes="none")
    assert fill_percent(house.vhost.queue("free")) is None


def test_view_of_a_gate_names_the_producers_that_it_blocks() -> None:
    house = House("a", capacity_messages=2)
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=4)
    assert "p" in str(gate_row(house.vhost.queue("a").gate, 101.0))


def test_view_of_a_consumer_says_why_it_gets_nothing() -> None:
    from penstock.core.consume.consumer import Consumer

    house = House("a")
    consumer = Consumer("t", house.session, house.vhost.queue("a"), False, False, 1)
    house.broker.consume(house.session, consumer)
    house.publish_now("a", 100, count=2)
    house.broker.schedule_delivery(house.vhost.queue("a"))
    assert house.broker.next_batch() is not None
    assert "unacknowledged" in str(consumer_row(consumer, 101.0))


def test_view_of_a_link_has_its_credit_and_what_became_of_it() -> None:
    house = House("a", capacity_messages=100)
    link = Link(house, "a", window=CreditWindow(1000, MIB, OCTETS))
    run_until_quiet(house)
    link.send(5)
    link.credit.give_back(2)
    credit = producer_row(link.producer, 101.0)["credit"]
    assert (credit["granted"], credit["used"], credit["drained"], credit["credit"]) == (32, 5, 2, 25)
    assert credit["reserved"] == {"messages": 25, "bytes": 25 * CHARGE}
    assert credit["window"] == {"messages": 1000, "bytes": MIB}
    assert "credit" not in producer_row(house.producer("p"), 101.0)


def test_reason_of_a_link_without_credit_is_the_missing_room_or_its_turn() -> None:
    house = House("a", capacity_messages=4, stop_messages=4, resume_messages=4)
    house.publish_now("a", 100, count=4)
    links = [Link(house, "a") for _ in range(3)]
    run_until_quiet(house)
    gate = house.vhost.queues["a"].gate
    assert "no room for the next message; it waits for credit" in because(links[0].producer, gate, 101.0)
    assert "it waits for credit, 2 before it" in because(links[2].producer, gate, 101.0)
