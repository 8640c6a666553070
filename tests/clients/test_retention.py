"""Retention with real clients: pika and Proton settle, and read again; also over restarts and kills."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError, ChannelClosedByBroker

from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.disk_brokers import kept

pytestmark = pytest.mark.clients
RETAINING = {"x-retain-time": "7D", "x-retain-bytes": 1_000_000_000}
COMPANION = "orders.retained"


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[BrokerProcess]:
    with kept(tmp_path) as broker:
        yield broker


def opened(broker: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def publish(broker: BrokerProcess, first: int, end: int, **arguments: object) -> None:
    """Publish numbers to `orders`, each confirmed."""
    connection = opened(broker)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True, arguments={**RETAINING, **arguments})
    channel.confirm_delivery()
    for number in range(first, end):
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": number}, message_id=f"m{number}")
        channel.basic_publish("", "orders", str(number).encode(), properties)
    connection.close()


def take(broker: BrokerProcess, count: int, **consume: Any) -> list[int]:
    """Take so many messages of `orders`, each acknowledged."""
    connection = opened(broker)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    found: list[int] = []
    for method, _, body in channel.consume("orders", inactivity_timeout=PATIENCE, **consume):
        assert method is not None, f"{len(found)} of {count} messages have come"
        found.append(int(body))
        if not consume:
            channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    connection.close()
    return found


def retained(broker: BrokerProcess, count: int, at: object = "first") -> list[int]:
    """Read so many messages of the companion, with their offsets checked."""
    connection = opened(broker)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    found: list[int] = []
    offsets: list[int] = []
    for method, properties, body in channel.consume(
        COMPANION, arguments={"x-stream-offset": at}, inactivity_timeout=PATIENCE
    ):
        assert method is not None, f"{len(found)} of {count} messages have come"
        assert (properties.headers["n"], properties.message_id) == (int(body), f"m{int(body)}")
        assert (method.exchange, method.routing_key) == ("", "orders")
        found.append(int(body))
        offsets.append(int(properties.headers["x-stream-offset"]))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    connection.close()
    assert offsets == list(range(offsets[0], offsets[0] + count))
    return found


def test_acknowledged_messages_are_read_again_over_a_restart(tmp_path: Path) -> None:
    with kept(tmp_path) as broker:
        publish(broker, 0, 50)
        assert take(broker, 30) == list(range(30))
        assert retained(broker, 30) == list(range(30))
    with kept(tmp_path) as broker:
        assert take(broker, 20) == list(range(30, 50))
        assert retained(broker, 50) == list(range(50))
        assert retained(broker, 5, 45) == list(range(45, 50))


def test_messages_without_acknowledgements_and_of_get_are_retained(stored: BrokerProcess) -> None:
    publish(stored, 0, 10)
    assert take(stored, 5, auto_ack=True)[:5] == list(range(5))
    connection = opened(stored)
    channel = connection.channel()
    eventually(lambda: channel.queue_declare(COMPANION, passive=True).method.message_count >= 5, "retained messages")
    before = channel.queue_declare(COMPANION, passive=True).method.message_count
    if before < 10:
        method, _, _ = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)
        eventually(
            lambda: channel.queue_declare(COMPANION, passive=True).method.message_count == before + 1, "one more"
        )
    connection.close()


def test_rejected_messages_are_not_retained(stored: BrokerProcess) -> None:
    publish(stored, 0, 3)
    connection = opened(stored)
    channel = connection.channel()
    tags = [channel.basic_get("orders")[0].delivery_tag for _ in range(3)]
    channel.basic_reject(tags[0], requeue=False)
    channel.basic_nack(tags[1], requeue=False)
    channel.basic_ack(tags[2])
    connection.close()
    assert retained(stored, 1) == [2]


def test_transaction_retains_what_it_commits_and_nothing_else(stored: BrokerProcess) -> None:
    publish(stored, 0, 4)
    connection = opened(stored)
    channel = connection.channel()
    channel.tx_select()
    tags = [channel.basic_get("orders")[0].delivery_tag for _ in range(4)]
    channel.basic_ack(tags[0])
    channel.tx_rollback()
    channel.basic_ack(tags[1])
    channel.basic_ack(tags[3])
    channel.tx_commit()
    connection.close()
    assert retained(stored, 2) == [1, 3]


@pytest.mark.parametrize("kills", [3])
def test_acknowledged_message_is_retained_once_or_in_its_queue_after_kills(tmp_path: Path, kills: int) -> None:
    acknowledged: set[int] = set()
    for life in range(kills):
        wanted = life * 300 + 150
        with kept(tmp_path) as broker:
            publish(broker, life * 300, life * 300 + 300)
            connection = opened(broker)
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            for method, _, body in channel.consume("orders", inactivity_timeout=PATIENCE):
                assert method is not None
                channel.basic_ack(method.delivery_tag)
                acknowledged.add(int(body))
                if len(acknowledged) >= wanted:
                    break
            broker.process.kill()
            broker.process.wait(PATIENCE)
            with suppress(AMQPError):
                connection.close()
    with kept(tmp_path) as broker:
        connection = opened(broker)
        channel = connection.channel()
        kept_there = channel.queue_declare(COMPANION, passive=True).method.message_count
        connection.close()
        first = retained(broker, kept_there) if kept_there else []
        left = 300 * kills - len(set(first))
        again = take(broker, left) if left else []
    assert len(first) == len(set(first)), "no message is in the companion twice"
    assert set(first).isdisjoint(again), "no message is in both"
    assert set(first) | set(again) == set(range(300 * kills)), "no message is lost"


def test_receiver_of_proton_settles_and_another_reads_again(stored: BrokerProcess) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    import proton
    from proton.reactor import Filter
    from proton.utils import BlockingConnection

    publish(stored, 0, 6)
    blocking = BlockingConnection(stored.url.rstrip("/"), timeout=PATIENCE)
    worker = blocking.create_receiver("/queues/orders", credit=10)
    for number in range(6):
        message = worker.receive()
        assert int(bytes(message.body)) == number
        if number == 2:
            worker.settle(proton.Delivery.REJECTED)
        else:
            worker.accept()
    worker.close()
    name = proton.symbol("rabbitmq:stream-offset-spec")
    chosen = Filter({name: proton.Described(name, "first")})
    reader = blocking.create_receiver(f"/queues/{COMPANION}", credit=10, name="reader", options=chosen)
    found = []
    for offset in range(5):
        message = reader.receive()
        assert int(message.annotations[proton.symbol("x-stream-offset")]) == offset
        found.append(int(bytes(message.body)))
        reader.accept()
    blocking.close()
    assert found == [0, 1, 3, 4, 5]


def test_definitions_with_a_companion_are_imported_in_either_order(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with kept(tmp_path / "one") as broker, connect(broker.url, protocol="amqp091") as control:
        publish(broker, 0, 2)
        text = control.export_definitions()
        exported = json.loads(text) if isinstance(text, str) else text
    queues = sorted((each for each in exported["queues"]), key=lambda each: each["name"])
    assert [each["name"] for each in queues] == ["orders", COMPANION]
    for order in (queues, queues[::-1]):
        directory = tmp_path / "two" / order[0]["name"]
        directory.mkdir()
        with kept(directory) as broker, connect(broker.url, protocol="amqp091") as control:
            control.import_definitions(json.dumps({"queues": order}))
            control.import_definitions(json.dumps({"queues": order}))
            publish(broker, 0, 2)
            assert take(broker, 2) == [0, 1]
            assert retained(broker, 2) == [0, 1]


def test_companion_is_not_deleted_before_its_queue(stored: BrokerProcess) -> None:
    publish(stored, 0, 1)
    connection = opened(stored)
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_delete(COMPANION)
    assert refused.value.reply_code == 405
    assert "retains what queue 'orders' has settled" in refused.value.reply_text
    channel = connection.channel()
    channel.queue_delete("orders")
    channel.queue_delete(COMPANION)
    connection.close()
