"""Spread of a sink's rows over several brokers: the choice of each row's broker.

Every row has one broker, which stays the same when Spark runs the batch again. Without ``spreadColumn`` that broker
follows from the number of the partition and the number of the batch: another broker is first in each batch, so small
batches are spread too. With the option the broker follows from the value of a column, so all rows of one value go to
one broker, in their order.

A broker that is full or unavailable delays only its share: the tasks (by partition) or rows (by column) that belong to
it. A task that has rows for several brokers waits once the window of one of them is used up.

The list of brokers is part of a batch. A batch that is run again with other brokers would send rows to a broker that
does not know the enqueued ones. So each broker records the list when the batch begins, before any of them has a row,
and refuses the batch with another list. Only the next batch may have another list.
"""

import hashlib
import zlib
from typing import TYPE_CHECKING

from penstock.settings.lengths import SPREAD_CHARACTERS
from pyspark_penstock.errors import SchemaError
from pyspark_penstock.options import SinkOptions
from pyspark_penstock.parsing import Address

if TYPE_CHECKING:
    import pyarrow as pa


def spread_servers(options: SinkOptions) -> tuple[Address, ...]:
    """Return the servers of a sink in the order by which rows are spread, independent of the option's order."""
    return tuple(sorted(options.access.servers, key=str))


def spread_text(options: SinkOptions) -> str:
    """Return the spread of a sink, as brokers record it: printable ASCII; empty for one server."""
    if len(options.access.servers) == 1:
        return ""
    way = "partition" if options.spread_column is None else f"column {options.spread_column}"
    names = ", ".join(map(str, spread_servers(options)))
    text = f"servers {names} by {way}".encode("ascii", "backslashreplace").decode()
    if len(text) <= SPREAD_CHARACTERS and text.isprintable():
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    shown = "".join([each for each in text if each.isprintable()])
    return f"{shown[: SPREAD_CHARACTERS - 40]}... #{digest}"


def server_of(options: SinkOptions, partition: int, batch: int) -> Address:
    """Return the server of a partition that is spread by its number."""
    servers = spread_servers(options)
    return servers[(partition + batch) % len(servers)]


def shares_of(batch: "pa.RecordBatch", name: str, count: int) -> "pa.Array":
    """Return the index of the server of each row, by its value in a column; null is a value too.

    The index follows only from the bytes of the value, in every process and version. Raises `SchemaError` for a column
    that the rows lack, and for a type other than text, binary or integer.
    """
    import pyarrow as pa
    import pyarrow.types as types

    if name not in batch.schema.names:
        raise SchemaError(
            f"option spreadColumn names the column '{name}', which the rows do not have: they have "
            f"{', '.join(batch.schema.names)}"
        )
    column = batch.column(name)
    kind = column.type
    if not (types.is_string(kind) or types.is_binary(kind) or types.is_integer(kind)):
        raise SchemaError(
            f"option spreadColumn names the column '{name}' of type {kind}: it must be text, binary or integer"
        )
    encoded = column.dictionary_encode(null_encoding="encode")
    found = [zlib.crc32(_octets(value)) % count for value in encoded.dictionary.to_pylist()]
    return pa.array(found, pa.int32()).take(encoded.indices)


def _octets(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else str(value).encode()
