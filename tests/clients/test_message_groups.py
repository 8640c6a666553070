"""Message groups with pika and Proton: one consumer at a time, in order, whatever consumers do."""

from __future__ import annotations

import socket
from collections import defaultdict
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, some_name

pytestmark = pytest.mark.clients

GROUPED: dict[str, Any] = {"group-by": "group-id", "x-expires": 600_000}


class Worker:
    """A consumer of a channel of its own that remembers its deliveries and acknowledges when told."""

    def __init__(self, connection: pika.BlockingConnection, queue: str, prefetch: int) -> None:
        self.connection = connection
        self.channel: BlockingChannel = connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.got: list[tuple[int, str]] = []
        """Delivery tags and bodies that are not settled."""
        self.all: list[str] = []
        self.tag = self.channel.basic_consume(queue, self._take)

    def _take(self, _: BlockingChannel, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
        self.got.append((method.delivery_tag, body.decode()))
        self.all.append(body.decode())

    def acknowledge(self) -> None:
        for tag, _ in self.got:
            self.channel.basic_ack(tag)
        self.got = []

    def synchronize(self) -> None:
        """Let whatever was under way come."""
        self.channel.basic_qos(prefetch_count=0, global_qos=True)
        self.connection.process_data_events(0)


def publish(channel: BlockingChannel, queue: str, groups: list[str], count: int) -> None:
    channel.confirm_delivery()
    for number in range(count):
        for group in groups:
            properties = pika.BasicProperties(headers={"JMSXGroupID": group} if group else None)
            channel.basic_publish("", queue, f"{group}-{number}".encode(), properties)


def groups_of(worker: Worker) -> set[str]:
    return {body.partition("-")[0] for _, body in worker.got}


def test_groups_are_divided_among_consumers_and_keep_their_order(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments=GROUPED)
    workers = [Worker(connection, name, 4) for _ in range(3)]
    publish(channel, name, list("abcdefg"), 20)
    order: dict[str, list[int]] = defaultdict(list)
    total = 0
    while total < 140:
        for worker in workers:
            worker.synchronize()
        for one in workers:
            for other in workers:
                assert one is other or not groups_of(one) & groups_of(other), "a group has one consumer"
        assert any(worker.got for worker in workers)
        for worker in workers:
            for _, body in worker.got:
                group, _, number = body.partition("-")
                order[group].append(int(number))
                total += 1
            worker.acknowledge()
    assert order == {group: list(range(20)) for group in "abcdefg"}
    assert all(worker.all for worker in workers)


def test_group_of_a_lost_connection_is_delivered_again_in_order(
    broker: BrokerProcess, connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments=GROUPED)
    lost = pika.BlockingConnection(pika.URLParameters(broker.url))
    first = Worker(lost, name, 5)
    publish(channel, name, ["a"], 10)
    eventually(lambda: lost.process_data_events(0) or len(first.got) == 5, "five deliveries")
    second = Worker(connection, name, 10)
    second.synchronize()
    assert second.got == []
    lost._impl._transport._sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        lost.process_data_events(PATIENCE)
    eventually(lambda: connection.process_data_events(0) or len(second.got) == 10, "the whole group")
    assert second.all == [f"a-{number}" for number in range(10)]


def test_nacked_message_comes_again_before_later_ones(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments=GROUPED)
    publish(channel, name, ["a", "b"], 3)
    worker, other = Worker(connection, name, 1), Worker(connection, name, 1)
    eventually(lambda: connection.process_data_events(0) or (worker.got and other.got), "a delivery to each")
    for each in (worker, other):
        each.channel.basic_nack(each.got.pop()[0], requeue=True)
    bodies: dict[str, list[str]] = defaultdict(list)
    for _ in range(6):
        for each in (worker, other):
            each.synchronize()
            for _, body in each.got:
                bodies[body[0]].append(body)
            each.acknowledge()
    assert bodies == {"a": ["a-0", "a-1", "a-2"], "b": ["b-0", "b-1", "b-2"]}


def test_get_leaves_the_groups_of_others_alone(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments=GROUPED)
    publish(channel, name, ["a", "a", "b", ""], 1)
    worker = Worker(connection, name, 1)
    eventually(lambda: connection.process_data_events(0) or worker.got, "a delivery")
    assert [channel.basic_get(name)[2] for _ in range(3)] == [b"b-0", b"-0", None]
    worker.channel.basic_cancel(worker.tag)
    assert channel.basic_get(name)[2] is None
    worker.acknowledge()
    worker.synchronize()
    assert channel.basic_get(name)[2] == b"a-0"


def test_group_may_be_a_header_of_any_name(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"qpid.group_header_key": "customer", "x-expires": 600_000})
    channel.confirm_delivery()
    for value in (7, "7", {"a": 1}, {"a": 1}):
        channel.basic_publish("", name, repr(value).encode(), pika.BasicProperties(headers={"customer": value}))
    one, other = Worker(connection, name, 1), Worker(connection, name, 0)
    eventually(lambda: connection.process_data_events(0) or len(one.all + other.all) == 3, "three deliveries")
    for each in (one, other):
        each.synchronize()
    assert one.all == ["7"]
    assert sorted(other.all) == ["{'a': 1}", "{'a': 1}"], "a number and its text are one group; a table is none"


def test_selector_of_a_grouped_queue_is_refused_over_amqp_10(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    from proton.reactor import Selector
    from proton.utils import BlockingConnection, LinkDetached

    channel.queue_declare(name, arguments=GROUPED)
    client = BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE)
    with pytest.raises(LinkDetached, match="a selector or no-local is not supported"):
        client.create_receiver(f"/queues/{name}", options=Selector("a = 1"))
    client.close()


def test_group_id_of_amqp_10_has_one_receiver(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    from proton.utils import BlockingConnection

    channel.queue_declare(name, arguments=GROUPED)
    client = BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE)
    sender = client.create_sender(f"/queues/{name}")
    for number in range(4):
        for group in ("a", "b"):
            sender.send(proton.Message(body=f"{group}{number}", group_id=group))
    first = client.create_receiver(f"/queues/{name}", credit=1, name=some_name("link"))
    assert first.receive().body == "a0"
    second = client.create_receiver(f"/queues/{name}", credit=10, name=some_name("link"))
    assert [second.receive().body for _ in range(4)] == ["b0", "b1", "b2", "b3"]
    first.close()
    assert [second.receive().body for _ in range(4)] == ["a0", "a1", "a2", "a3"], "released, and in order"
    client.close()
