"""Qpid Proton over AMQP 1.0, as applications use it: outcomes, browsing, selectors, subscriptions, drain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import PATIENCE, BrokerProcess, some_name

pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")

import proton
from proton.reactor import Container, Copy, DurableSubscription, Selector
from proton.utils import BlockingConnection, LinkDetached, SendException

pytestmark = pytest.mark.clients

EXPIRES = {"x-expires": 600_000}


@pytest.fixture
def blocking(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    found = BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE)
    yield found
    found.close()


@pytest.fixture
def queue(connection: pika.BlockingConnection, channel: BlockingChannel, name: str) -> str:
    channel.queue_declare(name, arguments=EXPIRES)
    return name


def send(blocking: BlockingConnection, address: str, *bodies: object, **options: Any) -> None:
    sender = blocking.create_sender(address)
    for body in bodies:
        sender.send(proton.Message(body=body, **options))
    sender.close()


def body_of(message: Any) -> Any:
    """Return a message's body; Proton gives binary as a view of the message's own memory."""
    return bytes(message.body) if isinstance(message.body, memoryview) else message.body


def receive(receiver: Any, count: int) -> list[Any]:
    """Receive and accept messages; return their bodies."""
    found = []
    for _ in range(count):
        found.append(body_of(receiver.receive()))
        receiver.accept()
    return found


def consume(blocking: BlockingConnection, address: str, count: int) -> list[Any]:
    """Receive and accept messages with a receiver of its own name; Proton names all receivers of an address alike."""
    receiver = blocking.create_receiver(address, credit=1, name=some_name("link"))
    found = receive(receiver, count)
    receiver.close()
    return found


def is_empty(blocking: BlockingConnection, address: str, **options: Any) -> bool:
    """Tell whether a receiver with credit gets nothing; the broker has answered its drain then."""
    receiver = blocking.create_receiver(address, credit=1, name=some_name("link"), **options)
    receiver.link.drain(0)
    blocking.wait(lambda: receiver.link.credit == 0 or receiver.fetcher.has_message)
    empty = not receiver.fetcher.has_message
    receiver.close()
    return empty


def test_connection_without_sasl_is_anonymous(broker: BrokerProcess, queue: str) -> None:
    address = broker.url.rstrip("/").replace("guest:guest@", "")
    plain = BlockingConnection(address, timeout=PATIENCE, sasl_enabled=False)
    send(plain, f"/queues/{queue}", "one")
    assert consume(plain, f"/queues/{queue}", 1) == ["one"]
    plain.close()


def test_messages_are_published_and_consumed_in_order(blocking: BlockingConnection, queue: str) -> None:
    send(blocking, queue, *range(100))
    assert consume(blocking, queue, 100) == list(range(100))
    assert is_empty(blocking, queue)


@pytest.mark.parametrize("address", ["/queues/{}", "{}"])
def test_address_in_both_forms_names_a_queue(blocking: BlockingConnection, queue: str, address: str) -> None:
    send(blocking, address.format(queue), "text", {"a": [1, None]}, b"octets")
    assert consume(blocking, address.format(queue), 3) == ["text", {"a": [1, None]}, b"octets"]


def test_rejected_message_becomes_a_dead_letter(
    blocking: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    arguments = {**EXPIRES, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(f"{queue}-work", arguments=arguments)
    send(blocking, f"{queue}-work", "bad", properties={"n": 1})
    receiver = blocking.create_receiver(f"{queue}-work")
    receiver.receive()
    receiver.reject()
    dead_letters = blocking.create_receiver(queue)
    dead = dead_letters.receive()
    assert (dead.body, dead.properties) == ("bad", {"n": 1})
    assert dead.annotations["x-first-death-reason"] == "rejected"
    assert is_empty(blocking, f"{queue}-work")


def test_browser_leaves_messages_in_the_queue(
    blocking: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    send(blocking, queue, *range(10))
    browser = blocking.create_receiver(queue, credit=10, name="browser", options=Copy())
    assert browser.link.remote_snd_settle_mode == proton.Link.SND_SETTLED, "nothing waits for a browser's outcomes"
    assert [browser.receive().body for _ in range(10)] == list(range(10))
    browser.close()
    assert consume(blocking, queue, 10) == list(range(10))


def test_selector_takes_matching_messages_only(
    blocking: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    sender = blocking.create_sender(queue)
    for number in range(10):
        sender.send(proton.Message(body=number, properties={"n": number, "colour": "red" if number % 2 else "blue"}))
    wanted = Selector("colour = 'red' AND n > 3")
    receiver = blocking.create_receiver(queue, credit=10, options=wanted)
    assert receive(receiver, 3) == [5, 7, 9]
    assert is_empty(blocking, queue, options=wanted)
    receiver.close()
    assert consume(blocking, queue, 7) == [0, 1, 2, 3, 4, 6, 8]


def test_request_is_answered_to_a_dynamic_node(blocking: BlockingConnection, queue: str) -> None:
    replies = blocking.create_receiver(None, dynamic=True)
    address = replies.link.remote_source.address
    sender = blocking.create_sender(queue)
    sender.send(proton.Message(body="question", reply_to=address, correlation_id="7"))
    requests = blocking.create_receiver(queue)
    request = requests.receive()
    requests.accept()
    send(blocking, request.reply_to, request.body.upper(), correlation_id=request.correlation_id)
    reply = replies.receive()
    assert (reply.body, reply.correlation_id) == ("QUESTION", "7")
    replies.close()
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        blocking.create_sender(address)


def test_durable_subscription_keeps_messages_while_its_client_is_away(broker: BrokerProcess, name: str) -> None:
    def connected() -> Any:
        container = Container()
        container.container_id = name
        return BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE, container=container)

    def subscribe(connection: Any) -> Any:
        return connection.create_receiver("amq.topic/news", credit=10, name="sub", options=DurableSubscription())

    first = connected()
    receiver = subscribe(first)
    send(first, "amq.topic/news", 1)
    assert receive(receiver, 1) == [1]
    receiver.detach()
    first.close()
    away = connected()
    send(away, "amq.topic/news", 2, 3)
    away.close()
    second = connected()
    receiver = subscribe(second)
    assert receive(receiver, 2) == [2, 3]
    receiver.close()
    with pytest.raises(SendException) as told:
        send(second, "amq.topic/news", 4)
    assert told.value.state == proton.Delivery.RELEASED, "the subscription has ended"
    second.close()
