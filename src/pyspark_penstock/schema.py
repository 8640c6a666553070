"""Schemas: the columns of a source row, and the columns that a sink accepts.

The Arrow schema is written out next to Spark's because Spark compares them field by field (name, order, type, time
zone, nullability) and reports a difference only at run time; a test compares the two. pyarrow is imported on use: Spark
imports this package in every query's look-up of data sources.
"""

import difflib
from functools import cache
from typing import TYPE_CHECKING

from pyspark_penstock.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SOURCE_DDL = (
    "queue string, sequence bigint, timestamp timestamp, exchange string, routing_key string, message_id string, "
    "correlation_id string, reply_to string, content_type string, priority int, redelivered boolean, "
    "expiration timestamp, value binary"
)
"""Columns of a source row.

Message fields as in AMQP 0-9-1's basic class; ``timestamp`` is the arrival at the broker.
"""

SINK_COLUMNS = ("value", "routing_key", "message_id", "correlation_id", "reply_to", "content_type", "priority")
"""Columns that a sink accepts; ``value`` alone is required."""

# A source row can be written to a sink as it is: columns about its origin are ignored there.
_PASSED_OVER = frozenset({"queue", "sequence", "timestamp", "exchange", "redelivered", "expiration"})
_SINK_TYPES = {"value": ("binary", "string"), "priority": ("tinyint", "smallint", "int", "bigint")}


@cache
def arrow_schema() -> "pa.Schema":
    """Return the Arrow schema of a source row, equal to what Spark derives from `SOURCE_DDL`."""
    import pyarrow as pa

    instant = pa.timestamp("us", "UTC")
    return pa.schema(
        [
            ("queue", pa.string()),
            ("sequence", pa.int64()),
            ("timestamp", instant),
            ("exchange", pa.string()),
            ("routing_key", pa.string()),
            ("message_id", pa.string()),
            ("correlation_id", pa.string()),
            ("reply_to", pa.string()),
            ("content_type", pa.string()),
            ("priority", pa.int32()),
            ("redelivered", pa.bool_()),
            ("expiration", instant),
            ("value", pa.binary()),
        ]
    )


def check_source_schema(schema: "StructType") -> None:
    """Refuse a user's schema that differs from the source's: columns are fixed, as in Spark's Kafka source.

    Raises `SchemaError`.
    """
    given = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    own = [(name, kind) for name, kind in (part.strip().split(" ") for part in SOURCE_DDL.split(","))]
    if given != own:
        raise SchemaError(f"the penstock source has a fixed schema, leave out .schema(...): {SOURCE_DDL}")


def check_sink_schema(schema: "StructType") -> None:
    """Refuse columns that a sink cannot send.

    Raises `SchemaError` for a missing ``value``, an unknown column (with a near match) or a wrong type.
    """
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise SchemaError(f"the penstock sink needs a column value (binary or string); it was given {', '.join(types)}")
    for column, kind in types.items():
        if column in _PASSED_OVER:
            continue
        if column not in SINK_COLUMNS:
            near = difflib.get_close_matches(column, SINK_COLUMNS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(SINK_COLUMNS)}"
            raise SchemaError(f"the penstock sink has no column '{column}'; {hint}")
        allowed = _SINK_TYPES.get(column, ("string",))
        if kind not in allowed:
            raise SchemaError(f"the penstock sink's column {column} must be {' or '.join(allowed)}, not {kind}")
