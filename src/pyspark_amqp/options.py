"""Options of the source ``amqp``, validated once in the driver, without I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from pyspark_amqp.spool.settings import MESSAGE_ID, NONE, REDELIVERED, SETTLED, SPOOLED, Settings, Tls
from pyspark_penstock import parsing
from pyspark_penstock.errors import OptionError
from pyspark_penstock.option_table import Option, parse_options, without_spark_options
from pyspark_penstock.options import ADMISSION, DELAY_MS, LOGIN, check_least
from pyspark_penstock.parsing import Address
from pyspark_penstock.schema import DEFAULT_COLUMNS, columns

TLS_PORT: Final = 5671
"""IANA's port for AMQP by TLS."""
PREFETCH_MAX: Final = 65_535
"""Most of a field of 16 bits in basic.qos."""
_TLS: Final = ("tlsCaFile", "tlsCertificateFile", "tlsKeyFile", "tlsKeyPassword")


@dataclass(frozen=True, slots=True)
class Servers:
    """Nodes of one broker, tried in turn."""

    addresses: tuple[Address, ...]
    tls: bool


def _servers(text: str) -> Servers:
    """Return addresses, each with `amqp://` or `amqps://` before it, or all without."""
    parts = [part.strip() for part in text.split(",")]
    tls = {part.startswith("amqps://") for part in parts}
    if len(tls) > 1:
        raise ValueError("has addresses with amqps:// and without")
    bare = [re.sub(r"^amqps?://", "", part).rstrip("/") for part in parts]
    if True in tls:
        bare = [part if re.search(r":\d+$", part) else f"{part}:{TLS_PORT}" for part in bare]
    return Servers(parsing.addresses(",".join(bare)), True in tls)


def _folder(text: str) -> str:
    """Return an absolute path, which may be given as a URI of the scheme file."""
    path = unquote(re.sub(r"^file:(//(localhost)?)?(?=/)", "", text)) if text.startswith("file:") else text
    if not PurePosixPath(path).is_absolute():
        raise ValueError("must be an absolute folder of a file system that the driver and the executors share")
    return path


_SOURCE: Final = (
    Option("servers", _servers, Servers((Address("127.0.0.1", parsing.DEFAULT_PORT),), False)),
    *LOGIN,
    Option("tlsCaFile", parsing.text, None),
    Option("tlsCertificateFile", parsing.text, None),
    Option("tlsKeyFile", parsing.text, None),
    Option("tlsKeyPassword", parsing.text, None, secret=True),
    Option("subscribe", parsing.names),
    Option("spool", _folder),
    Option("spoolBytes", parsing.size(1 << 20), 1 << 30),
    Option("prefetch", parsing.integer(1, PREFETCH_MAX), 10_000),
    Option("acknowledge", parsing.one_of(SETTLED, SPOOLED), SETTLED),
    Option("dropDuplicates", parsing.one_of(REDELIVERED, MESSAGE_ID, NONE), REDELIVERED),
    Option("heartbeat", parsing.duration(65_535_000), 60_000),
    Option("consumerTimeout", parsing.duration(7 * 24 * 3_600_000), 30 * 60_000),
    Option("columns", columns, DEFAULT_COLUMNS),
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
        tls=_tls(value),
    )


def _tls(value: dict[str, Any]) -> Tls | None:
    given = [name for name in _TLS if value[name] is not None]
    if not value["servers"].tls:
        if given:
            raise OptionError(f"option {given[0]} needs servers that begin with amqps://")
        return None
    if value["tlsCertificateFile"] is None and given not in ([], ["tlsCaFile"]):
        raise OptionError("the options tlsKeyFile and tlsKeyPassword need tlsCertificateFile")
    return Tls(*(value[name] for name in _TLS))
