"""Rotation of consumers: whose turn is next."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import eventually
from tests.support.raw_client import Peer, publish_frames

pytestmark = pytest.mark.clients


class Audience:
    """Consumers of one queue, and who got what."""

    def __init__(self, connection: pika.BlockingConnection, queue: str) -> None:
        self.connection = connection
        self.channel: BlockingChannel = connection.channel()
        self.queue = queue
        self.channel.queue_declare(queue, exclusive=True)
        self.seen: list[str] = []

    def joins(self, *tags: str) -> None:
        def note(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
            self.seen.append(method.consumer_tag)

        for tag in tags:
            self.channel.basic_consume(self.queue, note, auto_ack=True, consumer_tag=tag)

    def hears(self, count: int) -> list[str]:
        """Publish one message after the other, each when the one before has come; who got them."""
        for _ in range(count):
            before = len(self.seen)
            self.channel.basic_publish("", self.queue, b"x")
            eventually(
                lambda before=before: self.connection.process_data_events(0) or len(self.seen) > before,  # type: ignore[misc]
                "the message came",
            )
        return self.seen[-count:]


@pytest.fixture
def audience(connection: pika.BlockingConnection, name: str) -> Audience:
    return Audience(connection, name)


def test_queue_goes_round_its_consumers(audience: Audience) -> None:
    audience.joins("a", "b", "c")
    assert audience.hears(6) == list("abcabc")


def test_later_consumer_gets_its_turn_after_earlier_consumers(audience: Audience) -> None:
    audience.joins("a")
    audience.hears(1)
    audience.joins("b")
    assert audience.hears(3) == list("aba")


def test_consumer_that_joins_within_a_round_is_last_in_turn(audience: Audience) -> None:
    audience.joins("a", "b")
    audience.hears(1)
    audience.joins("c")
    assert audience.hears(6) == list("bacbac")


def test_cancelled_consumer_costs_no_turn_of_other_consumers(audience: Audience) -> None:
    audience.joins("a", "b", "c")
    audience.hears(2)
    audience.channel.basic_cancel("a")
    assert audience.hears(3) == list("cbc")


class Shared:
    """One channel that consumes from several full queues with a prefetch, and acknowledges one message at a time."""

    def __init__(self, peer: Peer, queues: int, prefetch: int, globally: bool) -> None:
        self.peer = peer
        names = [peer.declare() for _ in range(queues)]
        for name in names:
            peer.say(b"".join(publish_frames(1, "", name, b"x") for _ in range(20)))
        peer.ask(1, commands.Basic.Qos(prefetch_count=prefetch, global_=globally), commands.Basic.QosOk)
        for number, name in enumerate(names):
            consume = commands.Basic.Consume(queue=name, consumer_tag=str(number))
            peer.send(1, consume)
            peer.send(1, commands.Queue.Declare(queue=name, passive=True))
        self.seen: list[str] = []
        answers = 0
        while answers < 2 * queues:
            answers += not self.hears()
        self.acknowledged = 0

    def hears(self) -> bool:
        """Take the next frame in; whether it was a delivery."""
        method = self.peer.read_method()[1]
        if isinstance(method, commands.Basic.Deliver):
            self.peer.content()
            self.seen.append(method.consumer_tag or "")
            return True
        return False

    def goes_on(self, count: int) -> None:
        """Acknowledge the oldest, and hear what comes for it, so many times."""
        for _ in range(count):
            while len(self.seen) == self.acknowledged:
                assert self.hears()
            self.acknowledged += 1
            self.peer.send(1, commands.Basic.Ack(self.acknowledged))


@pytest.mark.parametrize("globally", [True, False])
@pytest.mark.parametrize("prefetch", [1, 2])
def test_queues_of_one_channel_share_its_deliveries(peer: Peer, prefetch: int, globally: bool) -> None:
    shared = Shared(peer, 3, prefetch, globally)
    shared.goes_on(30)
    counts = [shared.seen[:30].count(tag) for tag in "012"]
    assert min(counts) >= 6, f"of 30 deliveries {counts}"


def test_global_prefetch_also_holds_consumers_without_acknowledgements(peer: Peer) -> None:
    acknowledged, held = peer.declare(), peer.declare()
    peer.ask(1, commands.Basic.Qos(prefetch_count=1, global_=True), commands.Basic.QosOk)
    peer.say(publish_frames(1, "", acknowledged, b"a"))
    peer.ask(1, commands.Basic.Consume(queue=acknowledged, consumer_tag="a"), commands.Basic.ConsumeOk)
    assert peer.expect(1, commands.Basic.Deliver).consumer_tag == "a"
    peer.content()
    peer.ask(1, commands.Basic.Consume(queue=held, consumer_tag="b", no_ack=True), commands.Basic.ConsumeOk)
    peer.say(b"".join(publish_frames(1, "", held, b"b") for _ in range(3)))
    for _ in range(2):  # Nothing goes out while the channel has all that it may have.
        peer.ask(1, commands.Queue.Declare(queue=held, passive=True), commands.Queue.DeclareOk)
    peer.send(1, commands.Basic.Ack(1))
    for _ in range(3):  # Those without acknowledgements count for nothing, so all of them go out now.
        assert peer.expect(1, commands.Basic.Deliver).consumer_tag == "b"
        peer.content()
