"""Exchanges by hash or by chance with pika and Proton, over HTTP, in definitions of RabbitMQ."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import PATIENCE, BrokerProcess

pytestmark = pytest.mark.clients

KEYS = [f"customer-{number}" for number in range(60)]


def declare(channel: BlockingChannel, name: str, kind: str, arguments: dict[str, object] | None = None) -> list[str]:
    """Declare an exchange with three queues; return their names."""
    channel.exchange_declare(name, kind, arguments=arguments, durable=True)
    queues = [f"{name}-{number}" for number in range(3)]
    for queue in queues:
        channel.queue_declare(queue, durable=True, arguments={"x-expires": 600_000})
        channel.queue_bind(queue, name, "10")
    channel.confirm_delivery()
    return queues


def taken(channel: BlockingChannel, queues: list[str]) -> dict[str, list[str]]:
    """Take all messages of the queues; return the bodies by queue."""
    found: dict[str, list[str]] = defaultdict(list)
    for queue in queues:
        while True:
            _, _, body = channel.basic_get(queue, auto_ack=True)
            if body is None:
                break
            found[queue].append(body.decode())
    return found


def places(found: dict[str, list[str]]) -> dict[str, set[str]]:
    """Return the queues that messages with the same body got into."""
    where: dict[str, set[str]] = defaultdict(set)
    for queue, bodies in found.items():
        for body in bodies:
            where[body].add(queue)
    return where


def test_messages_of_one_key_have_one_queue(channel: BlockingChannel, name: str) -> None:
    queues = declare(channel, name, "x-consistent-hash")
    for body in KEYS * 3:
        channel.basic_publish(name, body, body.encode(), mandatory=True)
    found = taken(channel, queues)
    assert sum(len(bodies) for bodies in found.values()) == 3 * len(KEYS)
    assert len(found) == 3
    assert all(len(where) == 1 for where in places(found).values())
    channel.exchange_delete(name)


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({"hash-header": "customer"}, lambda key: pika.BasicProperties(headers={"customer": key})),
        ({"hash-property": "message_id"}, lambda key: pika.BasicProperties(message_id=key)),
        ({"hash-property": "correlation_id"}, lambda key: pika.BasicProperties(correlation_id=key)),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
def test_messages_of_one_header_or_property_have_one_queue(
    channel: BlockingChannel, name: str, arguments: dict[str, object], properties: object
) -> None:
    assert callable(properties)
    queues = declare(channel, name, "x-consistent-hash", arguments)
    for number, body in enumerate(KEYS * 3):
        channel.basic_publish(name, str(number), body.encode(), properties(body), mandatory=True)
    found = taken(channel, queues)
    assert len(found) == 3
    assert all(len(where) == 1 for where in places(found).values())
    channel.exchange_delete(name)


def test_random_exchange_spreads_messages_of_one_key(channel: BlockingChannel, name: str) -> None:
    queues = declare(channel, name, "x-random")
    for number in range(90):
        channel.basic_publish(name, "same", str(number).encode(), mandatory=True)
    counts = Counter({queue: len(bodies) for queue, bodies in taken(channel, queues).items()})
    assert counts.total() == 90
    assert min(counts[queue] for queue in queues) >= 10
    channel.exchange_delete(name)


@pytest.mark.parametrize("key", ["0", "-3", "heavy", str(2**40)])
def test_binding_without_a_weight_closes_the_channel(channel: BlockingChannel, name: str, key: str) -> None:
    declare(channel, name, "x-consistent-hash")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="it is the weight, a whole number from 1") as told:
        channel.queue_bind(f"{name}-0", name, key)
    assert told.value.reply_code == 406


def test_full_queue_holds_the_keys_of_its_share_alone(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "x-consistent-hash", auto_delete=True)
    for queue in ("a", "b"):
        terms = {"capacity-messages": 5, "hold-deadline": "1ms", "x-expires": 600_000}
        channel.queue_declare(f"{name}-{queue}", arguments=terms)
        channel.queue_bind(f"{name}-{queue}", name, "1")
    channel.confirm_delivery()
    publish = partial(channel.basic_publish, name, body=b"x", mandatory=True)
    for _ in range(4):
        publish(routing_key=KEYS[0])
    with pytest.raises(pika.exceptions.NackError):
        publish(routing_key=KEYS[0])
    counts = {queue: channel.queue_declare(f"{name}-{queue}", passive=True).method.message_count for queue in "ab"}
    (free,) = (queue for queue, count in counts.items() if count == 0)
    for other in KEYS[1:]:  # One of these has the other queue; the first that enters there ends the loop.
        try:
            publish(routing_key=other)
        except pika.exceptions.NackError:
            continue
        break
    assert channel.queue_declare(f"{name}-{free}", passive=True).method.message_count == 1


def test_sender_of_amqp_10_publishes_by_subject_and_property(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    from proton.utils import BlockingConnection

    by_key = declare(channel, name, "x-consistent-hash")
    by_id = declare(channel, f"{name}-id", "x-consistent-hash", {"hash-property": "message_id"})
    client = BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE)
    for exchange in (name, f"{name}-id"):
        sender = client.create_sender(f"/exchanges/{exchange}")
        for body in KEYS * 2:
            sender.send(proton.Message(body=body.encode(), inferred=True, subject=body, id=body))
    client.close()
    for queues in (by_key, by_id):
        found = taken(channel, queues)
        assert sum(len(bodies) for bodies in found.values()) == 2 * len(KEYS)
        assert all(len(where) == 1 for where in places(found).values())
    channel.exchange_delete(name)
    channel.exchange_delete(f"{name}-id")
