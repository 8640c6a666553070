"""Targets of a transfer: addresses, shares in the depth of addresses, and why a message stays."""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from penstock.core.publish.transfer_targets import ADDRESSES_MAX, NOT_DEAD
from penstock.errors import AccessRefused, NotFound, PreconditionFailed
from tests.support.broker_fixture import House
from tests.support.dead_letters import Morgue
from tests.support.transfers import Moving, contents, put, to_exchange, to_queue, to_sources


def address(house: House) -> tuple[int, int]:
    """Return the messages and bytes in the depth of exchange in."""
    for gate in house.vhost.exchanges["in"].gates:
        measured = gate.measure()
        if gate.kind == "address" and measured is not None:
            return int(measured.messages), int(measured.bytes)
    raise AssertionError("exchange in has no depth")


def bounded() -> House:
    """Return a house whose exchange in has a depth, and leads to queue a."""
    house = House("a", "b")
    house.vhost.declare_exchange("in", "direct", {}, False, False, False)
    house.vhost.bind("in", house.vhost.queues["a"], None, "key", {})
    house.set("address", "in", capacity_messages=10)
    return house


def test_moved_message_counts_in_the_depth_of_its_address_until_it_leaves() -> None:
    house = bounded()
    house.published("p", "key", 100, exchange="in", count=2)
    assert address(house) == (2, 200)
    Moving(house, "a", to_queue(house, "b")).run()
    assert address(house) == (2, 200)
    house.take("b", 2)
    assert address(house) == (0, 0)


def test_copy_counts_once_in_the_depth_of_its_address() -> None:
    house = bounded()
    house.published("p", "key", 100, exchange="in")
    Moving(house, "a", to_queue(house, "b"), copies=True).run()
    assert address(house) == (1, 100)
    house.take("a")
    assert address(house) == (1, 100)
    house.take("b")
    assert address(house) == (0, 0)


def test_full_address_holds_a_move_to_its_exchange() -> None:
    house = bounded()
    house.queue("c")
    house.set("address", "in", capacity_messages=2)
    house.published("p", "key", 100, exchange="in")
    put(house, "c", b"1", b"2")
    moving = Moving(house, "c", to_exchange(house, "c", "in", "key"))
    moving.run()
    assert not moving.ended
    assert house.depth("a") == 2
    house.take("a", 2)
    moving.run()
    assert moving.ended
    assert house.depth("c") == 0


def test_move_to_an_exchange_reaches_all_its_queues() -> None:
    house = House("a", "b", "c")
    for name in ("b", "c"):
        house.vhost.bind("amq.fanout", house.vhost.queues[name], None, "", {})
    put(house, "a", b"1", priority=3)
    Moving(house, "a", to_exchange(house, "a", "amq.fanout", "new")).run()
    for name in ("b", "c"):
        message = house.vhost.queues[name].ready_queue.next()
        assert message is not None
        envelope = message.envelope
        assert (envelope.exchange, envelope.routing_key, int(envelope.priority)) == ("amq.fanout", "new", 3)


def test_expiration_of_a_message_begins_again_behind_an_exchange() -> None:
    house = House("a", "b")
    house.vhost.queues["a"].enqueue(Envelope("", "a", 0, 10.0), b"1", 100, house.broker.now)
    house.broker.begin(house.broker.now + 9)
    Moving(house, "a", to_exchange(house, "a", "", "b")).run()
    message = house.vhost.queues["b"].ready_queue.next()
    assert message is not None
    assert (message.envelope.ttl_s, message.arrived) == (10.0, house.broker.now)


def test_message_whose_route_leads_back_stays() -> None:
    house = House("a", "b")
    for name in ("a", "b"):
        house.vhost.bind("amq.fanout", house.vhost.queues[name], None, "", {})
    put(house, "a", b"1")
    moving = Moving(house, "a", to_exchange(house, "a", "amq.fanout", ""))
    moving.run()
    assert [key[0] for key in moving.left()] == ["exchange 'amq.fanout' with routing key '' leads back to queue 'a'"]
    assert (house.depth("a"), house.depth("b")) == (1, 0)


@pytest.mark.parametrize(
    ("exchange", "error"),
    [("none", NotFound), ("amq.direct", NotFound), ("inside", AccessRefused), ("penstock.control", PreconditionFailed)],
)
def test_exchange_that_takes_no_message_ends_the_move(exchange: str, error: type[Exception]) -> None:
    house = House("a")
    house.vhost.declare_exchange("inside", "fanout", {}, False, False, True)
    put(house, "a", b"1")
    moving = Moving(house, "a", to_exchange(house, "a", exchange, "key"))
    with pytest.raises(error):
        moving.run()
    assert house.depth("a") == 1


def dead(**arguments: object) -> Morgue:
    """Return a house of which queue dead has one dead letter of queue work."""
    house = Morgue(**arguments)
    house.queue("dead")
    house.put(b"1")
    house.deliver()
    house.reject(1)
    return house


@pytest.mark.parametrize("trusts", [False, True])
def test_message_that_never_died_stays(trusts: bool) -> None:
    house = House("dead")
    put(house, "dead", b"x")
    moving = Moving(house, "dead", to_sources(house, "dead", trusts))
    moving.run()
    assert moving.left() == {(NOT_DEAD, ""): 1}


def test_addresses_of_redriven_messages_are_shared_and_bounded() -> None:
    house = House("dead")
    targets = to_sources(house, "dead")
    letter = Envelope("", "dead", died=True)
    first = targets._address(letter, {"exchange": "in", "routing-keys": ["k"]})
    assert targets._address(letter, {"exchange": "in", "routing-keys": ["k"]}) is first
    for number in range(ADDRESSES_MAX):
        targets._address(letter, {"exchange": "in", "routing-keys": [str(number)]})
    assert len(targets._addresses) <= ADDRESSES_MAX


def test_entry_without_an_address_leaves_that_of_the_letter() -> None:
    targets = to_sources(House("dead"), "dead")
    envelope = targets._address(Envelope("dlx", "key", died=True), {})
    assert (envelope.exchange, envelope.routing_key) == ("dlx", "key")


def test_moved_dead_letter_keeps_its_deaths() -> None:
    house = dead()
    house.queue("b")
    Moving(house, "dead", to_queue(house, "b")).run()
    message = house.vhost.queues["b"].ready_queue.next()
    assert message is not None
    assert message.envelope.died
    assert message.content == b"1|work:rejected"
    assert contents(house, "dead") == []
