"""Addresses of queues, by the properties that a broker announces."""

from __future__ import annotations

import pytest

from penstock.client.engine.amqp10.addresses import address_of, capabilities_of, exchange_address_of
from penstock.client.engine.amqp10.connection import Engine10
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.errors import ClientError, LinkClosed
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_performative
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.neutral_writer import data_section
from tests.client.engine.dialogues import begin, opened_10, performative, released, said


@pytest.mark.parametrize(
    ("properties", "queue", "address"),
    [
        ({}, "orders", "orders"),
        ({"product": "Penstock", "version": "3.1"}, "a/b", "/queues/a%2Fb"),
        ({"product": "apache-activemq-artemis", "version": "2.44.0"}, "address::queue", "address::queue"),
        ({"product": "RabbitMQ", "version": "3.10.8"}, "orders", "/amq/queue/orders"),
        ({"product": "RabbitMQ", "version": "3.13.0"}, "a/b c%", "/amq/queue/a%2Fb%20c%25"),
        ({"product": "RabbitMQ", "version": "3.10.8"}, "/queue/orders", "/queue/orders"),
        ({"product": "RabbitMQ", "version": "4.1.0"}, "ü", "/queues/%C3%BC"),
        ({"product": "RabbitMQ", "version": "10.0.0"}, "orders", "/queues/orders"),
        ({"product": "RabbitMQ"}, "orders", "/queues/orders"),
    ],
)
def test_address_of_a_queue_follows_the_properties_of_the_broker(
    properties: dict[str, object], queue: str, address: str
) -> None:
    assert address_of(queue, properties) == address


@pytest.mark.parametrize(
    ("properties", "key", "address"),
    [
        ({"product": "Penstock"}, "a/b", "/exchanges/e%20x/a%2Fb"),
        ({"product": "RabbitMQ", "version": "4.1.0"}, None, "/exchanges/e%20x"),
        ({"product": "RabbitMQ", "version": "3.10.8"}, "a/b", "/exchange/e%20x/a%2Fb"),
        ({"product": "RabbitMQ", "version": "3.10.8"}, None, "/exchange/e%20x"),
    ],
)
def test_address_of_an_exchange_follows_the_properties_of_the_broker(
    properties: dict[str, object], key: str | None, address: str
) -> None:
    assert exchange_address_of("e x", key, properties) == address


def test_publisher_to_an_exchange_ends_at_a_broker_without_exchanges() -> None:
    engine = opened_10({"product": "apache-activemq-artemis"})
    publisher = engine.publisher(PublisherTerms(exchange="e", key="k"))
    with pytest.raises(LinkClosed, match="apache-activemq-artemis has no exchanges: name a queue or an address"):
        publisher.try_publish(b"x")


@pytest.mark.parametrize(
    ("queue", "capabilities"),
    [("orders", ["queue"]), ("a/b", ["queue"]), ("address::queue", []), ("/topic/orders", [])],
)
def test_terminus_of_a_queue_has_the_queue_capability(queue: str, capabilities: list[str]) -> None:
    assert capabilities_of(queue) == capabilities


PLACES = [
    (PublisherTerms(key="orders"), ["queue"]),
    (PublisherTerms(key="address::queue"), []),
    (PublisherTerms(exchange="e", key="k"), []),
    (PublisherTerms(exchange="e"), []),
    (PublisherTerms(), []),
]


@pytest.mark.parametrize(("terms", "capabilities"), PLACES)
def test_target_of_a_publisher_has_the_capability_of_a_queue(terms: PublisherTerms, capabilities: list[str]) -> None:
    engine = opened_10()
    engine.publisher(terms)
    target = attached(released(engine)).inner("target")
    assert target is not None
    assert target.texts("capabilities") == capabilities


def test_target_of_calls_has_the_address_and_the_capability_of_a_queue() -> None:
    engine = opened_10()
    next(engine.services.requester(engine, "", "orders").calling(b"x"))
    target = attached(released(engine)).inner("target")
    assert target is not None
    assert (target.text("address"), target.texts("capabilities")) == ("orders", ["queue"])


def attached(octets: bytes) -> Composite:
    """Return the first attach among frames."""
    at = 0
    while at < len(octets):
        size = int.from_bytes(octets[at : at + 4], "big")
        found = decode_performative(octets[at + 8 : at + size])[0]
        if found.code == spec.ATTACH:
            return found
        at += size
    raise AssertionError("no attach was written")


def services(engine: Engine10) -> dict[str, bool]:
    """Return which requests an engine sends, by name; the others fail at once with the name of the broker."""
    found = {}
    for name, steps in (
        ("declare", engine.calling("queue.declare", {"queue": "q", "arguments": {}})),
        ("purge", engine.calling("queue.purge", {"queue": "q"})),
        ("why", engine.requesting("why", {"queue": "q"})),
    ):
        try:
            next(steps)
        except ClientError as error:
            found[name] = str(engine.server.get("product") or "this broker") not in str(error)
        else:
            found[name] = True
    return found


BROKERS = [
    ({"product": "Penstock"}, (True, True, True)),
    ({"product": "RabbitMQ", "version": "4.1.0"}, (True, True, False)),
    ({"product": "RabbitMQ", "version": "3.13.0"}, (False, False, False)),
    ({"product": "apache-activemq-artemis"}, (False, False, False)),
    ({"product": "qpid-cpp"}, (False, False, False)),
    ({}, (False, False, False)),
]


@pytest.mark.parametrize(("server", "known"), BROKERS)
def test_request_that_a_broker_does_not_have_fails_at_once(server: dict[str, object], known: tuple[bool, ...]) -> None:
    assert tuple(services(opened_10(server)).values()) == known


@pytest.mark.parametrize("window", [-1, 64 * 1024])
def test_aborted_deliveries_do_not_use_up_the_credit_of_a_receiver(window: int) -> None:
    engine = opened_10()
    receiver = engine.receiver(ReceiverTerms(queue="q", window_bytes=window, prefetch=4))
    released(engine)
    begin(engine)
    attach = {"name": "receiver-1", "handle": 0, "role": False, "initial_delivery_count": 0}
    said(engine, performative(spec.ATTACH, **attach, source=composite(spec.SOURCE, address="q")))
    for number in range(100):
        assert receiver.credit > 0
        fields = {"handle": 0, "delivery_id": number, "delivery_tag": b"t", "aborted": True}
        said(engine, performative(spec.TRANSFER, **fields))


@pytest.mark.parametrize("size", [1, 1000, 65_536, 200_000])
def test_window_of_a_consumer_is_kept_by_credit_at_other_brokers(size: int) -> None:
    engine = opened_10()
    window = 256 * 1024
    receiver = engine.receiver(ReceiverTerms(queue="q", window_bytes=window))
    released(engine)
    begin(engine)
    source = composite(spec.SOURCE, address="q")
    attach = {"name": "receiver-1", "handle": 0, "role": False, "initial_delivery_count": 0}
    said(engine, performative(spec.ATTACH, **attach, source=source))
    number = 0
    most = 0
    for _ in range(300):
        while receiver.credit > 0 and number < 5000:
            fields = {"handle": 0, "delivery_id": number, "delivery_tag": b"t", "settled": False}
            octets = performative(spec.TRANSFER, **fields)[8:] + data_section(bytes(size))
            said(engine, frame(0, octets))
            number += 1
            most = max(most, sum(len(each.body) for each in receiver.ready))
        message = receiver.take_now()
        if message is None:
            break
        message.accept()
        released(engine)
    assert most <= max(window, size)
    assert number > 300 or size == 1
