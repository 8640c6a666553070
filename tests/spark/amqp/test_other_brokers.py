"""What other brokers of AMQP 1.0 do in their own way: RabbitMQ 3 with its plugin.

PENSTOCK_BESIDE=rabbitmq runs the tests of `test_reader.py` with it as well.
"""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from bench.brokers import RABBITMQ
from pyspark_amqp.errors import SpoolUnusable
from pyspark_amqp.spool.settings import AMQP091, AMQP1
from tests.profiles import thorough
from tests.spark.amqp.conftest import next_batch, read_until
from tests.support.amqp_peers import PEERS, Peer
from tests.support.spark_readers import ALL, numbered, rows

pytestmark = pytest.mark.skipif(
    RABBITMQ not in PEERS and not thorough(), reason="PENSTOCK_BESIDE=rabbitmq or make test-long asks for it"
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


def test_headers_that_rabbitmq_3_leaves_out_by_amqp_1_0_are_told(rabbitmq, reader_of, capfd):
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


def test_stream_is_told_by_its_first_message(peers, reader_of):
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
