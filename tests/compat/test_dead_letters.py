"""Dead letters: their targets and headers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import eventually
from tests.support.pika_helpers import Got, take

pytestmark = pytest.mark.clients


class Pair:
    """A queue, and the one that its dead letters go to."""

    def __init__(self, channel: BlockingChannel, name: str, **arguments: object) -> None:
        self.channel = channel
        self.work, self.dead, self.exchange = name, f"{name}-dead", f"{name}-dlx"
        channel.exchange_declare(self.exchange, "fanout", auto_delete=True)
        channel.queue_declare(self.dead, exclusive=True)
        channel.queue_bind(self.dead, self.exchange)
        given = {word.replace("_", "-"): value for word, value in arguments.items()}
        given["x-dead-letter-exchange"] = self.exchange
        channel.queue_declare(self.work, exclusive=True, arguments=given)
        channel.confirm_delivery()

    def publish(self, *bodies: bytes, properties: pika.BasicProperties | None = None) -> None:
        for body in bodies:
            self.channel.basic_publish("", self.work, body, properties)

    def get(self, queue: str | None = None) -> Got:
        """Take the next dead letter; it must come."""
        return take(self.channel, queue or self.dead)

    def reject(self) -> None:
        self.channel.basic_reject(take(self.channel, self.work, auto_ack=False)[1].delivery_tag, requeue=False)


def deaths(properties: pika.BasicProperties) -> list[dict[str, Any]]:
    return properties.headers["x-death"]


def test_rejected_message_says_where_and_why_it_died(channel: BlockingChannel, name: str) -> None:
    pair = Pair(channel, name)
    before = int(time.time()) - 1
    pair.publish(b"bad", properties=pika.BasicProperties(headers={"own": 1}, content_type="text/plain"))
    pair.reject()
    properties, method, body = pair.get()
    assert body == b"bad"
    assert (method.exchange, method.routing_key, method.redelivered) == (pair.exchange, pair.work, False)
    assert properties.content_type == "text/plain"
    assert properties.headers["own"] == 1
    (entry,) = deaths(properties)
    when = entry.pop("time")
    assert before <= when.timestamp() <= time.time() + 1
    assert entry == {
        "count": 1,
        "reason": "rejected",
        "queue": pair.work,
        "exchange": "",
        "routing-keys": [pair.work],
    }
    first = {key: value for key, value in properties.headers.items() if key.startswith("x-first-death")}
    assert first == {
        "x-first-death-reason": "rejected",
        "x-first-death-queue": pair.work,
        "x-first-death-exchange": "",
    }


def test_last_death_has_headers_as_in_rabbitmq_4(channel: BlockingChannel, name: str, ours: bool) -> None:
    pair = Pair(channel, name)
    pair.publish(b"bad")
    pair.reject()
    headers = pair.get()[0].headers
    last = {key: value for key, value in headers.items() if key.startswith("x-last-death")}
    if ours or last:  # RabbitMQ before 3.13 has none.
        assert last == {
            "x-last-death-reason": "rejected",
            "x-last-death-queue": pair.work,
            "x-last-death-exchange": "",
        }


def test_routing_key_for_the_dead_replaces_theirs(channel: BlockingChannel, name: str) -> None:
    pair = Pair(channel, name, x_dead_letter_routing_key="graves")
    pair.publish(b"bad")
    pair.reject()
    properties, method, _ = pair.get()
    assert method.routing_key == "graves"
    assert deaths(properties)[0]["routing-keys"] == [pair.work]


def test_nack_of_several_dead_letters_in_order_and_requeued_messages_stay(channel: BlockingChannel, name: str) -> None:
    pair = Pair(channel, name)
    pair.publish(b"1", b"2", b"3", b"4")
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(4)]  # type: ignore[union-attr]
    channel.basic_nack(tags[3], requeue=True)
    channel.basic_nack(tags[2], multiple=True, requeue=False)
    assert [pair.get()[2] for _ in range(3)] == [b"1", b"2", b"3"]
    assert pair.get(pair.work)[2] == b"4"
    assert channel.basic_get(pair.dead)[0] is None


def test_expired_message_says_so(channel: BlockingChannel, name: str) -> None:
    pair = Pair(channel, name, x_message_ttl=50)
    pair.publish(b"old")
    properties, _, body = pair.get()
    assert body == b"old"
    assert (deaths(properties)[0]["reason"], "original-expiration" in deaths(properties)[0]) == ("expired", False)


def test_dead_letter_dropped_by_a_full_queue_has_reason_maxlen(channel: BlockingChannel, name: str) -> None:
    pair = Pair(channel, name, x_max_length=2)
    pair.publish(b"1", b"2", b"3", b"4")
    found = [pair.get() for _ in range(2)]
    assert [body for _, _, body in found] == [b"1", b"2"]
    assert {deaths(properties)[0]["reason"] for properties, _, _ in found} == {"maxlen"}


def test_dead_letter_refused_by_a_full_queue_is_nacked_with_reason_maxlen(channel: BlockingChannel, name: str) -> None:
    pair = Pair(channel, name, x_max_length=1, x_overflow="reject-publish-dlx")
    pair.publish(b"1")
    with pytest.raises(pika.exceptions.NackError):
        pair.publish(b"2")
    properties, _, body = pair.get()
    assert (body, deaths(properties)[0]["reason"]) == (b"2", "maxlen")
    assert pair.get(pair.work)[2] == b"1"


def test_deaths_of_one_kind_are_counted_and_the_last_one_is_first(channel: BlockingChannel, name: str) -> None:
    """A retry: rejected in one queue, expired in the next, back in the first."""
    wait = f"{name}-wait"
    channel.queue_declare(
        wait,
        exclusive=True,
        arguments={"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name},
    )
    channel.queue_declare(
        name, exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait}
    )
    channel.basic_publish("", name, b"again")

    for _ in range(3):
        _, method, _ = take(channel, name, auto_ack=False)
        channel.basic_reject(method.delivery_tag, requeue=False)
    properties, _, _ = take(channel, name, auto_ack=False)
    found = [(entry["queue"], entry["reason"], entry["count"]) for entry in deaths(properties)]
    assert found == [(wait, "expired", 3), (name, "rejected", 3)]
    assert properties.headers["x-first-death-reason"] == "rejected"


FORGED: list[Any] = [5, "text", [], [5], {"a": 1}, [{"queue": 5}], [{"queue": "x", "reason": "expired", "count": 3}]]


@pytest.mark.parametrize("value", FORGED)
def test_death_headers_of_a_publisher_are_data_until_the_first_death(
    channel: BlockingChannel, name: str, ours: bool, value: object
) -> None:
    pair = Pair(channel, name)
    headers = {"x-death": value, "x-first-death-queue": "mine", "own": 1}
    pair.publish(b"1", properties=pika.BasicProperties(headers=headers))
    properties, method, _ = take(channel, pair.work, auto_ack=False)
    assert properties.headers == headers
    channel.basic_reject(method.delivery_tag, requeue=False)
    if ours:  # RabbitMQ before 4.0 goes on with the entries of the publisher.
        found = pair.get()[0]
        assert [(entry["queue"], entry["reason"], entry["count"]) for entry in deaths(found)] == [
            (pair.work, "rejected", 1)
        ]
        assert (found.headers["x-first-death-queue"], found.headers["own"]) == (pair.work, 1)


def test_message_published_again_with_its_death_headers_takes_the_same_way(
    channel: BlockingChannel, name: str, ours: bool
) -> None:
    """A task that is tried again, with the headers that it was received with, through the same delay queues."""
    if not ours:
        pytest.skip("RabbitMQ before 4.0 takes it for a cycle")
    work, last, first = name, f"{name}-last", f"{name}-first"
    channel.queue_declare(work, exclusive=True)
    for queue, target in ((last, work), (first, last)):
        arguments = {"x-message-ttl": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
        channel.queue_declare(queue, exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    properties = pika.BasicProperties()
    for _ in range(3):
        channel.basic_publish("", first, b"task", properties)
        properties, _, _ = take(channel, work)
        found = [(entry["queue"], entry["reason"], entry["count"]) for entry in deaths(properties)]
        assert found == [(last, "expired", 1), (first, "expired", 1)]


def test_transaction_passes_forged_deaths_as_data(channel: BlockingChannel, name: str, ours: bool) -> None:
    if not ours:
        pytest.skip("RabbitMQ before 4.0 takes them for a cycle")
    channel.queue_declare(f"{name}-dead", exclusive=True)
    arguments = {"x-message-ttl": 10, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    channel.tx_select()
    forged = {"x-death": [{"queue": f"{name}-dead", "reason": "expired", "count": 1}]}
    channel.basic_publish("", name, b"in a transaction", pika.BasicProperties(headers=forged))
    channel.tx_commit()
    assert take(channel, f"{name}-dead")[2] == b"in a transaction"


def test_circle_without_a_rejection_is_dropped(channel: BlockingChannel, name: str) -> None:
    one, other = f"{name}-1", f"{name}-2"
    for queue, next_one in ((one, other), (other, one)):
        channel.queue_declare(
            queue,
            exclusive=True,
            arguments={"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": next_one},
        )
    channel.basic_publish("", one, b"round")

    def empty() -> bool:
        counts = [channel.queue_declare(queue, passive=True).method.message_count for queue in (one, other)]
        return counts == [0, 0]

    eventually(empty, "both are empty")


def test_headers_of_every_type_come_through(channel: BlockingChannel, name: str) -> None:
    pair = Pair(channel, name)
    headers: dict[str, Any] = {
        "text": "ä",
        "true": True,
        "none": None,
        "large": 1 << 40,
        "negative": -5,
        "octets": b"\x00\xff",
        "list": [1, "two", [3]],
        "table": {"a": {"b": 1}},
    }
    pair.publish(b"x", properties=pika.BasicProperties(headers=headers, priority=3, message_id="m", delivery_mode=1))
    pair.reject()
    properties, _, _ = pair.get()
    assert {key: value for key, value in properties.headers.items() if key in headers} == headers
    assert (properties.priority, properties.message_id, properties.delivery_mode) == (3, "m", 1)


def test_exchange_may_be_internal_and_may_come_later(channel: BlockingChannel, name: str) -> None:
    exchange = f"{name}-later"
    channel.queue_declare(name, exclusive=True, arguments={"x-dead-letter-exchange": exchange})
    channel.queue_declare(f"{name}-dead", exclusive=True)
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body)
        if body == b"2":
            channel.exchange_declare(exchange, "fanout", internal=True, auto_delete=True)
            channel.queue_bind(f"{name}-dead", exchange)
        method, _, _ = channel.basic_get(name)
        channel.basic_reject(method.delivery_tag, requeue=False)

    def get() -> bytes | None:
        return channel.basic_get(f"{name}-dead", auto_ack=True)[2]

    assert eventually(get, "a dead letter") == b"2"


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_full_work_and_retry_queues_lose_nothing(
    channel: BlockingChannel, url: str, name: str, ours: bool, strategy: str
) -> None:
    """A usual retry: rejected to a queue with a time to live, and back. Both queues are full most of the time."""
    if not ours:
        pytest.skip("RabbitMQ does not hold publishers")
    retry, count, attempts = f"{name}-retry", 12, 3
    for queue, target, more in ((name, retry, {}), (retry, name, {"x-message-ttl": 10})):
        arguments = {"capacity-messages": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, **more}
        channel.queue_declare(queue, arguments={**arguments, "x-dead-letter-strategy": strategy})
    with ThreadPoolExecutor(1) as pool:
        published = pool.submit(_publish_confirmed, url, name, count)
        tries: dict[bytes, int] = {}
        done: set[bytes] = set()
        while len(done) < count:
            _, method, body = take(channel, name, auto_ack=False)
            tries[body] = tries.get(body, 0) + 1
            if tries[body] == attempts:
                channel.basic_ack(method.delivery_tag)
                done.add(body)
            else:
                channel.basic_reject(method.delivery_tag, requeue=False)
        assert published.result() == count
    assert set(tries.values()) == {attempts}
    for queue in (name, retry):
        channel.queue_delete(queue)


def _publish_confirmed(url: str, queue: str, count: int) -> int:
    """Publish numbered messages, each confirmed; return their number."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    publisher = connection.channel()
    publisher.confirm_delivery()
    for number in range(count):
        publisher.basic_publish("", queue, b"%d" % number)
    connection.close()
    return count
