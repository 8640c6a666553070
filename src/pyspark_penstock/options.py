"""Options of source and sink, validated once in the driver, without I/O.

One table has every option, its parser and its default. ``source_options`` and ``sink_options`` convert Spark's options
(texts, with keys in any case) into frozen objects that travel to the executors. An unknown option is refused with a
near match, because Spark passes all options through, and a misspelt limit is worse than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.settings.kind import FLAG, TEXT, Choices, Number, bytes_from, whole
from pyspark_penstock import parsing
from pyspark_penstock.errors import OptionError
from pyspark_penstock.option_table import OF_QUERIES, Option, parse_options, unknown_option, without_spark_options
from pyspark_penstock.parsing import Address
from pyspark_penstock.schema import DEFAULT_COLUMNS, columns
from pyspark_penstock.subscription import Starting, Subscription, check_starting, checked_subscription
from pyspark_penstock.tls import TLS_OPTIONS, ServerAddresses, Tls, servers, tls_of

DELAY_MS = 900_000
"""Longest wait for minOffsetsPerTrigger without maxTriggerDelay, as in Spark's Kafka source: 15 minutes."""

AT_LEAST_ONCE = "at-least-once"
DEDUP = "dedup"
TRANSACTIONAL = "transactional"
"""Modes of delivery of a sink; see delivery.py."""

LOGIN = (
    Option("vhost", TEXT, "/"),
    Option("user", TEXT, "guest"),
    Option("password", parsing.SECRET, "guest"),
    Option("passwordFile", TEXT, None),
)
"""Options of every source and sink."""

ADMISSION = (
    Option("failOnDataLoss", FLAG, True),
    Option("maxOffsetsPerTrigger", whole(1), None),
    Option("maxBytesPerTrigger", bytes_from(1), None),
    Option("minOffsetsPerTrigger", whole(1), None),
    # As in Spark's Kafka source: longest wait of a batch for its least size.
    Option("maxTriggerDelay", parsing.duration(24 * 3_600_000), None),
    Option("minPartitions", whole(1, 10_000), 1),
    # A task costs PySpark 45 ms of CPU: 0.9 s for a million rows with 50,000 rows in each, 0.23 s with these.
    Option("maxRecordsPerPartition", whole(1), 200_000),
    # If Spark cannot stop a query inside a call, a longer wait would delay stop() by that time.
    Option("fetchWait", parsing.duration(10_000), 1_500),
    Option("fetchOffset.numRetries", whole(0, 1_000), 5),
    Option("fetchOffset.retryIntervalMs", Number("ms", 1, 60_000), 500),
)
"""Options of every streaming source: the size of its batches, and its retries."""

_ACCESS = (
    Option("servers", parsing.parsed(servers), ServerAddresses((Address("127.0.0.1", parsing.DEFAULT_PORT),), False)),
    *LOGIN,
    *TLS_OPTIONS,
)

SOURCE = (
    *_ACCESS,
    Option("subscribe", parsing.parsed(parsing.names), None),
    Option("subscribePattern", parsing.parsed(parsing.regular_expression), None),
    Option("assign", parsing.parsed(parsing.assigned), None),
    Option("cursor", parsing.NAME),
    Option("takeover", FLAG, False),
    Option("columns", parsing.parsed(columns), None),
    Option("startingOffsets", parsing.parsed(parsing.starting), "earliest"),
    Option("startingTimestamp", parsing.parsed(parsing.instant), None),
    Option("onNewCheckpoint", Choices(("fail", "continue")), "fail"),
    Option("onLeftQueue", Choices(("keep", "release")), "keep"),
    Option("onLeftCursor", Choices(("warn", "release", "fail")), "warn"),
    Option("onServerLoss", Choices(("wait", "fail")), "wait"),
    *ADMISSION,
    Option("fetchBlockRows", whole(1, 1_000_000), 10_000),
    # An Arrow binary column has 32-bit offsets, so a block must stay below 2 GiB; 256 MiB is already too large in
    # practice.
    Option("fetchBlockBytes", bytes_from(1, 256 << 20), 4 << 20),
)

_SINK = (
    *_ACCESS,
    Option("queue", parsing.NAME, None),
    Option("exchange", parsing.NAME, None),
    Option("routingKey", TEXT, None),
    Option("publishTimeout", parsing.duration(24 * 3_600_000), 300_000),
    Option("publishCheck", parsing.duration(3_600_000, 1), 10_000),
    Option("publishWindow", whole(1, 1_000_000), 20_000),
    Option("delivery", Choices((AT_LEAST_ONCE, DEDUP, TRANSACTIONAL)), None),
    Option("txnAppId", parsing.parsed(parsing.identifier(128)), None),
    Option("txnVersion", whole(0, 2**62 - 1), None),
    Option("spreadColumn", TEXT, None),
)
SINK_SERVERS_MOST = 16
"""Most brokers of a sink: a task asks each of them before its first row, and may have a block's window at each."""

_ELSEWHERE_SINK = {option.name: "the sink" for option in _SINK} | dict.fromkeys(
    ("endingOffsets", "endingTimestamp", "leaseTimeout"), "a batch read (spark.read)"
)
_ELSEWHERE_SOURCE = {option.name: "the source" for option in SOURCE}


@dataclass(frozen=True, slots=True)
class Access:
    """Addresses and credentials of the brokers."""

    servers: tuple[Address, ...]
    vhost: str
    user: str
    password: str = field(repr=False)
    tls: Tls | None = None
    password_file: str | None = None
    """File with the password, which is read at each login; None for `password`."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Number of reconnections, None for unlimited, and the first pause in milliseconds."""

    count: int | None
    interval_ms: int


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a reader; ``None`` in a limit means half of the capacity of the subscribed queues."""

    access: Access
    subscription: Subscription
    cursor: str
    takes_over: bool
    """True if another query that reads through the cursor must end."""
    columns: tuple[str, ...]
    """Columns of a row, in order."""
    chose_columns: bool
    """True if the option ``columns`` is given."""
    starting: Starting
    continues: bool
    """True if a new checkpoint continues at the cursor's position."""
    releases: bool
    """True if queues that the subscription no longer has are released."""
    on_left_cursor: str
    """Treatment of the cursor with which the checkpoint was written, if it is another cursor: warn, release or fail."""
    waits: bool
    """True if the queues of an unavailable server are waited for while others are read; `retries` are unlimited
    then."""
    fail_on_data_loss: bool
    min_rows: int | None
    """Least messages of a batch, as long as no producer is blocked; None for no such limit."""
    delay_ms: int
    """Longest time in milliseconds that a batch waits for `min_rows`."""
    max_rows: int | None
    max_bytes: int | None
    min_partitions: int
    max_records_per_partition: int
    block_rows: int
    block_bytes: int
    wait_ms: int
    retries: Retries

    @property
    def subject(self) -> str:
        """Description of the reader, for messages."""
        return f"cursor '{self.cursor}' on {self.subscription}"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a writer; exactly one of `queue` and `exchange` is set."""

    access: Access
    queue: str | None
    exchange: str | None
    routing_key: str | None
    timeout_ms: int
    window: int
    check_ms: int = 10_000
    """Time without a confirm after which a connection that the broker does not know is given up."""
    delivery: str | None = None
    """Mode of delivery; None for ``dedup`` with ids, and ``at-least-once`` without."""
    txn_app: str | None = None
    txn_version: int | None = None
    spread_column: str | None = None
    """Column by whose values rows are spread over several servers; None to spread them by partition."""

    @property
    def target(self) -> str:
        """Description of the queue or exchange, for messages."""
        return f"queue '{self.queue}'" if self.queue else f"exchange '{self.exchange}'"


def source_options(given: Mapping[str, object]) -> SourceOptions:
    """Return the options of ``readStream``.

    Raises `OptionError` in one sentence for an unknown, missing or impossible option.
    """
    value = parse_options("the penstock source", SOURCE, without_spark_options(given, frozenset()), _ELSEWHERE_SINK)
    access = access_of(value)
    subscription = checked_subscription(value["subscribe"], value["subscribePattern"], value["assign"], access.servers)
    starting = Starting(value["startingOffsets"], value["startingTimestamp"])
    check_starting(starting, subscription, access.servers)
    check_least(value["minOffsetsPerTrigger"], value["maxOffsetsPerTrigger"], value["maxTriggerDelay"])
    return SourceOptions(
        access=access,
        subscription=subscription,
        cursor=value["cursor"],
        takes_over=value["takeover"],
        columns=value["columns"] or DEFAULT_COLUMNS,
        chose_columns=value["columns"] is not None,
        starting=starting,
        continues=value["onNewCheckpoint"] == "continue",
        releases=value["onLeftQueue"] == "release",
        on_left_cursor=value["onLeftCursor"],
        waits=value["onServerLoss"] == "wait",
        fail_on_data_loss=value["failOnDataLoss"],
        min_rows=value["minOffsetsPerTrigger"],
        delay_ms=DELAY_MS if value["maxTriggerDelay"] is None else value["maxTriggerDelay"],
        max_rows=value["maxOffsetsPerTrigger"],
        max_bytes=value["maxBytesPerTrigger"],
        min_partitions=value["minPartitions"],
        max_records_per_partition=value["maxRecordsPerPartition"],
        block_rows=value["fetchBlockRows"],
        block_bytes=value["fetchBlockBytes"],
        wait_ms=value["fetchWait"],
        retries=Retries(
            None if value["onServerLoss"] == "wait" else value["fetchOffset.numRetries"],
            value["fetchOffset.retryIntervalMs"],
        ),
    )


def check_least(least: int | None, most: int | None, delay_ms: int | None) -> None:
    """Raise `OptionError` for an impossible least size."""
    if least is None and delay_ms is not None:
        raise OptionError("option maxTriggerDelay goes with minOffsetsPerTrigger: give that one too")
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minOffsetsPerTrigger = '{least}' must be at most maxOffsetsPerTrigger, {most}")


def sink_options(given: Mapping[str, object]) -> SinkOptions:
    """Return the options of ``writeStream`` and ``write``.

    Raises `OptionError` in one sentence for an unknown, missing or impossible option.
    """
    value = parse_options("the penstock sink", _SINK, without_spark_options(given, OF_QUERIES), _ELSEWHERE_SOURCE)
    if (value["queue"] is None) == (value["exchange"] is None):
        raise OptionError("the penstock sink needs one of the options queue and exchange, not both")
    if value["queue"] is not None and value["routingKey"] is not None:
        raise OptionError("option routingKey goes with exchange; a queue is reached by its own name")
    check_spread(len(value["servers"].addresses), value["spreadColumn"], value["delivery"])
    if (value["txnAppId"] is None) != (value["txnVersion"] is None):
        raise OptionError(
            "options txnAppId and txnVersion go together: the name of a writer, and the number of a write"
        )
    return SinkOptions(
        access=access_of(value),
        queue=value["queue"],
        exchange=value["exchange"],
        routing_key=value["routingKey"],
        timeout_ms=value["publishTimeout"],
        window=value["publishWindow"],
        check_ms=value["publishCheck"],
        delivery=value["delivery"],
        txn_app=value["txnAppId"],
        txn_version=value["txnVersion"],
        spread_column=value["spreadColumn"],
    )


def check_spread(servers: int, column: str | None, delivery: str | None) -> None:
    """Raise `OptionError` for an impossible spread over several servers."""
    if servers > SINK_SERVERS_MOST:
        raise OptionError(f"option servers of a sink names {servers} servers; the most is {SINK_SERVERS_MOST}")
    if servers == 1 and column is not None:
        raise OptionError(
            "option spreadColumn is for a sink with several servers: name them in servers, or leave it out"
        )
    if servers > 1 and delivery == TRANSACTIONAL and column is None:
        raise OptionError(
            "option delivery = 'transactional' with several servers needs spreadColumn: a batch that is run again may "
            "have its rows in other partitions, and a server that has published its share would not know them; name a "
            "column whose value of each row stays the same"
        )


def check_names(given: Mapping[str, object], more: tuple[Option, ...] = ()) -> None:
    """Refuse an option unknown to source and sink, before the side is known; `more` are known too."""
    known = {option.name.lower() for option in (*SOURCE, *_SINK, *more)}
    for key in without_spark_options(given, OF_QUERIES):
        if key.lower() not in known:
            raise OptionError(unknown_option(key, "the penstock source or sink", (*SOURCE, *_SINK, *more)))


def access_of(value: Mapping[str, Any]) -> Access:
    """Return addresses and credentials. Raises `OptionError` for both a password and a password file."""
    check_password(value)
    addresses, file = value["servers"].addresses, value["passwordFile"]
    return Access(addresses, value["vhost"], value["user"], value["password"], tls_of(value), file)


def check_password(value: Mapping[str, Any]) -> None:
    """Raise `OptionError` for two passwords."""
    (default,) = (option.default for option in LOGIN if option.name == "password")
    if value["passwordFile"] is not None and value["password"] != default:
        raise OptionError("options password and passwordFile exclude each other: give one of them")
