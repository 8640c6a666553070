"""Peculiarities of other AMQP 1.0 brokers: RabbitMQ 3 with its plugin, and Artemis.

PENSTOCK_BESIDE='rabbitmq artemis' runs the tests of `test_reader.py` and `test_kills.py` with them as well.
"""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from bench.brokers import RABBITMQ
from bench.peers10 import ARTEMIS
from pyspark_amqp.errors import SpoolUnusable
from pyspark_amqp.spool.settings import AMQP091, AMQP1
from tests.profiles import thorough
from tests.spark.amqp.conftest import next_batch, read_until
from tests.support.amqp_peers import OURS, PEERS, Peer
from tests.support.spark_readers import ALL, numbered, rows

pytestmark = pytest.mark.skipif(
    PEERS == [OURS] and not thorough(), reason="PENSTOCK_BESIDE='rabbitmq artemis' or make test-long asks for it"
)


@pytest.fixture(params=[AMQP091, AMQP1])
def rabbitmq(request: pytest.FixtureRequest, peers: Callable[[str], Peer]) -> Peer:
    found = peers(RABBITMQ)
    found.protocol = request.param
    return found


def test_queue_goes_by_its_name_and_the_spool_by_both_protocols(rabbitmq, reader_of):
    queue = rabbitmq.declare()
    rabbitmq.publish(queue, numbered(0, 50), user_id="guest", message_id="m")
    reader = reader_of(rabbitmq, queue, columns="queue,value,user_id")
    start = reader.initialOffset()
    end = next_batch(reader, start, ReadMaxRows(20))
    found = rows(reader, start, end)
    assert {(row["queue"], row["user_id"]) for row in found} == {(queue, "guest")}
    reader.stop()
    rabbitmq.protocol = {AMQP091: AMQP1, AMQP1: AMQP091}[rabbitmq.protocol]
    other = reader_of(rabbitmq, queue)
    rest, last = read_until(other, end, 50 - len(found))
    assert sorted([row["value"] for row in found] + rest) == sorted(numbered(0, 50))
    assert other.latestOffset(last, ALL) == last
    rabbitmq.await_ready(queue, 0)


def test_headers_that_rabbitmq_3_omits_over_amqp_1_0_are_reported(rabbitmq, reader_of, capfd):
    dead = rabbitmq.declare()
    queue = rabbitmq.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=dead, x_message_ttl=0)
    rabbitmq.publish(queue, [b"one"], headers={"x-shop": "a", "ü": "b"})
    rabbitmq.await_ready(dead, 1)
    reader = reader_of(rabbitmq, dead, columns="value,deaths")
    start = reader.initialOffset()
    by_1_0 = rabbitmq.protocol == AMQP1
    assert rows(reader, start, next_batch(reader, start)) == [{"value": b"one", "deaths": 0 if by_1_0 else 1}]
    told = "RabbitMQ before 4.0 sends no headers, no type and no app_id by AMQP 1.0"
    assert (told in capfd.readouterr().err) is by_1_0


def test_stream_is_recognised_by_its_first_message(peers, reader_of):
    broker = peers(RABBITMQ)
    stream = broker.declare(x_queue_type="stream")
    reader = reader_of(broker, stream, protocol=AMQP1)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start

    def publish_and_read() -> None:
        with broker.connect() as connection:
            connection.channel().basic_publish("", stream, b"x", pika.BasicProperties(delivery_mode=2))
        next_batch(reader, start)

    with pytest.raises(SpoolUnusable, match=f"'{stream}' is a stream of RabbitMQ.* protocol = amqp091"):
        publish_and_read()


def test_artemis_sends_every_property_and_a_queue_of_an_address_has_two_names(peers, reader_of):
    broker = peers(ARTEMIS)
    queue = broker.declare()
    properties = {
        "content_type": "text/plain", "content_encoding": "gzip", "priority": 3, "correlation_id": "c",
        "reply_to": "r", "user_id": b"guest", "group_id": "shop", "creation_time": 1_767_225_600, "ttl": 60,
    }  # fmt: skip
    broker.publish(queue, [b"body"], message_id="m", headers={"trace": "abc", "size": 12}, **properties)
    reader = reader_of(broker, f"{queue}::{queue}", columns="all")
    start = reader.initialOffset()
    (row,) = rows(reader, start, next_batch(reader, start))
    expected = {
        "queue": f"{queue}::{queue}", "value": b"body", "message_id": "m", "correlation_id": "c", "reply_to": "r",
        "content_type": "text/plain", "content_encoding": "gzip", "priority": 3, "user_id": "guest", "app_id": "shop",
        "headers_json": '{"trace":"abc","size":12}', "message_timestamp": 1_767_225_600, "delivery_mode": 2,
        "redelivered": True, "deaths": 0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
