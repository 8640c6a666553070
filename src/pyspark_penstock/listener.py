"""Listener of streaming queries: reports lag of their cursors and held producers, for logging and for the broker's flow
log.

Spark has no metrics of Python sources. So the listener sends each progress to the brokers (`query.progress`), which
know the cursors of a query. The listener logs the answers: INFO for each progress, at most one a second and query. The
brokers record them as well, if they write a flow log.

A listener never delays a query for long, and never ends one: a broker that does not answer is logged once, and not
asked for `PAUSE_SECONDS`. The listener is pickled for Spark Connect, where it runs on the server.
"""

import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.client.errors import ControlError
from pyspark_penstock.connections import BrokerLink
from pyspark_penstock.errors import OptionError, SparkSourceError
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import Access, Retries
from pyspark_penstock.parsing import Address
from pyspark_penstock.sentences import sentence_of
from pyspark_penstock.tls import ServerAddresses, Tls
from pyspark_penstock.tls import servers as parsed_servers

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

INTERVAL_SECONDS = 1.0
"""Shortest time between two reports of a query."""
PAUSE_SECONDS = 30.0
"""Seconds without requests to a broker that has not answered."""
QUERIES_MOST = 1000
"""Most queries whose last report is remembered; the oldest is dropped first."""
QUEUES_SAID = 5
"""Most queues of a cursor in a log line."""


class ProgressListener(StreamingQueryListener):
    """Listener that reports the progress of the queries of a session: ``spark.streams.addListener(...)``.

    `servers` has the format of the source's option: ``host:port``, separated by commas, or ``amqps://host`` with the
    files of `tls`. Raises `OptionError` for an invalid value. With None no broker is asked: for queries of the source
    ``amqp``, whose progress has the lag itself.
    """

    def __init__(
        self,
        servers: str | None = "127.0.0.1:5672",
        *,
        vhost: str = "/",
        user: str = "guest",
        password: str = "guest",
        password_file: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Store the addresses without connecting. A `password_file` is read at each login."""
        try:
            found = ServerAddresses((), False) if servers is None else parsed_servers(servers)
            by_tls = (tls or Tls()) if found.tls else None
            self._access = Access(found.addresses, vhost, user, password, by_tls, password_file)
        except ValueError as error:
            raise OptionError(f"servers '{servers}' {error}") from None
        self._begin()

    def _begin(self) -> None:
        self._links: dict[Address, BrokerLink] = {}
        self._silent: dict[Address, float] = {}
        """Times until which brokers are not asked."""
        self._reported: dict[str, float] = {}
        """Time of the last report, by query."""
        self._closed: dict[tuple[str, str, str], float] = {}
        """Closed time of gates at the last report, by query, cursor and queue."""

    def __getstate__(self) -> dict[str, Any]:
        """Return only the addresses: sockets belong to the process that created them."""
        return {name: value for name, value in self.__dict__.items() if name == "_access"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the addresses."""
        self.__dict__.update(state)
        self._begin()

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Log the start of a query; Spark waits for this method."""
        LOG.info("penstock: query %s starts", _named(event.name, str(event.id)))

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        """Report a batch."""
        progress = event.progress
        duration = progress.durationMs or {}
        counts = {
            "batch": progress.batchId,
            "rows": progress.numInputRows,
            "batch_ms": int(duration.get("triggerExecution", 0)),
        }
        self._report(str(progress.id), progress.name, counts, _spools(getattr(progress, "sources", ())))

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Report the lag of a query without new data."""
        self._report(str(event.id), None, {}, [])

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Log the end of a query, with the sentence of its error."""
        query = str(event.id)
        self._reported.pop(query, None)
        for key in [key for key in self._closed if key[0] == query]:
            del self._closed[key]
        if not self._reported:
            self.close()
        if event.exception is None:
            LOG.info("penstock: query %s ends", query)
        else:
            LOG.warning("penstock: query %s ends: %s", query, sentence_of(event.exception))

    def close(self) -> None:
        """Close the connections; the next report opens them again. The end of the last query closes them as well."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _report(self, query: str, name: str | None, counts: dict[str, int], spools: list[str]) -> None:
        now = time.monotonic()
        if now - self._reported.get(query, -INTERVAL_SECONDS) < INTERVAL_SECONDS:
            return
        if query not in self._reported and len(self._reported) >= QUERIES_MOST:
            del self._reported[next(iter(self._reported))]
        self._reported[query] = now
        if spools:
            LOG.info("penstock: query %s: %s", _named(name, query), "; ".join((_batch(counts), *spools)))
        for server in self._access.servers:
            answer = self._asked(server, {"query": query, **counts}, now)
            for cursor in () if answer is None else answer["cursors"]:
                parts = [_batch(counts), *self._parts(query, server, cursor)]
                LOG.info("penstock: query %s at %s: %s", _named(name, query), server, "; ".join(parts))

    def _asked(self, server: Address, fields: dict[str, object], now: float) -> dict[str, Any] | None:
        """Return the answer of a broker; None without one."""
        if self._silent.get(server, 0.0) > now:
            return None
        if server not in self._links:
            self._links[server] = BrokerLink(self._access, server, Retries(0, 1))
        try:
            return self._links[server].ask("query.progress", fields)
        except (ControlError, SparkSourceError) as error:
            self._links.pop(server).close()
            self._silent[server] = time.monotonic() + PAUSE_SECONDS
            LOG.warning("penstock: no lag of queries from %s for %.0f s: %s", server, PAUSE_SECONDS, error)
            return None

    def _parts(self, query: str, server: Address, cursor: dict[str, Any]) -> list[str]:
        """Describe a cursor: its lag by queue, and the time that its producers were held since the last report."""
        parts = []
        held = 0.0
        for each in cursor["queues"]:
            key = (query, str(server), str(each["queue"]))
            held += each["closed_s"] - self._closed.get(key, each["closed_s"])
            if len(self._closed) < QUERIES_MOST or key in self._closed:
                self._closed[key] = each["closed_s"]
        for each in cursor["queues"][:QUEUES_SAID]:
            parts.append(f"{each['queue']} {_lag(each['lag'])}")
        more = len(cursor["queues"]) + cursor["more_queues"] - QUEUES_SAID
        listed = ", ".join(parts) + (f" and {more:,} more queues" if more > 0 else "")
        blocked = f", {cursor['blocks']:,} wait now" if cursor["blocks"] else ""
        return [f"cursor {cursor['name']}: {listed}", f"producers held {held:.1f} s since the last report{blocked}"]


def _batch(counts: dict[str, int]) -> str:
    return f"batch {counts['batch']}, {counts['rows']:,} rows" if counts else "idle"


def _spools(sources: Iterable[Any]) -> list[str]:
    """Return the lags of spools (the source ``amqp``), from the offsets of a progress."""
    found = []
    for source in sources:
        try:
            latest, end = json.loads(source.latestOffset), json.loads(source.endOffset)
            lag = latest["n"] - end["n"]
            found.append(f"spool {latest['spool'][:8]} has {max(0, lag):,} messages more")
        except (TypeError, ValueError, KeyError):
            continue  # Another source, or a batch that is run again.
    return found


def _named(name: str | None, query: str) -> str:
    return query if name is None else f"{name} ({query})"


def _lag(lag: dict[str, Any] | None) -> str:
    """Return a lag as text."""
    if lag is None:
        return "lags by messages on the disk"
    if lag["messages"] == 0:
        return "has no lag"
    oldest = "" if lag["oldest_s"] is None else f", the oldest {lag['oldest_s']:.1f} s old"
    return f"lags by {lag['messages']:,} messages ({lag['bytes']:,} bytes){oldest}"
