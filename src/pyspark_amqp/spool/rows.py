"""Record batches of messages, with the columns of the source and a digest of each message."""

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.client.engine.receiver import Delivery
from penstock.content.header_values import header_octets, headers_to_json
from penstock.content.properties import TEXT_PROPERTIES
from pyspark_penstock.schema import SOURCE_COLUMNS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

DIGEST: Final = "digest"
"""Column of the digests, which is no column of the source."""
DIGEST_OCTETS: Final = 16
NO_DIGEST: Final = bytes(DIGEST_OCTETS)
"""Digest of messages that are not compared."""
_TOLD: Final = (*TEXT_PROPERTIES, "priority", "delivery_mode", "timestamp")
"""Properties that a broker repeats at a redelivery. A digest depends on their order."""
_COUNTED: Final = ("x-delivery-count", "x-acquired-count")
"""Headers that RabbitMQ's quorum queues change with each delivery."""
_INT64_MAX: Final = (1 << 63) - 1
_OWN_OCTETS: Final = 300
"""Bytes of a row beside its texts, headers and body: fixed widths, offsets, padding."""


class Row(NamedTuple):
    """Message with its number in the spool."""

    number: int
    queue: str
    micros: int
    """Microseconds since the epoch of its arrival."""
    delivery: Delivery
    digest: bytes


def estimated_octets(delivery: Delivery) -> int:
    """Return the approximate size of a message in a spool."""
    properties = delivery.properties
    texts = sum(len(text) for name in TEXT_PROPERTIES if (text := getattr(properties, name)))
    headers = 0 if properties.headers is None else 2 * len(repr(properties.headers))
    return len(delivery.body) + _OWN_OCTETS + texts + headers + len(delivery.exchange) + len(delivery.routing_key)


def spool_schema() -> "pa.Schema":
    """Return the Arrow schema of a spool: all columns of a source, and the digest."""
    import pyarrow as pa

    return arrow_schema(tuple(SOURCE_COLUMNS)).append(pa.field(DIGEST, pa.binary(DIGEST_OCTETS)))


def digest_of(queue: str, delivery: Delivery) -> bytes:
    """Return a digest of all data that a broker repeats when it delivers a message again."""
    properties = delivery.properties
    headers = properties.headers
    told: dict[str, Any] = {name: value for name in _TOLD if (value := getattr(properties, name)) is not None}
    if headers and (own := [(name, repr(value)) for name, value in headers.items() if name not in _COUNTED]):
        told["headers"] = sorted(own)
    hashed = blake2b(delivery.body, digest_size=DIGEST_OCTETS)
    hashed.update(repr((queue, delivery.exchange, delivery.routing_key, told)).encode())
    return hashed.digest()


def batch_of(rows: list[Row]) -> "pa.RecordBatch":
    """Return rows, which have consecutive numbers, as a record batch."""
    import pyarrow as pa

    properties = [row.delivery.properties for row in rows]
    headers = [each.headers for each in properties]
    columns: dict[str, list[Any]] = {
        "queue": [row.queue for row in rows],
        "sequence": [row.number for row in rows],
        "timestamp": [row.micros for row in rows],
        "exchange": [row.delivery.exchange for row in rows],
        "routing_key": [row.delivery.routing_key for row in rows],
        "priority": [each.priority for each in properties],
        "redelivered": [row.delivery.redelivered for row in rows],
        "value": [bytes(row.delivery.body) for row in rows],
        "headers": [None if each is None else _octets_of(each) for each in headers],
        "headers_json": [None if each is None else headers_to_json(each) for each in headers],
        "message_timestamp": [_signed(each.timestamp) for each in properties],
        "delivery_mode": [each.delivery_mode for each in properties],
        "deaths": [0 if each is None else deaths_of(each) for each in headers],
        DIGEST: [row.digest for row in rows],
    }
    for name in TEXT_PROPERTIES:
        columns[name] = [getattr(each, name) for each in properties]
    schema = spool_schema()
    return pa.RecordBatch.from_arrays([_array(columns[field.name], field.type) for field in schema], schema=schema)


def _array(values: list[Any], kind: "pa.DataType") -> "pa.Array":
    """Return values as an array; most properties have equal values, which one scan detects."""
    import pyarrow as pa

    first = values[0]
    if first is None and values.count(None) == len(values):
        return pa.nulls(len(values), kind)
    if isinstance(first, str | int) and values.count(first) == len(values):
        return pa.repeat(pa.scalar(first, type=kind), len(values))
    return pa.array(values, type=kind)


def _octets_of(headers: dict[str, object]) -> list[dict[str, object]]:
    return [{"key": name, "value": header_octets(value)} for name, value in headers.items()]


def _signed(number: int | None) -> int | None:
    """Return an unsigned number of 64 bits as the signed number of the same bits."""
    return number - (1 << 64) if number is not None and number > _INT64_MAX else number


def deaths_of(headers: dict[str, object] | None) -> int:
    """Return how often a message has died: the sum of the counts in its header x-death."""
    entries = headers.get("x-death") if headers else None
    counts = [entry.get("count") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return min(sum(count for count in counts if isinstance(count, int) and count > 0), _INT64_MAX)
