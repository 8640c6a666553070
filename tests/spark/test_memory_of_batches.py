"""Batches of a long query leave no objects in Spark's Python processes and nothing at the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock import connections
from pyspark_penstock.options import sink_options
from pyspark_penstock.writer import PenstockStreamWriter
from tests.profiles import examples
from tests.spark.conftest import RunningBroker
from tests.support.kept_objects import PARTS, growth
from tests.support.spark_readers import bodies, numbered

BATCHES = max(examples(100), 20)
"""Batches of one part of a run."""


def links() -> tuple[int, int]:
    """Return the connections that tasks of this process have open."""
    return len(connections._links), len(connections._block_connections)


def at_broker(broker: RunningBroker) -> dict[str, int]:
    """Return the numbers of connections, cursors and queues of a broker."""
    return {kind: len(broker.control("list", kind=kind)["items"]) for kind in ("connections", "cursors", "queues")}


def test_batches_of_a_source_keep_no_object_and_open_no_connection(
    broker: RunningBroker, queue: str, open_reader: Callable[..., Any]
) -> None:
    reader = open_reader(broker, subscribe=queue, cursor=f"memory-{queue}")
    broker.publish(queue, numbered(3 * PARTS * BATCHES))
    position = [reader.initialOffset()]
    seen: list[tuple[tuple[int, int], dict[str, int]]] = []

    def batch() -> None:
        start, end = position[0], reader.latestOffset(position[0], ReadMaxRows(3))
        first = start["q"][queue]
        assert bodies(reader, start, end) == numbered(first, first + 3)
        reader.commit(end)
        position[0] = end
        if end["q"][queue] in (3 * BATCHES, 3 * PARTS * BATCHES):
            seen.append((links(), at_broker(broker)))

    assert growth(batch, BATCHES) == {}
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert broker.depth(queue) == 0


def test_batches_of_a_sink_keep_no_object_and_open_no_connection(broker: RunningBroker, queue: str) -> None:
    writer = PenstockStreamWriter(
        sink_options({"servers": broker.address, "queue": queue, "delivery": "at-least-once"})
    )
    rows = pa.RecordBatch.from_pydict({"value": pa.array(numbered(3), pa.binary())})
    number = [0]
    seen: list[tuple[tuple[int, int], dict[str, int]]] = []

    def batch() -> None:
        writer.commit([writer.write(iter([rows]))], number[0])
        number[0] += 1
        if number[0] in (BATCHES, PARTS * BATCHES):
            seen.append((links(), at_broker(broker)))

    assert growth(batch, BATCHES) == {}
    assert seen[0] == seen[1]
    assert broker.depth(queue) == 3 * PARTS * BATCHES


def test_growth_finds_objects_that_a_step_keeps() -> None:
    kept: list[object] = []
    assert growth(lambda: kept.append((kept,)), 20).keys() == {"builtins.tuple", "entries of builtins.list"}
    assert growth(lambda: kept.append(1), 20).keys() == {"entries of builtins.list"}
    assert growth(lambda: [kept], 20) == {}
