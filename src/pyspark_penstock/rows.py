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

SHORT_OCTETS = 255
"""Most octets of a routing key and of a property that is a text."""
PRIORITY_MAX = 255
SHOWN = 60
"""Most letters of a wrong value that an error shows."""

_TEXTS = ("message_id", "correlation_id", "reply_to", "content_type")
_PROPERTIES = (*_TEXTS, "priority")


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

    Raises `SchemaError` for what cannot be a message, with column, row (from 0, in this batch of the task) and value.
    Raises `PublishFailed` when the rows come from the target queue itself: such a query would feed itself and wait for
    itself.
    """
    _refuse_cycle(batch, options)
    _check(batch)
    return Rows(_bodies(batch.column("value")), _keys(batch, options), _properties(batch))


def _refuse_cycle(batch: "pa.RecordBatch", options: SinkOptions) -> None:
    if options.queue is None or "queue" not in batch.schema.names:
        return
    if options.queue in batch.column("queue").unique().to_pylist():
        raise PublishFailed(
            f"the query reads from and writes to queue '{options.queue}' and would wait for itself for ever; if the "
            "source is a queue of that name on another broker, leave the column queue out"
        )


def _check(batch: "pa.RecordBatch") -> None:
    """Check values that Spark's types allow and a message cannot have (AMQP 0-9-1 section 4.2.1)."""
    import pyarrow.compute as pc

    value = batch.column("value")
    if value.null_count:
        _refuse("value", value, pc.is_null(value), "must not be null, a message has a body")
    for name in (*_TEXTS, "routing_key"):
        if name in batch.schema.names:
            column = batch.column(name)
            too_long = pc.greater(pc.binary_length(column), SHORT_OCTETS)
            _refuse(name, column, too_long, f"must have at most {SHORT_OCTETS} octets")
    if "priority" in batch.schema.names:
        column = batch.column("priority")
        outside = pc.or_(pc.less(column, 0), pc.greater(column, PRIORITY_MAX))
        _refuse("priority", column, outside, f"must be 0 to {PRIORITY_MAX}")


def _refuse(name: str, column: "pa.Array", wrong: "pa.Array", rule: str) -> None:
    """Raise `SchemaError` for the first value of a column that is wrong."""
    import pyarrow.compute as pc

    row = pc.index(wrong, True).as_py()
    if row >= 0:
        found = repr(column[row].as_py())
        shown = found if len(found) <= SHOWN else f"{found[:SHOWN]}..."
        count = pc.sum(wrong).as_py()
        more = f", and {count - 1} more like it" if count > 1 else ""
        raise SchemaError(f"the penstock sink's column {name} {rule}: row {row} has {shown}{more}")


def _bodies(column: "pa.Array") -> list[bytes]:
    import pyarrow as pa

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
