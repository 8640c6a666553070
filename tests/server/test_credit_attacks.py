"""Granted credit of AMQP 1.0 that is never used: attackers beside publishers, on sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import ULONG, Symbol, Typed
from tests.support.amqp10_dialogue import data_section
from tests.support.amqp10_socket import SocketPeer
from tests.support.brokers import BrokerProcess, serving
from tests.support.pika_helpers import channel_of, declare

HUGE = 90_000_000
MESSAGES = 100
PLACES = 1000
LINKS = 1000
"""Links of one session; there may be 1,024."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with serving(tmp_path) as process:
        yield process


def attack(peer: SocketPeer, queue: str, links: int, octets: int = 0, first: int = 0) -> None:
    """Attach links that never send, and wait until the last one is attached."""
    more = {"properties": {Symbol("penstock:message-bytes"): Typed(ULONG, octets)}} if octets else {}
    for handle in range(first, first + links):
        peer.attach_sender(handle, composite(spec.TARGET, address=f"/queues/{queue}"), **more)
    while peer.await_one("attach").performative.number("handle", 0) != first + links - 1:
        pass


def publish_all(broker: BrokerProcess, queue: str, messages: int = MESSAGES) -> None:
    """Publish as pika does, with a confirm for each; a refusal raises."""
    with channel_of(broker, confirms=True) as channel:
        for number in range(messages):
            channel.basic_publish("", queue, str(number).encode(), mandatory=True)


def credit_of(peer: SocketPeer, handle: int) -> int:
    """Read until a link has credit, and return it."""
    while True:
        flow = peer.await_one("flow").performative
        if flow.number("handle", -1) == handle and flow.number("link_credit", 0) > 0:
            return int(flow.number("link_credit", 0))


def await_accepted(peer: SocketPeer, messages: int) -> None:
    """Read outcomes until so many messages are accepted."""
    while messages > 0:
        found = peer.await_one("disposition").performative
        assert getattr(found.fields["state"], "name", None) == "accepted"
        messages -= found.number("last", found.number("first", 0)) - found.number("first", 0) + 1


def test_credit_for_huge_messages_stops_no_publisher_at_the_node_or_its_queue(broker: BrokerProcess) -> None:
    declare(broker, "theirs", hold_deadline=1)
    declare(broker, "beside", hold_deadline=1)
    with SocketPeer(broker) as attacker:
        attack(attacker, "theirs", 12, HUGE)
        publish_all(broker, "beside")
        publish_all(broker, "theirs")
    assert broker.depth("beside") == MESSAGES
    assert broker.depth("theirs") == MESSAGES


@pytest.mark.parametrize("links", [2, LINKS])
def test_idle_links_leave_the_room_of_a_bounded_queue_to_publishers(broker: BrokerProcess, links: int) -> None:
    declare(broker, "q", hold_deadline=1, capacity_messages=PLACES)
    with SocketPeer(broker) as attacker, SocketPeer(broker) as honest:
        attack(attacker, "q", links, HUGE if links == 2 else 0)
        publish_all(broker, "q")
        honest.attach_sender(0, composite(spec.TARGET, address="/queues/q"))
        sent = 0
        while sent < MESSAGES:
            count = min(credit_of(honest, 0), MESSAGES - sent)
            honest.send(*(honest.transfer(0, data_section(b"x")) for _ in range(count)))
            await_accepted(honest, count)
            sent += count
        publish_all(broker, "q", PLACES // 2)
    assert broker.queue("q")["highest"]["messages"] <= PLACES


def test_links_that_come_again_and_again_leave_room_to_a_publisher_of_the_same_user(broker: BrokerProcess) -> None:
    declare(broker, "q", hold_deadline=1, capacity_messages=PLACES)
    with SocketPeer(broker) as attacker:
        for again in range(10):
            attack(attacker, "q", 100, first=100 * again)
            publish_all(broker, "q", PLACES // 20)
    assert broker.depth("q") == PLACES // 2
