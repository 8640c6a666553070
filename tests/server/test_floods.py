"""Clients that request too much, or never read: memory stays bounded, and others are served meanwhile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pamqp import commands

from penstock.sync import connect
from tests.support.brokers import BrokerProcess, eventually, serving, some_name
from tests.support.raw_client import BODY, HEADER, METHOD, Peer, method_frame, open_peer, publish_frames, raw_frame

MIB = 1024 * 1024
DECLARES = 100_000
ANSWERS = 5
PART = 20_000
"""Frames after which an answer is awaited: the patience of a peer is for so many, not for a whole flood."""
FLOOD_S = 180.0
"""Patience with a flood: it is over in seconds on a machine that has time."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of its own, for its memory is looked at."""
    with serving(tmp_path_factory.mktemp("floods")) as process:
        with open_peer(process) as peer:  # Everything that is imported late has been, and buffers exist.
            queue = peer.declare()
            peer.say(publish_frames(1, "", queue, bytes(1000)) * 100)
            peer.ask(1, commands.Queue.Purge(queue=queue), commands.Queue.PurgeOk)
        yield process
        assert "Traceback" not in process.log()


class Pulse:
    """A neighbour that asks again and again, and counts its answers."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.asked = 0
        self._over = threading.Event()
        self._broker = broker

    def run(self) -> None:
        with open_peer(self._broker) as peer:
            while self.asked < ANSWERS or not self._over.is_set():
                assert peer.is_well()
                self.asked += 1
                self._over.wait(0.01)

    def end(self) -> None:
        self._over.set()


@contextmanager
def pulse(broker: BrokerProcess) -> Iterator[Pulse]:
    """Have a neighbour served while the context lasts, and in any case `ANSWERS` times."""
    neighbour = Pulse(broker)
    thread = threading.Thread(target=neighbour.run)
    thread.start()
    try:
        yield neighbour
    finally:
        neighbour.end()
        thread.join()
    assert neighbour.asked >= ANSWERS


def say_in_background(peer: Peer, data: bytes) -> threading.Thread:
    """Write while the caller reads, or does not; a socket that closes meanwhile ends it."""

    def write() -> None:
        try:
            peer.say(data)
        except OSError:
            return

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def say_many(peer: Peer, octets: bytes, count: int) -> None:
    """Say a frame so many times; channel 2, which is open, has to answer after each part."""
    for _ in range(count // PART):
        peer.say(octets * PART)
        assert peer.is_well(2)


@pytest.mark.slow
def test_100_000_declares_in_one_write_do_not_delay_other_clients(broker: BrokerProcess) -> None:
    before = broker.rss()
    with open_peer(broker) as peer, pulse(broker):
        declare = method_frame(1, commands.Queue.Declare(queue="", exclusive=True, auto_delete=True))
        delete = method_frame(1, commands.Queue.Delete(queue=""))
        writer = say_in_background(peer, (declare + delete) * (DECLARES // 2))
        expected = [b"\x00\x32\x00\x0b", b"\x00\x32\x00\x29"]  # queue.declare-ok, queue.delete-ok
        for number in range(DECLARES):
            kind, channel, payload = peer.read_frame()
            assert (kind, channel, payload[:4]) == (METHOD, 1, expected[number % 2])
        writer.join()
    assert broker.rss() - before < 64 * MIB


@pytest.mark.long
@pytest.mark.slow
def test_declares_without_end_meet_a_bound_that_names_itself(broker: BrokerProcess) -> None:
    with open_peer(broker) as peer, pulse(broker):
        declare = [commands.Queue.Declare(queue=f"flood-{n}", exclusive=True, nowait=True) for n in range(201_000)]
        writer = say_in_background(peer, b"".join(method_frame(1, each) for each in declare))
        closed = peer.expect(1, commands.Channel.Close, FLOOD_S)
        assert closed.reply_code == 506
        assert "has 200000 queues, the most it may have" in closed.reply_text
        writer.join()
    eventually(lambda: queues_of(broker) < 10, "the flood's queues are gone with their connection", FLOOD_S)


def queues_of(broker: BrokerProcess) -> int:
    """The queues of the broker; many while the bound refuses the reply queue of the one who asks."""
    from penstock.client.errors import ChannelClosed

    try:
        with connect(broker.url, protocol="amqp091") as control:
            return int(control.status()["queue_count"])
    except ChannelClosed:
        return 200_000


@pytest.mark.slow
def test_connection_with_thousands_of_bound_queues_ends_without_delaying_clients(broker: BrokerProcess) -> None:
    count = 3000
    with pulse(broker):
        with open_peer(broker) as peer:
            said = b""
            for n in range(count):
                name = f"bound-{n}"
                said += method_frame(1, commands.Queue.Declare(queue=name, exclusive=True, nowait=True))
                said += method_frame(
                    1, commands.Queue.Bind(queue=name, exchange="amq.topic", routing_key=f"k.{n}", nowait=True)
                )
            peer.say(said)
            assert peer.is_well()
        eventually(lambda: queues_of(broker) < 10, "its queues are gone", FLOOD_S)


@pytest.mark.long
@pytest.mark.slow
def test_crowd_of_200000_consumers_delays_no_newcomer(broker: BrokerProcess) -> None:
    channels, each = 20, 10_000
    names = [some_name("crowd") for _ in range(10)]
    with open_peer(broker) as onlooker, pulse(broker):
        for name in names:
            onlooker.ask(1, commands.Queue.Declare(queue=name), commands.Queue.DeclareOk)
        with open_peer(broker) as peer:
            for number in range(2, channels + 2):
                peer.channel(number)
                consume = [
                    commands.Basic.Consume(queue=names[tag % 10], consumer_tag=str(tag), nowait=True)
                    for tag in range(each)
                ]
                peer.say(b"".join(method_frame(number, method) for method in consume))
            eventually(lambda: consumed(onlooker, names) == [channels * each // 10] * 10, "all are there", FLOOD_S)
        with open_peer(broker) as newcomer:
            assert newcomer.is_well()
        eventually(lambda: consumed(onlooker, names) == [0] * 10, "all are gone", FLOOD_S)
        for name in names:
            onlooker.ask(1, commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)


def consumed(peer: Peer, names: list[str]) -> list[int]:
    """How many consumers queues have."""
    declared = [
        peer.ask(1, commands.Queue.Declare(queue=name, passive=True), commands.Queue.DeclareOk) for name in names
    ]
    return [found.consumer_count or 0 for found in declared]


def stored(broker: BrokerProcess, peer: Peer, size: int, count: int) -> str:
    """Fill a queue and return its name."""
    queue = some_name("deep")
    peer.ask(1, commands.Queue.Declare(queue=queue, auto_delete=True), commands.Queue.DeclareOk)
    peer.confirm()
    peer.say(publish_frames(1, "", queue, bytes(size)) * count)
    eventually(lambda: broker.depth(queue) == count, f"{count} messages in the queue")
    return queue


@pytest.mark.parametrize("no_ack", [False, True])
def test_consumer_that_never_reads_is_sent_no_more_than_buffers_hold(broker: BrokerProcess, no_ack: bool) -> None:
    with open_peer(broker) as publisher, open_peer(broker) as deaf, pulse(broker):
        queue = stored(broker, publisher, 16 * 1024, 2000)
        before = broker.rss()
        deaf.send(1, commands.Basic.Consume(queue=queue, no_ack=no_ack))

        def at_rest() -> bool:
            first = broker.queue(queue)
            time.sleep(0.2)  # Two looks some time apart; the state that counts is that nothing moved between them.
            second = broker.queue(queue)
            return first["depth"] == second["depth"] and first["unacknowledged"] == second["unacknowledged"]

        eventually(at_rest, "deliveries come to rest")
        left = broker.queue(queue)
        sent = left["unacknowledged"]["bytes"] if not no_ack else 2000 * 16 * 1024 - left["depth"]["bytes"]
        assert 0 < sent < 16 * MIB
        assert broker.rss() - before < 16 * MIB
    eventually(lambda: queues_of(broker) < 10, "the queue is gone with its last consumer")


def test_gets_without_end_by_a_client_that_never_reads_are_left_unread(broker: BrokerProcess) -> None:
    with open_peer(broker) as publisher, open_peer(broker) as deaf, pulse(broker):
        queue = stored(broker, publisher, 16 * 1024, 1000)
        before = broker.rss()
        get = method_frame(1, commands.Basic.Get(queue=queue, no_ack=False))
        writer = say_in_background(deaf, get * 200_000)
        eventually(lambda: broker.queue(queue)["unacknowledged"]["messages"] > 10, "some are got")
        for _ in range(20):
            assert broker.depth(queue) == 1000
            assert broker.rss() - before < 24 * MIB
        assert broker.queue(queue)["unacknowledged"]["bytes"] < 16 * MIB
        deaf.socket.shutdown(socket.SHUT_RDWR)
        writer.join()
        deaf.close()
        eventually(lambda: broker.queue(queue)["unacknowledged"]["messages"] == 0, "all of it goes back")
        assert broker.depth(queue) == 1000
        publisher.send(1, commands.Queue.Delete(queue=queue))


def test_answers_that_were_left_unread_all_come_when_the_client_reads_again(broker: BrokerProcess) -> None:
    count = 30_000
    with open_peer(broker) as slow:
        queue = slow.declare()
        writer = say_in_background(slow, method_frame(1, commands.Queue.Declare(queue=queue, passive=True)) * count)
        eventually(lambda: not writer.is_alive() or True, "writing")
        for _ in range(count):
            assert slow.expect(1, commands.Queue.DeclareOk).queue == queue
        writer.join()
        assert slow.is_well()


def test_body_of_empty_frames_without_end_takes_no_memory(broker: BrokerProcess) -> None:
    with open_peer(broker) as peer:
        peer.channel(2)
        before = broker.rss()
        peer.send(1, commands.Basic.Publish(routing_key="nowhere"))
        peer.say(raw_frame(HEADER, 1, b"\x00\x3c\x00\x00" + (10).to_bytes(8, "big") + b"\x00\x00"))
        say_many(peer, raw_frame(BODY, 1, b""), 1_000_000)
        peer.say(raw_frame(BODY, 1, bytes(10)))
        assert peer.is_well()
        assert broker.rss() - before < 8 * MIB


def test_message_in_tiny_frames_takes_no_more_memory_than_it_is_charged(broker: BrokerProcess) -> None:
    size, count = 1_000_000, 2
    with open_peer(broker) as peer:
        peer.channel(2)
        queue = peer.declare()
        before = broker.rss()
        for _ in range(count):
            peer.send(1, commands.Basic.Publish(routing_key=queue))
            peer.say(raw_frame(HEADER, 1, b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x00\x00"))
            say_many(peer, raw_frame(BODY, 1, b"x"), size)
        assert peer.is_well()
        assert peer.depth(queue) == count
        assert broker.rss() - before < count * size * 3


def test_channels_and_consumers_by_the_thousand_are_served(broker: BrokerProcess) -> None:
    with open_peer(broker) as peer, pulse(broker):
        queue = peer.declare()
        for number in range(2, 2048):
            peer.send(number, commands.Channel.Open())
        for number in range(2, 2048):
            peer.expect(number, commands.Channel.OpenOk)
            peer.send(number, commands.Basic.Consume(queue=queue, consumer_tag=f"c{number}", nowait=True))
        peer.say(publish_frames(1, "", queue, b"x") * 2046)
        seen = set()
        for _ in range(2046):
            kind, channel, _ = peer.read_frame()
            assert kind == METHOD
            seen.add(channel)
            assert [peer.read_frame()[0] for _ in range(2)] == [HEADER, BODY]
        assert len(seen) == 2046, "each in turn"


@pytest.mark.slow
def test_connections_by_the_hundred_come_and_go_without_a_trace(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:

        def round_of_many() -> None:
            peers = [Peer(broker) for _ in range(100)]
            for peer in peers:
                peer.open()
                peer.channel()
                queue = peer.declare()
                peer.say(publish_frames(1, "", queue, bytes(2000)))
            for peer in peers:
                peer.close()

        round_of_many()
        eventually(lambda: queues_of(broker) < 10, "the first hundred is gone")
        before = broker.rss()
        for _ in range(4):
            round_of_many()
        eventually(lambda: queues_of(broker) < 10, "all are gone")
        assert broker.rss() - before < 8 * MIB
