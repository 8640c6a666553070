"""A Spark source as one writes it without Penstock's: pika, one message at a time, rows as tuples."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

ROWS_A_BATCH = 20_000


class PikaSource(DataSource):
    """Source of the queue that the option `queue` names, up to `rows` messages."""

    @classmethod
    def name(cls) -> str:
        return "pika"

    def schema(self) -> str:
        return "sequence bigint, timestamp timestamp, routing_key string, message_id string, value binary"

    def streamReader(self, schema: Any) -> "PikaReader":
        return PikaReader(dict(self.options))


class PikaReader(DataSourceStreamReader):
    """Reader that numbers what it consumes; nothing can be read twice."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._planned = 0

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        self._planned = min(self._planned + ROWS_A_BATCH, int(self._options["rows"]))
        return {"n": self._planned}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition((start["n"], end["n"]))]

    def commit(self, end: dict[str, int]) -> None:
        pass

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        import datetime

        import pika  # type: ignore[import-untyped]

        first, last = partition.value
        host, port = self._options["servers"].split(":")
        connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1000)
        for method, properties, body in channel.consume(self._options["queue"]):
            first += 1
            yield first, datetime.datetime.now(datetime.UTC), method.routing_key, properties.message_id, body
            if first % 500 == 0 or first == last:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if first == last:
                break
        channel.cancel()
        connection.close()
