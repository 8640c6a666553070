"""Options of a batch read: the options of the source that apply, and the end of the read; without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_penstock import parsing
from pyspark_penstock.errors import OptionError
from pyspark_penstock.option_table import Option, parse_options, without_spark_options
from pyspark_penstock.options import SOURCE, Access, Retries, SourceOptions, access_of
from pyspark_penstock.schema import DEFAULT_COLUMNS
from pyspark_penstock.subscription import Starting, Subscription, check_starting, checked_subscription
from pyspark_penstock.tls import TLS_OPTIONS

_SHARED = frozenset(
    {
        "servers",
        "vhost",
        "user",
        "password",
        "passwordFile",
        "subscribe",
        "subscribePattern",
        "assign",
        "columns",
        "startingTimestamp",
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "fetchBlockRows",
        "fetchBlockBytes",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        *(option.name for option in TLS_OPTIONS),
    }
)

BATCH_ONLY = (
    Option("endingOffsets", parsing.parsed(parsing.starting), None),
    Option("endingTimestamp", parsing.parsed(parsing.instant), None),
    # The broker ends a lease that is unused for this time, at most an hour.
    Option("leaseTimeout", parsing.duration(3_600_000), 300_000),
)

BATCH = (
    *(option for option in SOURCE if option.name in _SHARED),
    Option("cursor", parsing.NAME, None),
    Option("startingOffsets", parsing.parsed(parsing.starting), None),
    *BATCH_ONLY,
)

_ELSEWHERE = {option.name: "readStream" for option in SOURCE}


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of ``spark.read``."""

    access: Access
    subscription: Subscription | None
    """Queues; None for the cursor's queues."""
    cursor: str | None
    """Cursor whose unsettled messages are read unless a start is given; None for all present messages."""
    columns: tuple[str, ...]
    """Columns of a row, in order; `chose_columns` is true if the option is given."""
    chose_columns: bool
    starting: Starting | None
    ending: Starting
    lease_ms: int
    fail_on_data_loss: bool
    min_partitions: int
    max_records_per_partition: int
    block_rows: int
    block_bytes: int
    retries: Retries

    @property
    def waits(self) -> bool:
        """False: a batch read needs all of its servers."""
        return False

    @property
    def subject(self) -> str:
        """Description of the reader, for messages."""
        queues = f"the queues of cursor '{self.cursor}'" if self.subscription is None else str(self.subscription)
        return f"the batch read of {queues}"


ReadOptions = SourceOptions | BatchOptions
"""Options of a stream or of a batch read."""


def batch_options(given: Mapping[str, object]) -> BatchOptions:
    """Return the options of ``read``.

    Raises `OptionError` in one sentence for an unknown, missing or impossible option.
    """
    value = parse_options("the penstock batch read", BATCH, without_spark_options(given, frozenset()), _ELSEWHERE)
    access = access_of(value)
    names, pattern, assigned = value["subscribe"], value["subscribePattern"], value["assign"]
    subscription = None
    if value["cursor"] is None or any(each is not None for each in (names, pattern, assigned)):
        subscription = checked_subscription(names, pattern, assigned, access.servers)
    starting = None
    if value["startingOffsets"] is not None or value["startingTimestamp"] is not None:
        starting = Starting(value["startingOffsets"] or "earliest", value["startingTimestamp"])
    ending = Starting(value["endingOffsets"] or "latest", value["endingTimestamp"])
    _check_borders(starting, ending, subscription, access)
    if value["leaseTimeout"] < 1:
        raise OptionError("option leaseTimeout must be at least 1ms")
    return BatchOptions(
        access=access,
        subscription=subscription,
        cursor=value["cursor"],
        columns=value["columns"] or DEFAULT_COLUMNS,
        chose_columns=value["columns"] is not None,
        starting=starting,
        ending=ending,
        lease_ms=value["leaseTimeout"],
        fail_on_data_loss=value["failOnDataLoss"],
        min_partitions=value["minPartitions"],
        max_records_per_partition=value["maxRecordsPerPartition"],
        block_rows=value["fetchBlockRows"],
        block_bytes=value["fetchBlockBytes"],
        retries=Retries(value["fetchOffset.numRetries"], value["fetchOffset.retryIntervalMs"]),
    )


def _check_borders(
    starting: Starting | None, ending: Starting, subscription: Subscription | None, access: Access
) -> None:
    for option, border in (("starting", starting), ("ending", ending)):
        if border is None:
            continue
        if subscription is not None:
            check_starting(border, subscription, access.servers, option)
        elif isinstance(border.offsets, dict):
            raise OptionError(f"option {option}Offsets by queue needs the option subscribe")
    if ending.offsets == "earliest" or (isinstance(ending.offsets, dict) and "earliest" in ending.offsets.values()):
        raise OptionError("option endingOffsets must be latest, or JSON with sequences; nothing ends at the earliest")
    if ending.time is not None and ending.offsets != "latest":
        raise OptionError("options endingTimestamp and endingOffsets exclude each other: give one of them")
    if starting is not None and starting.time is not None and ending.time is not None and ending.time < starting.time:
        raise OptionError(
            f"option endingTimestamp, {parsing.shown_instant(ending.time)}, is before startingTimestamp, "
            f"{parsing.shown_instant(starting.time)}"
        )
