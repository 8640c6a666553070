"""Options of the source ``amqp``, validated once in the driver, without I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from penstock.settings.kind import Choices, bytes_from, whole
from pyspark_amqp.spool.settings import AMQP091, AMQP1, MESSAGE_ID, NONE, REDELIVERED, SETTLED, SPOOLED, Settings
from pyspark_penstock import parsing
from pyspark_penstock.option_table import Option, parse_options, without_spark_options
from pyspark_penstock.options import ADMISSION, DELAY_MS, LOGIN, check_least, check_password
from pyspark_penstock.parsing import Address
from pyspark_penstock.schema import DEFAULT_COLUMNS, columns
from pyspark_penstock.tls import TLS_OPTIONS, ServerAddresses, servers, tls_of

PREFETCH_MAX: Final = 65_535
"""Largest value of a field of 16 bits in basic.qos."""


def _folder(text: str) -> str:
    """Return an absolute path, from a path or a URI of the scheme file."""
    path = unquote(re.sub(r"^file:(//(localhost)?)?(?=/)", "", text)) if text.startswith("file:") else text
    if not PurePosixPath(path).is_absolute():
        raise ValueError("must be an absolute folder of a file system that the driver and the executors share")
    return path


_SOURCE: Final = (
    Option("servers", parsing.parsed(servers), ServerAddresses((Address("127.0.0.1", parsing.DEFAULT_PORT),), False)),
    Option("protocol", Choices((AMQP091, AMQP1)), AMQP091),
    *LOGIN,
    *TLS_OPTIONS,
    Option("subscribe", parsing.parsed(parsing.names)),
    Option("spool", parsing.parsed(_folder)),
    Option("spoolBytes", bytes_from(1 << 20), 1 << 30),
    Option("prefetch", whole(1, PREFETCH_MAX), 10_000),
    Option("acknowledge", Choices((SETTLED, SPOOLED)), SETTLED),
    Option("dropDuplicates", Choices((REDELIVERED, MESSAGE_ID, NONE)), REDELIVERED),
    Option("heartbeat", parsing.duration(65_535_000), 60_000),
    Option("consumerTimeout", parsing.duration(7 * 24 * 3_600_000), 30 * 60_000),
    Option("columns", parsing.parsed(columns), DEFAULT_COLUMNS),
    *ADMISSION,
)
_PENSTOCK: Final = "the source penstock"
_ELSEWHERE: Final = {
    "cursor": _PENSTOCK, "startingOffsets": f"{_PENSTOCK}: a queue of another broker has no past", "queue": "its sink",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AmqpOptions:
    """Options of a reader; ``None`` in a limit means the default of `AmqpStreamReader`."""

    settings: Settings
    columns: tuple[str, ...]
    """Columns of a row, in order."""
    fail_on_data_loss: bool
    max_rows: int | None
    max_bytes: int | None
    min_rows: int | None
    delay_ms: int
    """Longest wait for `min_rows`."""
    min_partitions: int
    max_records_per_partition: int
    wait_ms: int


def amqp_options(given: Mapping[str, object]) -> AmqpOptions:
    """Return the options of ``readStream``.

    Raises `OptionError` in one sentence for an unknown, missing or impossible option.
    """
    value = parse_options("the amqp source", _SOURCE, without_spark_options(given, frozenset()), _ELSEWHERE)
    check_password(value)
    check_least(value["minOffsetsPerTrigger"], value["maxOffsetsPerTrigger"], value["maxTriggerDelay"])
    return AmqpOptions(
        settings=_settings(value),
        columns=value["columns"],
        fail_on_data_loss=value["failOnDataLoss"],
        max_rows=value["maxOffsetsPerTrigger"],
        max_bytes=value["maxBytesPerTrigger"],
        min_rows=value["minOffsetsPerTrigger"],
        delay_ms=DELAY_MS if value["maxTriggerDelay"] is None else value["maxTriggerDelay"],
        min_partitions=value["minPartitions"],
        max_records_per_partition=value["maxRecordsPerPartition"],
        wait_ms=value["fetchWait"],
    )


def _settings(value: dict[str, Any]) -> Settings:
    return Settings(
        spool=value["spool"],
        servers=tuple((address.host, address.port) for address in value["servers"].addresses),
        protocol=value["protocol"],
        vhost=value["vhost"],
        user=value["user"],
        password=value["password"],
        queues=value["subscribe"],
        prefetch=value["prefetch"],
        spool_octets=value["spoolBytes"],
        acknowledge=value["acknowledge"],
        duplicates=value["dropDuplicates"],
        heartbeat=-(-value["heartbeat"] // 1_000),
        consumer_timeout=value["consumerTimeout"] / 1_000,
        retries=value["fetchOffset.numRetries"],
        retry_seconds=value["fetchOffset.retryIntervalMs"] / 1_000,
        tls=tls_of(value),
        password_file=value["passwordFile"],
    )
