"""Sink task: publishes its rows with confirms, and waits while the target has no room.

Delivery is at least once. A task sends a batch of rows, waits until every message is confirmed, resends refused ones,
and takes the next batch. A closed gate withholds confirms, so a full target holds the task and the micro-batch. Through
the unsettled cursor it also holds the source's own producers, back to the first of the chain. The task waits in slices
of two seconds, so that Spark can kill it, and logs the reason every ten seconds.

Every confirmed message restarts the time-out: a slow target is no failure.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.client import (
    Channel,
    ChannelClosed,
    ClientError,
    ConnectError,
    Connection,
    ConnectionClosed,
    ControlError,
    LoginRefused,
    Progress,
    Publisher,
    Timeout,
)
from pyspark_penstock.connections import BrokerLink, drop_connection, query_of_task, shared_connection
from pyspark_penstock.errors import PublishFailed, SparkSourceError
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import Retries, SinkOptions
from pyspark_penstock.rows import Rows, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

SLICE = 2.0
"""Longest uninterruptible wait, in seconds."""
SAY_SECONDS = 10.0
"""Seconds between two log lines of a waiting task."""
_PAUSE_SECONDS = (0.05, 2.0)
"""Shortest and longest pause before refused or lost messages are resent, in seconds."""


class _Exhausted(Exception):
    """Error: nothing was confirmed for the time of the option."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _HoldTimer:
    """Time without a confirm, with its log lines."""

    def __init__(self, options: SinkOptions) -> None:
        self._target, self._most = options.target, options.timeout_ms / 1000
        self._since = self._reported_at = time.monotonic()
        self._acked = 0
        self.confirmed = 0
        """Messages confirmed by earlier publishers of this task."""

    def heard(self, progress: Progress) -> None:
        """Record the progress of a publisher; raises `_Exhausted`."""
        if progress.acked > self._acked:
            self._acked, self._since = progress.acked, time.monotonic()
        self.check(f"{progress.outstanding} unconfirmed" + (f", {progress.blocked}" if progress.blocked else ""))

    def slice(self) -> float:
        """Return the seconds to wait before the next check."""
        return min(SLICE, max(0.0, self._since + self._most - time.monotonic()))

    def renewed(self) -> None:
        """Record that a new publisher counts from zero."""
        self.confirmed += self._acked
        self._acked = 0

    def check(self, standing: str) -> None:
        """Log the progress when due; raises `_Exhausted`."""
        now = time.monotonic()
        waited = now - self._since
        if waited >= self._most:
            raise _Exhausted(waited)
        if now - max(self._reported_at, self._since) >= SAY_SECONDS:
            self._reported_at = now
            total = self.confirmed + self._acked
            text = "penstock: %s has confirmed nothing for %.0f s; %d so far, %s"
            LOG.warning(text, self._target, waited, total, standing)


class Sender:
    """Sender of one task's rows; it connects at the first row."""

    def __init__(self, options: SinkOptions) -> None:
        """Store the target."""
        self._options = options
        self._server = options.access.servers[0]
        self._query = query_of_task()
        self._patience = _HoldTimer(options)
        self._publisher: Publisher | None = None

    def send(self, batches: Iterator["pa.RecordBatch"]) -> int:
        """Send every row; return the number of rows, all of them confirmed.

        Raises `PublishFailed` when the target does not exist, routes a message nowhere, or confirms nothing for the
        time of ``publishTimeout``.
        """
        sent = 0
        try:
            for batch in batches:
                if batch.num_rows:
                    self._deliver(rows_of(batch, self._options))
                    sent += batch.num_rows
        except _Exhausted as waited:
            raise PublishFailed(self._why(waited.seconds)) from None
        except ChannelClosed as error:
            raise PublishFailed(f"{self._target} took no message: {error}") from error
        finally:
            self._close()
        return sent

    @property
    def _target(self) -> str:
        return f"{self._options.target} at {self._server}"

    def _deliver(self, rows: Rows) -> None:
        """Send rows until each is confirmed; resend those that are refused or lost with a connection."""
        pause = _PAUSE_SECONDS[0]
        while True:
            try:
                rows = self._attempt(rows)
                standing = f"{len(rows)} refused"
            except LoginRefused as error:
                raise PublishFailed(f"{self._target} took no message: {error}") from error
            except (ConnectError, ConnectionClosed, Timeout) as error:
                # It is unknown which of them were confirmed: all are resent, and some arrive twice.
                self._drop()
                standing = str(error)
            if not len(rows):
                return
            self._patience.check(standing)
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS[1])

    def _attempt(self, rows: Rows) -> Rows:
        """Send rows once and wait for the answers; return those that the broker refused."""
        publisher = self._open()
        numbers = publisher.publish(rows.bodies, rows.keys, rows.properties, on_wait=self._heard)
        progress = publisher.wait(self._patience.slice())
        while not progress.done:
            self._heard(progress)
            progress = publisher.wait(self._patience.slice())
        self._heard(progress)
        return rows.only(sorted(number - numbers.start for number in publisher.take_nacked()))

    def _heard(self, progress: Progress) -> None:
        assert self._publisher is not None
        if progress.returned:
            key = self._publisher.returned[-1].routing_key
            raise PublishFailed(f"{self._target} routes the key '{key}' to no queue")
        self._patience.heard(progress)

    def _open(self) -> Publisher:
        if self._publisher is None:
            options = self._options
            connection = shared_connection(options.access, self._server, self._query)
            self._require_target(connection)
            self._publisher = Publisher(
                connection,
                exchange=options.exchange or "",
                routing_key=options.queue or options.routing_key or "",
                window=options.window,
                mandatory=True,
            )
        return self._publisher

    def _require_target(self, connection: Connection) -> None:
        """Check that the target exists, which also shows whether a cached connection is alive."""
        channel: Channel = connection.channel()
        try:
            if self._options.queue is not None:
                channel.queue_declare(self._options.queue, passive=True)
            else:
                channel.exchange_declare(self._options.exchange or "", passive=True)
        finally:
            with suppress(ClientError):
                channel.close()

    def _close(self) -> None:
        """Leave the connection to the next task if nothing is unsent or unanswered; else close it."""
        if self._publisher is not None and self._publisher.progress().done:
            with suppress(ClientError):  # The rows are confirmed, or an error is raised already.
                self._publisher.close()
        else:
            self._drop()

    def _drop(self) -> None:
        drop_connection(self._options.access, self._server, self._query)
        self._publisher = None
        self._patience.renewed()

    def _why(self, seconds: float) -> str:
        """Return the reason why a target stays full, requested on a connection of its own."""
        text = (
            f"{self._target} has confirmed nothing for {seconds:.0f} s ({self._options.timeout_ms / 1000:g} s allowed)"
        )
        if self._options.queue is None:
            return text
        link = BrokerLink(self._options.access, self._server, Retries(0, 1))
        try:
            found = link.ask("why", {"queue": self._options.queue})
        except (ControlError, SparkSourceError) as error:
            return f"{text}; asked why: {error}"
        finally:
            link.close()
        parts = [f"{name} {_level(found.get(name))}" for name in ("depth", "capacity", "stop", "resume")]
        return "; ".join([text, ", ".join(parts), *found.get("sentences", [])])


def _level(level: object) -> str:
    """Return a depth or a threshold for people: messages, octets, or both."""
    if not isinstance(level, dict):
        return str(level)
    words = [f"{level[unit]} {unit}" for unit in ("messages", "bytes") if level.get(unit) is not None]
    return " and ".join(words) or "unbounded"
