"""Conversion of sink rows to messages: bodies, routing keys and properties, column by column."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.client import Properties
from pyspark_penstock.errors import PublishFailed, SchemaError
from pyspark_penstock.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

PERSISTENT = 2
"""delivery_mode of every message: data that Spark has committed must survive a restart of a durable broker."""

_PROPERTIES = ("message_id", "correlation_id", "reply_to", "content_type", "priority")


@dataclass(frozen=True, slots=True)
class Rows:
    """Messages to send: bodies, and one routing key and one set of properties for each, or for all."""

    bodies: list[bytes]
    keys: list[str] | None
    properties: Properties | list[Properties]

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.bodies)

    def only(self, places: Iterable[int]) -> "Rows":
        """Return the messages at these indexes, in this order."""
        chosen = list(places)
        return Rows(
            [self.bodies[place] for place in chosen],
            None if self.keys is None else [self.keys[place] for place in chosen],
            [self.properties[place] for place in chosen] if isinstance(self.properties, list) else self.properties,
        )


def rows_of(batch: "pa.RecordBatch", options: SinkOptions) -> Rows:
    """Return the messages of a batch.

    Raises `SchemaError` for a null value, and `PublishFailed` when the rows come from the target queue itself: such a
    query would feed itself and wait for itself.
    """
    _refuse_cycle(batch, options)
    return Rows(_bodies(batch.column("value")), _keys(batch, options), _properties(batch))


def _refuse_cycle(batch: "pa.RecordBatch", options: SinkOptions) -> None:
    if options.queue is None or "queue" not in batch.schema.names:
        return
    if options.queue in batch.column("queue").unique().to_pylist():
        raise PublishFailed(
            f"the query reads from and writes to queue '{options.queue}' and would wait for itself for ever; if the "
            "source is a queue of that name on another broker, leave the column queue out"
        )


def _bodies(column: "pa.Array") -> list[bytes]:
    import pyarrow as pa

    if column.null_count:
        raise SchemaError(f"{column.null_count} rows have a null value, and a message has no null body")
    bodies: list[bytes] = column.cast(pa.binary()).to_pylist()
    return bodies


def _keys(batch: "pa.RecordBatch", options: SinkOptions) -> list[str] | None:
    # As in Spark's Kafka sink the option takes precedence over the column; a queue's routing key is its name.
    if options.queue is not None or options.routing_key is not None or "routing_key" not in batch.schema.names:
        return None
    return [key or "" for key in batch.column("routing_key").to_pylist()]


def _properties(batch: "pa.RecordBatch") -> Properties | list[Properties]:
    columns: dict[str, list[Any]] = {}
    for name in _PROPERTIES:
        if name in batch.schema.names and batch.column(name).null_count < batch.num_rows:
            columns[name] = batch.column(name).to_pylist()
    if not columns:
        return Properties(delivery_mode=PERSISTENT)
    rows = zip(*columns.values(), strict=True)
    return [Properties(delivery_mode=PERSISTENT, **dict(zip(columns, row, strict=True))) for row in rows]
