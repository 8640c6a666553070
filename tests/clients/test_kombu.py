"""kombu: its declarations, and its reconnects."""

from __future__ import annotations

from collections.abc import Iterator

import kombu
import pytest
from kombu.pools import producers
from kombu.simple import SimpleQueue

from tests.support.brokers import PATIENCE, BrokerProcess, eventually

pytestmark = pytest.mark.clients


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[kombu.Connection]:
    with kombu.Connection(broker.url) as connection:
        yield connection
    kombu.pools.reset()


def test_topic_exchange_with_queues_and_a_consumer(connection: kombu.Connection, name: str) -> None:
    exchange = kombu.Exchange(name, "topic", durable=False, auto_delete=True)
    news = kombu.Queue(f"{name}-news", exchange, routing_key="news.#", auto_delete=True, max_length=100)
    every = kombu.Queue(f"{name}-all", exchange, routing_key="#", auto_delete=True, message_ttl=60, expires=120)
    got: list[tuple[str, object]] = []

    def receive(body: object, message: kombu.Message) -> None:
        got.append((message.delivery_info["routing_key"], body))
        message.ack()

    with connection.Consumer([news, every], callbacks=[receive], accept=["json"]), connection.Producer() as producer:
        for key in ("news.today", "weather"):
            producer.publish(
                {"key": key}, exchange=exchange, routing_key=key, declare=[news, every], compression="zlib"
            )

        def look() -> bool:
            try:
                connection.drain_events(timeout=0.1)
            except TimeoutError:
                return False
            return len(got) == 3

        eventually(look, "three deliveries")
    assert sorted(key for key, _ in got) == ["news.today", "news.today", "weather"]
    assert all(body == {"key": key} for key, body in got)


def test_simple_queue_requeues_messages(connection: kombu.Connection, name: str) -> None:
    queue = connection.SimpleQueue(name)
    assert isinstance(queue, SimpleQueue)
    for number in range(5):
        queue.put({"number": number})
    first = queue.get(timeout=PATIENCE)
    assert first.payload == {"number": 0}
    first.requeue()
    numbers = []
    for _ in range(5):
        message = queue.get(timeout=PATIENCE)
        numbers.append(message.payload["number"])
        message.ack()
    assert sorted(numbers) == [0, 1, 2, 3, 4]
    with pytest.raises(SimpleQueue.Empty):
        queue.get(timeout=0.1)
    queue.close()
    connection.channel().queue_delete(name)


def test_pool_of_producers_publishes_with_retries(connection: kombu.Connection, name: str) -> None:
    queue = kombu.Queue(name, durable=False)
    bound = queue.bind(connection.default_channel)
    bound.declare()
    for number in range(20):
        with producers[connection].acquire(block=True) as producer:
            producer.publish({"n": number}, routing_key=name, retry=True)
    assert eventually(lambda: bound.queue_declare(passive=True).message_count == 20, "all of them")
    bound.delete()


def test_argument_of_ours_travels_in_queue_arguments(
    broker: BrokerProcess, connection: kombu.Connection, name: str
) -> None:
    queue = kombu.Queue(name, queue_arguments={"capacity-messages": 10, "stop-messages": 8, "resume-messages": 2})
    queue.bind(connection.default_channel).declare()
    view = broker.queue(name)
    assert [view[mark]["messages"] for mark in ("capacity", "stop", "resume")] == [10, 8, 2]
    queue.bind(connection.default_channel).delete()
