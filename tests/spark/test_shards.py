"""Spark at a node with shards: source and sink in virtual hosts of two shards, through one port and through kills."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pika
import pytest

from tests.spark.conftest import close_links, until
from tests.support.struck_broker import NEIGHBOUR, SHARD, StruckBroker, struck_broker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 200
SOURCE, TARGET = "orders", "bills"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[StruckBroker]:
    """A node whose second shard has the source, and whose first has the target."""
    with struck_broker(tmp_path, SHARD) as found:
        for vhost, queue in ((NEIGHBOUR, SOURCE), ("%2f", TARGET)):
            with pika.BlockingConnection(pika.URLParameters(found.url + vhost)) as connection:
                connection.channel().queue_declare(queue, durable=True)
        yield found
        close_links()
        assert "Traceback" not in found.process.log()


def publish(node: StruckBroker, numbers: Iterable[int]) -> None:
    """Publish persistent numbers to the source."""
    with pika.BlockingConnection(pika.URLParameters(node.url + NEIGHBOUR)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in numbers:
            properties = pika.BasicProperties(delivery_mode=2, message_id=str(number))
            channel.basic_publish("", SOURCE, b"%d" % number, properties)


def taken(node: StruckBroker, vhost: str, queue: str) -> list[int]:
    """Take all messages of a queue."""
    with pika.BlockingConnection(pika.URLParameters(node.url + vhost)) as connection:
        channel, found = connection.channel(), []
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(int(got[2]))
        return found


def depth(node: StruckBroker, vhost: str, queue: str) -> int:
    with pika.BlockingConnection(pika.URLParameters(node.url + vhost)) as connection:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)


def queues_of(checkpoint: Path) -> list[str]:
    """Return the names of queues in the newest offset of a checkpoint."""
    newest = max(
        (path for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()), key=lambda p: int(p.name)
    )
    return sorted(json.loads(newest.read_text().splitlines()[-1]))


def test_query_between_two_shards_has_each_row_once_through_kills_of_both(spark, node, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    address = f"{node.process.host}:{node.process.port}"
    publish(node, range(ROWS))
    frame = (
        spark.readStream.format("penstock")
        .options(servers=address, vhost=NEIGHBOUR, subscribe=SOURCE, cursor="app", maxOffsetsPerTrigger="50")
        .option("onServerLoss", "wait")
        .load()
        .select("value", "message_id")
    )
    writer = frame.writeStream.format("penstock").options(servers=address, queue=TARGET, delivery="dedup")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="0 seconds").start()
    try:
        until(lambda: depth(node, "%2f", TARGET) >= 50, "the first batch is in the target")
        before = queues_of(checkpoint)
        for shard in ("2", "1"):
            node.strike(shard)
        publish(node, range(ROWS, 2 * ROWS))
        until(lambda: depth(node, "%2f", TARGET) >= 2 * ROWS, "all rows are in the target")
        assert query.isActive
        assert queues_of(checkpoint) == before
    finally:
        query.stop()
    assert sorted(taken(node, "%2f", TARGET)) == list(range(2 * ROWS))


def test_batch_read_of_one_vhost_is_written_to_another_through_one_port(spark, node):
    address = f"{node.process.host}:{node.process.port}"
    publish(node, range(ROWS))
    rows = spark.read.format("penstock").options(servers=address, vhost=NEIGHBOUR, subscribe=SOURCE).load()
    rows.select("value").write.format("penstock").mode("append").options(servers=address, queue=TARGET).save()
    assert sorted(taken(node, "%2f", TARGET)) == list(range(ROWS))
    assert depth(node, NEIGHBOUR, SOURCE) == ROWS
