"""The tables of options in docs/spark.md and docs/spark-elsewhere.md: names and defaults as the code has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pyspark_amqp import options as amqp
from pyspark_penstock import batch_options, options
from pyspark_penstock.kafka_options import KAFKA
from pyspark_penstock.option_table import REQUIRED, Option


class Row(NamedTuple):
    """Row of a table."""

    names: str
    """Options; a star stands for all that begin so."""
    default: str | None
    """What the page says of the default; None for what the code has."""
    meaning: str

    def options(self, table: Iterable[Option]) -> list[Option]:
        """Return the options of the row. Raises KeyError for one that the table lacks."""
        known = {option.name: option for option in table}
        found: list[Option] = []
        for name in re.findall(r"`([^`]+)`", self.names):
            if name.endswith("*"):
                found += [option for each, option in known.items() if each.startswith(name[:-1])]
            else:
                found.append(known[name])
        return found

    def default_in(self, table: Iterable[Option]) -> str:
        """Return the cell of the default."""
        if self.default is not None:
            return self.default
        return ", ".join(filter(None, map(_default_of, self.options(table))))


def _default_of(option: Option) -> str:
    value = option.default
    if value is REQUIRED:
        return "required"
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return str(value) if isinstance(value, int) else f"`{value}`"


TABLES: dict[str, Sequence[Option]] = {
    "source": options.SOURCE,
    "batch read": batch_options.BATCH,
    "sink": options._SINK,
    "source amqp": amqp._SOURCE,
}
"""Options of the code by the name of their table."""
MEANINGS = {
    "source": (
        (
            "`subscribe`, `subscribePattern` or `assign`",
            "one is required",
            "queues, separated by commas, which must exist; or a regular expression that whole names match, "
            'now and later; or queues by server, `{"a:5672": ["orders"], "b:5672": ["audit"]}`',
        ),
        (
            "`cursor`",
            None,
            "name of the read position; another application takes another name and sees every message too",
        ),
        (
            "`takeover`",
            None,
            "`true`: a query under another checkpoint that reads through the cursor ends, and this one goes on",
        ),
        (
            "`servers`",
            "`127.0.0.1:5672`",
            "`host:port`; with several, separated by commas, each one's queues of these names are read; "
            "`amqps://host:5671` for [TLS](tls.md)",
        ),
        (
            "`tlsCaFile`, `tlsCertificateFile`, `tlsKeyFile`, `tlsKeyPassword`",
            "the system's authorities",
            "files on the driver and on every executor: the authority, and the client's certificate with its key",
        ),
        (
            "`vhost`, `user`, `password`, `passwordFile`",
            None,
            "a file on the driver and on every executor has the password, or a token, in its one line: it is read "
            "again at each login",
        ),
        (
            "`columns`",
            "the first thirteen",
            "columns of a row, separated by commas, or `all`; see below",
        ),
        (
            "`startingOffsets`",
            None,
            "where queues begin that are *new* to the cursor: `earliest`, `latest`, or by queue, "
            '`{"orders": 1200}` (after 1200; others at the earliest). With several servers also `{"orders": '
            '{"a:5672": 1200}}`. -1 is the latest and -2 the earliest',
        ),
        (
            "`startingTimestamp`",
            None,
            "instead of `startingOffsets`: new queues begin at the first message from this time on, in "
            "milliseconds since 1970 or ISO 8601 with its offset (`2026-11-22T10:00:00Z`)",
        ),
        (
            "`onNewCheckpoint`",
            None,
            "a new checkpoint under a cursor that has settled messages: `fail` ends the query with their "
            "range, `continue` goes on after them (a full refresh of what the query computes)",
        ),
        (
            "`onLeftQueue`",
            None,
            "a queue that the cursor read, and that the subscription no longer has: `keep` its position and "
            "messages, or `release` it",
        ),
        (
            "`onLeftCursor`",
            None,
            "the checkpoint was written with another cursor, which is left: a warning of what it keeps, or "
            "it is deleted (`release`), or the query ends before anything changes (`fail`)",
        ),
        (
            "`onServerLoss`",
            None,
            "a server that is away is waited for, at the start too, and others are read meanwhile; or it "
            "ends the query after the retries (`fail`)",
        ),
        (
            "`failOnDataLoss`",
            None,
            "`false`: continue, with a warning, when the checkpoint asks for messages that the cursor has "
            "released, or when a batch yields fewer messages than were planned",
        ),
        (
            "`maxOffsetsPerTrigger`",
            "half of the queues' capacity in messages, at most 400,000",
            "messages in one micro-batch, [shared by its queues](inside/pipeline.md#many-queues); a queue with "
            "overflow `page` has no such default, for its capacity is that of its memory",
        ),
        (
            "`minOffsetsPerTrigger`, `maxTriggerDelay`",
            "none, 15m",
            "a batch waits for so many messages, but no longer than so since the last one, and not while a "
            "producer of its queues is blocked",
        ),
        (
            "`maxBytesPerTrigger`",
            "half of the queues' capacity in bytes",
            "bytes in one micro-batch, as the queue charges them (properties, body, overhead); one larger "
            "message still passes alone",
        ),
        (
            "`minPartitions`",
            None,
            "partitions wished for, shared out over the queues by size; [small queues share "
            "one](inside/pipeline.md#many-queues). A batch that is run again has the partitions of its plan",
        ),
        (
            "`maxRecordsPerPartition`",
            None,
            "a larger range is cut. A task costs PySpark 45 ms of CPU, whatever it reads. Where the work on "
            "a row is heavy, set `minPartitions` to the number of cores",
        ),
        (
            "`fetchBlockRows`, `fetchBlockBytes`",
            "10000, 4m",
            "size of one block from the broker; a task holds two at most",
        ),
        (
            "`fetchWait`",
            "1500ms",
            'how long the broker may wait for a first message before it answers "nothing new"; at most 10s, '
            "for it may delay `stop()`",
        ),
        (
            "`fetchOffset.numRetries`, `fetchOffset.retryIntervalMs`",
            None,
            "how often a lost connection is made again with `onServerLoss=fail`, and the first pause; each "
            "is twice the one before, up to 10 s",
        ),
    ),
    "batch read": (
        (
            "`subscribe`, `subscribePattern` or `assign`",
            "the queues of `cursor`",
            "as for a stream",
        ),
        (
            "`cursor`",
            None,
            "a cursor whose unsettled messages are read. Its query goes on, and is not fenced off",
        ),
        (
            "`startingOffsets` or `startingTimestamp`",
            "where the cursor stands; without one, `earliest`",
            "as for a stream, for all queues; a start that is gone is an error, or told (`failOnDataLoss=false`)",
        ),
        (
            "`endingOffsets` or `endingTimestamp`",
            "`latest`",
            "up to and with this sequence; or before this time",
        ),
        (
            "`leaseTimeout`",
            "5m",
            "time without a block after which the lease ends; at most 1h",
        ),
        (
            "`servers`, `tls*`, `vhost`, `user`, `password*`, `columns`, `failOnDataLoss`, `minPartitions`, "
            "`maxRecordsPerPartition`, `fetchBlockRows`, `fetchBlockBytes`, `fetchOffset.*`",
            "as for a stream",
            "",
        ),
    ),
    "sink": (
        (
            "`queue`",
            None,
            "the target, by its name; or",
        ),
        (
            "`exchange`, `routingKey`",
            None,
            "the target exchange, and one key for all rows; without it each row's column `routing_key`",
        ),
        (
            "`servers`, `tls*`, `vhost`, `user`, `password*`",
            "as above",
            "one broker, or [several](inside/pipeline.md#several-brokers) that share the rows, 16 at most",
        ),
        (
            "`spreadColumn`",
            None,
            "with several brokers: the column whose value decides which of them gets a row; without it the partition "
            "decides",
        ),
        (
            "`delivery`",
            "`dedup`",
            "`dedup`, `transactional` or `at-least-once`: see [delivery](#delivery)",
        ),
        (
            "`txnAppId`, `txnVersion`",
            None,
            "ids of a job's write: a name, and a number that grows with each write. The same number again "
            "writes nothing again",
        ),
        (
            "`publishTimeout`",
            "5m",
            "how long a task waits *without a single confirm*; every confirm starts the clock again",
        ),
        (
            "`publishCheck`",
            "10s",
            "how long a task waits without a confirm before it sends again what a lost connection may have swallowed",
        ),
        (
            "`publishWindow`",
            None,
            "messages of a task without their confirm; a block has half of them, 10,000 and 2 MiB at most",
        ),
    ),
    "source amqp": (
        (
            "`subscribe`",
            None,
            "queues, separated by commas; they must exist. All are in one spool, with one line of numbers",
        ),
        (
            "`spool`",
            None,
            "absolute folder, or a `file:` URI; one for each query, on a disk that survives, beside the "
            "checkpoint. A source is not told its checkpoint, so it cannot choose",
        ),
        (
            "`servers`",
            "`127.0.0.1:5672`",
            "nodes of *one* broker, tried in turn; `amqps://host:5671` for TLS",
        ),
        (
            "`protocol`",
            None,
            "`amqp1`: speak [AMQP 1.0](#amqp-10)",
        ),
        (
            "`vhost`, `user`, `password`, `passwordFile`",
            None,
            "the password is in no log, argument or environment; a file with it is read again at each login",
        ),
        (
            "`tlsCaFile`, `tlsCertificateFile`, `tlsKeyFile`, `tlsKeyPassword`",
            "the system's authorities",
            "files on the driver: the authority, and the client's certificate with its key",
        ),
        (
            "`spoolBytes`",
            "1g",
            "bound of the spool on the disk",
        ),
        (
            "`prefetch`",
            None,
            "unacknowledged messages of each queue, at most 65535; no batch is larger while they are "
            "acknowledged when settled",
        ),
        (
            "`acknowledge`",
            None,
            "`spooled`: as soon as a message is in the spool. Then the spool's disk is all that has it, and "
            "the spool's bound alone is the brake",
        ),
        (
            "`dropDuplicates`",
            None,
            "`messageId`: also what has the `message_id` of one of the last 200,000 messages of this run, "
            "or of one that is in the spool; `none`",
        ),
        (
            "`consumerTimeout`",
            "30m",
            "the broker's `consumer_timeout`; after half of it a late acknowledgement is told. `0s` for none",
        ),
        (
            "`heartbeat`",
            "60s",
            "the broker's counts if it is shorter; `0s` for none",
        ),
        (
            "`failOnDataLoss`",
            None,
            "`false`: continue, with a warning, when the checkpoint asks for messages that are settled and deleted",
        ),
        (
            "`maxOffsetsPerTrigger`, `maxBytesPerTrigger`",
            "400000, half of `spoolBytes`",
            "limits of one micro-batch",
        ),
        (
            "`fetchOffset.numRetries`, `fetchOffset.retryIntervalMs`",
            None,
            "failed attempts to connect in a row after which the query ends, when all of the spool is read; "
            "each pause is twice the one before, up to 30 s",
        ),
    ),
}
"""Names, default and meaning of each row by the name of the table."""


def rows(name: str) -> list[Row]:
    """Return the rows of a table."""
    return [Row(*each) for each in MEANINGS[name]]


def tables() -> dict[str, str]:
    """Return the tables by their names."""
    found = {f"options of the {name}": "\n".join(_lines(name)) for name in TABLES}
    return found | {"options of Kafka": "\n".join(_lines_of_kafka())}


def _lines(name: str) -> Iterator[str]:
    yield "| option | default | |"
    yield "|---|---|---|"
    for row in rows(name):
        yield f"| {row.names} | {row.default_in(TABLES[name])} | {row.meaning} |"


def _lines_of_kafka() -> Iterator[str]:
    yield "| Kafka's option | of | here | difference |"
    yield "|---|---|---|---|"
    for option in KAFKA:
        here = f"`{option.here}`" if option.here else "-"
        yield f"| `{option.name}` | {option.side} | {here} | {option.difference} |"
