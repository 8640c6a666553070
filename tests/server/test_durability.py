"""A broker with a data directory that is killed or stopped, and restarted: real clients, real files."""

from __future__ import annotations

import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pika
import pytest

from penstock import sync
from penstock.client.engine.waits import Call
from penstock.store.sqlite import SqliteStore
from penstock.sync import connect
from tests.support.block_encoder import encode_published
from tests.support.brokers import eventually, serving, some_name
from tests.support.http_client import Web
from tests.support.pika_helpers import KEPT, LOST, client_of, stopped
from tests.support.raw_channel import Connection


def test_confirmed_messages_alone_survive_a_kill_in_order(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("kept", durable=True)
        client.channel.queue_declare("lost")
        client.publish("kept", *[str(number) for number in range(300)])
        client.publish("kept", "transient", properties=LOST)
        client.publish("lost", "a", "b")
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert client.drain("kept") == [(str(number), False) for number in range(300)]
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"\(404, "):
            client.depth("lost")


def test_unacknowledged_messages_come_back_first_as_redelivered_after_a_kill(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *"abcdef")
        assert client.channel.basic_get("q")[2] == b"a"
        method, _, _ = client.channel.basic_get("q")
        client.channel.basic_ack(method.delivery_tag)
        assert client.channel.basic_get("q")[2] == b"c"
        client.publish("q", "g")  # Its confirmation says that the acknowledgement before it is on the disk too.
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert client.drain("q") == [
            ("a", True),
            ("c", True),
            ("d", False),
            ("e", False),
            ("f", False),
            ("g", False),
        ]


def test_durable_declarations_survive_a_kill_and_deletions_too(tmp_path: Path, data: str) -> None:
    arguments = {"x-max-priority": 3, "x-message-ttl": 3_600_000, "x-note": [1, {"a": True}]}
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        channel = client.channel
        channel.exchange_declare("routes", "topic", durable=True)
        channel.exchange_declare("passing", "topic", durable=False)
        channel.queue_declare("gone", durable=True)
        channel.queue_declare("stays", durable=True, arguments=arguments)
        channel.queue_bind("stays", "routes", "a.#")
        channel.queue_bind("stays", "routes", "b.#")
        channel.queue_unbind("stays", "routes", "b.#")
        channel.queue_delete("gone")
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.exchange_declare("routes", "topic", durable=True)
        client.channel.queue_declare("stays", durable=True, arguments=arguments)
        client.channel.basic_publish("routes", "a.b", b"1", KEPT)
        client.channel.basic_publish("routes", "b.b", b"2", KEPT)
        assert client.depth("stays") == 1
        for name, declare in (("gone", "queue_declare"), ("passing", "exchange_declare")):
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"\(404, "):
                getattr(client.connection.channel(), declare)(name, passive=True)


def test_transaction_is_there_in_full_or_not_at_all(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        for name in ("from", "to"):
            client.channel.queue_declare(name, durable=True)
        client.publish("from", "1", "2")
        channel = client.connection.channel()
        channel.tx_select()
        for commit in (True, False):
            method, _, body = channel.basic_get("from")
            channel.basic_publish("", "to", body + b"!", KEPT)
            channel.basic_ack(method.delivery_tag)
            if commit:
                channel.tx_commit()
        client.depth("to")
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert client.drain("from") == [("2", True)]
        assert client.drain("to") == [("1!", False)]


def test_queue_restored_above_its_stop_is_closed_before_the_first_publish(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        arguments = {"capacity-messages": 10, "stop-messages": 5, "resume-messages": 2, "hold-deadline": 1}
        client.channel.queue_declare("q", durable=True, arguments=arguments)
        client.publish("q", *"abcdef")
        assert broker.queue("q")["gate"]["open"] is False
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert broker.queue("q")["gate"]["open"] is False
        for _ in range(4):
            client.channel.basic_get("q", auto_ack=True)
        assert broker.queue("q")["gate"]["open"] is True


def test_message_that_expired_during_a_restart_is_gone(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        expiring = pika.BasicProperties(delivery_mode=2, expiration="300")
        client.publish("q", "short", properties=expiring)
        client.publish("q", "long", properties=pika.BasicProperties(delivery_mode=2, expiration="3600000"))
        published = time.monotonic()
        broker.kill()
    threading.Event().wait(max(0.0, published + 0.3 - time.monotonic()))
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert client.drain("q") == [("long", False)]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_auto_delete_queue_with_a_consumer_is_there_again(tmp_path: Path, data: str, how: int) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, auto_delete=True)
        client.channel.basic_qos(prefetch_count=1)
        client.channel.basic_consume("q", lambda *_: None)
        client.publish("q", "a", "b")
        if how == signal.SIGTERM:
            stopped(broker, client.connection)
        else:
            broker.kill()
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert [body for body, _ in client.drain("q")] == ["a", "b"]


def test_delivered_messages_alone_are_redelivered_after_an_orderly_stop(tmp_path: Path, data: str) -> None:
    seen: list[bytes] = []
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[str(number) for number in range(500)])
        client.channel.basic_qos(prefetch_count=7)
        client.channel.basic_consume("q", lambda channel, method, _, body: seen.append(body))
        client.connection.process_data_events(0.01)
        eventually(lambda: client.connection.process_data_events(0.01) or len(seen) == 7, "seven were delivered")
        stopped(broker, client.connection)
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert client.drain("q") == [(str(number), number < 7) for number in range(500)]


def test_announced_deliveries_are_taken_back_by_an_orderly_stop(tmp_path: Path, data: str) -> None:
    """Who has had to wait for the disk again and again had deliveries announced ahead: a stop takes that back."""
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[str(number) for number in range(300)])
        for _ in range(100):
            method, _, _ = client.channel.basic_get("q")
            client.channel.basic_ack(method.delivery_tag)
        client.connection.close()
        assert broker.stop() == 0
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        assert client.drain("q") == [(str(number), False) for number in range(100, 300)]


def test_http_request_is_answered_once_its_change_is_on_the_disk(tmp_path: Path) -> None:
    """A queue that pages: what is asked for by HTTP waits for the disk there and back."""
    options = ("--data", str(tmp_path / "data"), "--http", "127.0.0.1:0")
    declared = {"durable": True, "arguments": {"x-overflow": "page", "capacity-messages": 1}}
    message = {"properties": {"delivery_mode": 2}, "routing_key": "q", "payload_encoding": "string"}
    with serving(tmp_path, *options) as broker:
        web = Web(broker.http)
        assert web.ask("PUT", "/queues/%2F/q", declared).status == 201
        for payload in "abc":
            told = web.ask("POST", "/exchanges/%2F/amq.default/publish", message | {"payload": payload})
            assert told.json == {"routed": True}
        broker.process.kill()
    with serving(tmp_path, *options) as broker:
        wanted = {"count": 3, "ackmode": "ack_requeue_false", "encoding": "auto"}
        found = Web(broker.http).ask("POST", "/queues/%2F/q/get", wanted).json
        assert [each["payload"] for each in found] == ["a", "b", "c"]


def test_store_is_empty_when_the_queues_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *["x" * 10_000] * 200)
        client.drain("q")
        stopped(broker, client.connection)
    store = SqliteStore(data)
    store.open()
    assert (list(store.rows()), list(store.settlements())) == ([], [])
    store.close()
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        assert client.depth("q") == 0


def test_ready_says_where_it_is_kept(tmp_path: Path) -> None:
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        assert re.search(rf"\(durable data in {tmp_path}/data\)$", broker.ready)
    with serving(tmp_path, "--memory") as broker:
        assert broker.ready.endswith("(in memory: nothing is kept after it stops)")


# Promotion of a batch of a query


class Promoter:
    """A query whose only task stages rows for a durable queue, and whose driver commits them."""

    def __init__(self, control: sync.Connection, rows: int) -> None:
        self.control = control
        self.rows = rows
        self.ids: dict[str, object] = {
            "query": "q",
            "batch": 0,
            "run": some_name("run"),
            "write": some_name("write"),
            "exchange": "",
            "routing_key": "kept",
            "delivery": "transactional",
        }

    def commit(self) -> Call:
        """Stage what is missing, and ask for the commit; returns the request."""
        task = {**self.ids, "partition": 0, "attempt": 0}
        begun: Any = self.control.request("sink.begin", **task)
        for first in range(0, 0 if begun["promoted"] else self.rows, 5_000):
            rows: list[dict[str, object]] = [{"value": b"%06d" % row} for row in range(first, first + 5_000)]
            where = {"routing_key": "kept", "delivery_mode": 2}
            block = encode_published(rows, where, stage={**task, "row": first})
            answer: Any = self.control.answer(self.control.begin("publish.block", block))
            assert answer["taken"] == 5_000
        return self.control.begin("sink.commit", {**self.ids, "partitions": {"0": 0}})


def test_broker_killed_during_a_promotion_has_the_whole_batch_or_nothing(tmp_path: Path) -> None:
    total = 20_000
    data = ("--data", str(tmp_path / "data"))
    with serving(tmp_path, *data) as broker, Connection(broker.url) as other:
        watching = other.channel()
        watching.queue_declare("kept", durable=True)
        promoter = Promoter(connect(broker.url, protocol="amqp091", reconnect=False), total)
        promoter.commit()
        eventually(lambda: watching.queue_declare("kept", passive=True)[1] >= total // 2, "rows in the queue")
        broker.kill()
        promoter.control.close()
    with serving(tmp_path, *data) as broker, Connection(broker.url) as connection:
        channel = connection.channel()
        assert channel.queue_declare("kept", passive=True)[1] in (0, total)
        with connect(broker.url, protocol="amqp091") as control:
            again = Promoter(control, total)
            assert control.answer(again.commit()) == {"promoted": True}
        assert channel.queue_declare("kept", passive=True)[1] == total
        got = [channel.get("kept", no_ack=True) for _ in range(3)]
        assert [None if each is None else bytes(each.body) for each in got] == [b"000000", b"000001", b"000002"]


def test_age_of_the_oldest_message_survives_a_kill(tmp_path: Path, store: tuple[str, str]) -> None:
    with serving(tmp_path, *store) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a", "b")
        confirmed = time.time()
        broker.kill()
    with serving(tmp_path, *store) as broker, connect(broker.url) as connection:
        passed = time.time() - confirmed
        (row,) = connection.list("queues", filters=["name=q"])
        age = row["penstock"]["oldest_s"]
        assert passed - 1e-3 <= age, "the age is not counted from the restart"
        assert connection.purge_queue("q") == 2
        (row,) = connection.list("queues", filters=["name=q"])
        assert row["penstock"]["oldest_s"] is None
