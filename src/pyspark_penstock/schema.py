"""Schemas: the columns of a source row, and the columns that a sink accepts.

The Arrow schema is written out next to Spark's because Spark compares them field by field (name, order, type, time
zone, nullability) and reports a difference only at run time. A test compares the two. pyarrow is imported on use: Spark
imports this package in every query's look-up of data sources.
"""

import difflib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from penstock.content.properties import TEXT_PROPERTIES
from pyspark_penstock.errors import SchemaError
from pyspark_penstock.logs import LOG

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SOURCE_COLUMNS = {
    "queue": "string",
    "sequence": "bigint",
    "timestamp": "timestamp",
    "exchange": "string",
    "routing_key": "string",
    "message_id": "string",
    "correlation_id": "string",
    "reply_to": "string",
    "content_type": "string",
    "priority": "int",
    "redelivered": "boolean",
    "expiration": "string",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "headers_json": "string",
    "type": "string",
    "app_id": "string",
    "user_id": "string",
    "content_encoding": "string",
    "message_timestamp": "bigint",
    "delivery_mode": "int",
    "deaths": "bigint",
}
"""All columns of a source row with their types in Spark, in the order of ``columns=all``.

Message fields as in AMQP 0-9-1's basic class; ``timestamp`` is the arrival at the broker, ``message_timestamp`` the
publisher's property.
"""

DEFAULT_COLUMNS = tuple(SOURCE_COLUMNS)[:13]
"""Columns without the option ``columns``: up to ``value``."""

SINK_COLUMNS = (
    "value",
    "routing_key",
    *TEXT_PROPERTIES,
    "priority",
    "headers",
    "headers_json",
    "message_timestamp",
    "delivery_mode",
)
"""Columns that a sink accepts; ``value`` alone is required."""

# A source row can be written to a sink unchanged: columns about its origin are ignored there.
_PASSED_OVER = frozenset({"queue", "sequence", "timestamp", "exchange", "redelivered", "deaths"})
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_SINK_TYPES = {
    "value": ("binary", "string"),
    "priority": _INTEGERS,
    "delivery_mode": _INTEGERS,
    "message_timestamp": _INTEGERS,
    "headers": (SOURCE_COLUMNS["headers"],),
}


def columns(text: str) -> tuple[str, ...]:
    """Return the columns of the option ``columns``: names separated by commas, or ``all``.

    Raises ``ValueError`` with the second half of a sentence.
    """
    if text == "all":
        return tuple(SOURCE_COLUMNS)
    found = tuple(part.strip() for part in text.split(","))
    for name in found:
        if name not in SOURCE_COLUMNS:
            near = difflib.get_close_matches(name, SOURCE_COLUMNS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SOURCE_COLUMNS)}, or all"
            raise ValueError(f"has no column '{name}'; {hint}")
    if len(set(found)) < len(found):
        raise ValueError("names a column twice")
    return found


def warn_of_left_out(found: Mapping[str, list[str]]) -> bool:
    """Warn of columns, by queue, that messages have values for and the default columns lack, if any."""
    for queue, names in found.items():
        if names:
            LOG.warning(
                "penstock: messages of queue '%s' have %s, which the default columns leave out; name the columns that "
                "you need in the option columns, or all",
                queue,
                ", ".join(names),
            )
            return True
    return False


def source_ddl(names: tuple[str, ...], comment: str = "") -> str:
    """Return these columns in the format of Spark's ``schema()``, with a comment of the first column."""
    first, *others = (f"{name} {SOURCE_COLUMNS[name]}" for name in names)
    if comment:
        escaped = comment.replace("\\", "\\\\").replace("'", "\\'")
        first = f"{first} COMMENT '{escaped}'"
    return ", ".join((first, *others))


@cache
def arrow_schema(names: tuple[str, ...] = DEFAULT_COLUMNS) -> "pa.Schema":
    """Return the Arrow schema of a source row, equal to the schema that Spark derives from `source_ddl`."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        # Spark's name of a list's items is element.
        "array<struct<key:string,value:binary>>": pa.list_(
            pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
    }
    return pa.schema([(name, kinds[SOURCE_COLUMNS[name]]) for name in names])


def check_source_schema(schema: "StructType", names: tuple[str, ...]) -> None:
    """Refuse a user's schema that differs from the source's columns, which the option ``columns`` chooses.

    Raises `SchemaError`.
    """
    given = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    own = [(name, SOURCE_COLUMNS[name]) for name in names]
    if given != own:
        raise SchemaError(
            f"the source has the columns {source_ddl(names)}; leave out .schema(...), and choose columns by "
            "the option columns"
        )


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
