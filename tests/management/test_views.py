"""Objects of the broker as plain data."""

from __future__ import annotations

from penstock.core.publish.credit_window import CreditWindow
from penstock.management.gate_descriptions import because
from penstock.management.views import consumer_view, fill_percent, gate_view, producer_view, queue_view
from tests.support.broker_fixture import MIB, House
from tests.support.sender_links import CHARGE, OCTETS, Link, run_until_quiet


def test_view_of_a_queue_has_its_depth_its_thresholds_and_its_gate() -> None:
    house = House()
    house.queue("a", capacity_messages=10, stop_messages=3, resume_messages=1)
    for _ in range(4):
        house.publish_now("a", 100)
    house.session.get(house.vhost.queue("a"), False, 100.0)
    view = queue_view(house.vhost.queue("a"), 101.0)
    assert view["depth"] == {"messages": 4, "bytes": 400}
    assert view["unacknowledged"] == {"messages": 1, "bytes": 100}
    assert (view["overflow"], view["fill_percent"], view["paged"], view["max_length"]) == ("block", 40.0, None, None)
    gate = view["gate"]
    assert isinstance(gate, dict)
    assert (gate["kind"], gate["name"], gate["open"]) == ("queue", "a", False)


def test_view_of_a_fill_is_the_higher_of_messages_and_bytes() -> None:
    house = House()
    house.queue("a", capacity_messages=10, capacity_bytes=1000)
    house.publish_now("a", 250)
    assert fill_percent(house.vhost.queue("a")) == 25.0
    house.queue("free", capacity_bytes="none")
    assert fill_percent(house.vhost.queue("free")) is None


def test_view_of_a_gate_names_the_producers_that_it_blocks() -> None:
    house = House()
    house.queue("a", capacity_messages=2)
    producer = house.producer("p")
    for _ in range(4):
        house.publish(producer, "a", 100)
    assert "p" in str(gate_view(house.vhost.queue("a").gate, 101.0))


def test_view_of_a_consumer_says_why_it_gets_nothing() -> None:
    from penstock.core.consume.consumer import Consumer

    house = House()
    house.queue("a")
    consumer = Consumer("t", house.session, house.vhost.queue("a"), False, False, 1)
    house.broker.consume(house.session, consumer)
    for _ in range(2):
        house.publish_now("a", 100)
    house.broker.schedule_delivery(house.vhost.queue("a"))
    assert house.broker.next_batch() is not None
    assert "unacknowledged" in str(consumer_view(consumer, 101.0))


def test_view_of_a_link_has_its_credit_and_what_became_of_it() -> None:
    house = House()
    house.queue("a", capacity_messages=100)
    link = Link(house, "a", window=CreditWindow(1000, MIB, OCTETS))
    run_until_quiet(house)
    link.send(5)
    link.credit.give_back(2)
    credit = producer_view(link.producer, 101.0)["credit"]
    assert isinstance(credit, dict)
    assert (credit["granted"], credit["used"], credit["drained"], credit["credit"]) == (32, 5, 2, 25)
    assert credit["reserved"] == {"messages": 25, "bytes": 25 * CHARGE}
    assert credit["window"] == {"messages": 1000, "bytes": MIB}
    assert "credit" not in producer_view(house.producer("p"), 101.0)


def test_reason_of_a_link_without_credit_is_the_missing_room_or_its_turn() -> None:
    house = House()
    house.queue("a", capacity_messages=4, stop_messages=4, resume_messages=4)
    for _ in range(4):
        house.publish_now("a", 100)
    links = [Link(house, "a") for _ in range(3)]
    run_until_quiet(house)
    gate = house.vhost.queues["a"].gate
    assert "no room for the next message; it waits for credit" in because(links[0].producer, gate, 101.0)
    assert "it waits for credit, 2 before it" in because(links[2].producer, gate, 101.0)
