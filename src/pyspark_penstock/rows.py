"""Conversion of sink rows to messages: the columns that are sent, their types, and the refusal of invalid rows."""

from typing import TYPE_CHECKING, Any

from penstock.content.header_values import headers_from_json
from penstock.content.message_columns import text_or_octets
from penstock.content.properties import TEXT_PROPERTIES, Properties
from pyspark_penstock.errors import PublishFailed, SchemaError
from pyspark_penstock.options import SinkOptions
from pyspark_penstock.schema import SINK_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

PERSISTENT = 2
"""delivery_mode of messages without one: data that Spark has committed must survive a restart of a durable broker."""

SHORT_OCTETS = 255
"""Most bytes of a routing key and of a text property."""
OCTET_MAX = 255
"""Largest priority and delivery mode."""
SHOWN = 60
"""Most characters of a wrong value in an error."""

SHORT_TEXTS = ("routing_key", *TEXT_PROPERTIES)
_OCTETS = ("priority", "delivery_mode")
_EXPIRATION = "^[0-9]{1,10}$"


def message_columns(batch: "pa.RecordBatch", options: SinkOptions) -> "pa.RecordBatch":
    """Return the columns of a batch that are sent, in the types of a block; columns without a value are left out.

    Raises `SchemaError` for a row that cannot be a message, with column, row (from 0, in this batch of the task) and
    value. Raises `PublishFailed` when the rows come from the target queue itself: such a query would feed itself and
    wait for itself.
    """
    import pyarrow as pa

    _refuse_cycle(batch, options)
    _check(batch)
    kinds = _kinds()
    columns = {}
    for name in SINK_COLUMNS:
        if name not in batch.schema.names or (name == "routing_key" and _has_one_key(options)):
            continue
        column = batch.column(name)
        if name == "value" or column.null_count < len(column):
            columns[name] = column if column.type == kinds[name] else column.cast(kinds[name])
    if "delivery_mode" in columns and columns["delivery_mode"].null_count:
        columns["delivery_mode"] = columns["delivery_mode"].fill_null(PERSISTENT)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def constants(batch: "pa.RecordBatch", options: SinkOptions) -> dict[str, object]:
    """Return the columns that have one value for all rows of a batch of `message_columns`."""
    found: dict[str, object] = {"exchange": options.exchange or ""}
    if _has_one_key(options):
        # As in Spark's Kafka sink the option takes precedence over the column; a queue's routing key is its name.
        found["routing_key"] = options.queue or options.routing_key
    if "delivery_mode" not in batch.schema.names:
        found["delivery_mode"] = PERSISTENT
    return found


def properties_of(row: dict[str, Any]) -> Properties:
    """Return the properties of one row of `message_columns`, for a message that is not sent in a block.

    Raises `SchemaError` for ``headers_json`` that is not a JSON object of headers.
    """
    found = Properties(**{name: row.get(name) for name in (*TEXT_PROPERTIES, "priority")})
    found.delivery_mode = row.get("delivery_mode", PERSISTENT)
    seconds = row.get("message_timestamp")
    found.timestamp = seconds + (1 << 64) if seconds is not None and seconds < 0 else seconds
    found.headers = _headers(row)
    return found


def _headers(row: dict[str, Any]) -> dict[str, object] | None:
    if row.get("headers_json") is not None:
        try:
            return headers_from_json(row["headers_json"])
        except ValueError as error:
            raise SchemaError(f"the penstock sink's column headers_json {error}") from None
    if row.get("headers") is None:
        return None
    return {item["key"]: text_or_octets(item["value"]) for item in row["headers"]}


def _has_one_key(options: SinkOptions) -> bool:
    return options.queue is not None or options.routing_key is not None


def _kinds() -> "dict[str, pa.DataType]":
    """Return the Arrow type of each column in a block."""
    import pyarrow as pa

    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    found = {
        "value": pa.binary(),
        "headers": headers,
        "headers_json": pa.string(),
        "message_timestamp": pa.int64(),
        **dict.fromkeys(SHORT_TEXTS, pa.string()),
        **dict.fromkeys(_OCTETS, pa.int32()),
    }
    assert found.keys() == set(SINK_COLUMNS), "a column of the sink has no type"
    return found


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
    for name in SHORT_TEXTS:
        if name in batch.schema.names:
            column = batch.column(name)
            too_long = pc.greater(pc.binary_length(column), SHORT_OCTETS)
            _refuse(name, column, too_long, f"must have at most {SHORT_OCTETS} bytes")
    for name in _OCTETS:
        if name in batch.schema.names:
            column = batch.column(name)
            outside = pc.or_(pc.less(column, 0), pc.greater(column, OCTET_MAX))
            _refuse(name, column, outside, f"must be 0 to {OCTET_MAX}")
    if "expiration" in batch.schema.names:
        column = batch.column("expiration")
        wrong = pc.invert(pc.match_substring_regex(column, _EXPIRATION))
        _refuse("expiration", column, wrong, "must be a number of milliseconds, as text")
    if "headers" in batch.schema.names:
        _check_headers(batch.column("headers"))


def _check_headers(column: "pa.Array") -> None:
    """Check the names of headers; the row is searched only after a failure."""
    import pyarrow.compute as pc

    keys = pc.struct_field(column.flatten(), "key")
    lengths = pc.fill_null(pc.binary_length(keys), SHORT_OCTETS + 1)
    if pc.any(pc.greater(lengths, SHORT_OCTETS)).as_py():
        wrong = [
            row is not None and any(item is None or not _is_name(item["key"]) for item in row)
            for row in column.to_pylist()
        ]
        import pyarrow as pa

        _refuse("headers", column, pa.array(wrong), f"must have keys of at most {SHORT_OCTETS} bytes, not null")


def _is_name(key: str | None) -> bool:
    return key is not None and len(key.encode()) <= SHORT_OCTETS


def _refuse(name: str, column: "pa.Array", wrong: "pa.Array", rule: str) -> None:
    """Raise `SchemaError` for the first wrong value of a column."""
    import pyarrow.compute as pc

    row = pc.index(wrong, True).as_py()
    if row >= 0:
        found = repr(column[row].as_py())
        shown = found if len(found) <= SHOWN else f"{found[:SHOWN]}..."
        count = pc.sum(wrong).as_py()
        more = f", and {count - 1} more like it" if count > 1 else ""
        raise SchemaError(f"the penstock sink's column {name} {rule}: row {row} has {shown}{more}")
