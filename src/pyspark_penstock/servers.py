"""Brokers of one source: requests to each, refusals in the user's words, and the handling of an unavailable broker.

With ``onServerLoss=fail`` a lost connection is opened again a number of times, and then ends the query. With ``wait``
each request is tried once, and a server that does not answer is *away*: it is asked again after a growing pause, and
the others continue. Errors that another attempt does not cure are not waited for, such as a refused login.
"""

import difflib
import re
import time
from dataclasses import dataclass
from typing import Any

from penstock.client.errors import ControlError
from pyspark_penstock.batch_options import ReadOptions
from pyspark_penstock.connections import BrokerLink, Waiting
from pyspark_penstock.errors import BrokerUnreachable, CursorError
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import Retries
from pyspark_penstock.parsing import Address

MOVED = "moved by an operator"
"""Words of a broker's refusal of a request with the token from before a move."""
LEASE_ENDED = "has ended, because"
"""Words of a broker's refusal of a request under a lease that has ended."""
JOINED = "for a join of a data frame with itself load it twice, each with a cursor of its own"
_NO_QUEUE = re.compile(r"^no queue '(.+)' in vhost '")
"""Words of a broker's refusal of a queue that does not exist."""
AWAY_PAUSE_MAX = 10.0
"""Longest pause in seconds before an unavailable server is asked again; the first is the option's retry interval."""
PAUSE_PER_ATTEMPT = 4
"""Least length of a pause, as a multiple of the attempt, because the other servers wait during an attempt."""


@dataclass
class Absence:
    """Unavailable server; times in monotonic seconds."""

    since: float
    until: float
    """Time of the next request."""
    pause: float


class Servers:
    """Connections of one source to its brokers, opened on first use."""

    def __init__(self, options: ReadOptions) -> None:
        """Store the options without connecting."""
        self._options = options
        self.addresses = options.access.servers
        self._links: dict[Address, BrokerLink] = {}
        self._away: dict[Address, Absence] = {}

    def ask(self, server: Address, operation: str, **fields: object) -> dict[str, Any]:
        """Return the answer of a server, with the wait that the options allow.

        Raises `CursorError` for a refusal and `BrokerUnreachable` without an answer.
        """
        return self._ask(server, self._options.retries, operation, fields)

    def _ask(self, server: Address, retries: Retries, operation: str, fields: dict[str, object]) -> dict[str, Any]:
        link = self._links.get(server)
        if link is None:
            link = self._links[server] = BrokerLink(self._options.access, server, retries)
        link.retries = retries
        if operation.startswith("cursor.") and operation not in ("cursor.queues", "cursor.find"):
            fields.setdefault("cursor", self._options.cursor)
        try:
            return link.ask(operation, fields)
        except ControlError as refusal:
            if operation in ("cursor.attach", "lease.open") and (name := _NO_QUEUE.search(refusal.text)):
                present = link.ask("cursor.queues", {})["queues"]
                near = difflib.get_close_matches(name[1], present, n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"declare it first (penstock queues declare {name[1]})"
                text = f"{self._options.subject} at {server} cannot begin: {refusal.text}; {hint}"
                raise CursorError(text) from refusal
            raise refused(refusal, self._options, server) from refusal

    def ask_present(self, server: Address, operation: str, **fields: object) -> dict[str, Any] | None:
        """Return the answer of a server; None while the server is away, if the query waits for it. Raises as `ask`."""
        if not self._options.waits:
            return self.ask(server, operation, **fields)
        absence = self._away.get(server)
        began = time.monotonic()
        if absence is not None and began < absence.until:
            return None
        try:
            # A single server is asked a second time at once: an idle connection may have been lost.
            once = Retries(int(len(self.addresses) == 1), self._options.retries.interval_ms)
            answer = self._ask(server, once, operation, fields)
        except BrokerUnreachable as error:
            if error.lasts:
                raise
            self._leave(server, began, error)
            return None
        if absence is not None:
            del self._away[server]
            LOG.warning("penstock: %s is back after %.0f s", server, time.monotonic() - absence.since)
        return answer

    def absences(self) -> dict[Address, float]:
        """Return the unavailable servers, and the seconds of their absence."""
        now = time.monotonic()
        return {server: now - absence.since for server, absence in self._away.items()}

    def wait_for_one(self, waiting: Waiting) -> None:
        """Wait until an unavailable server may be asked again. Raises as `Waiting.pause`."""
        until = min((absence.until for absence in self._away.values()), default=0.0)
        names = ", ".join(map(str, self._away)) or "a server"
        waiting.pause(max(until - time.monotonic(), 0.01), f"{names} (onServerLoss=wait)")

    def _leave(self, server: Address, began: float, error: BrokerUnreachable) -> None:
        now = time.monotonic()
        absence = self._away.get(server)
        if absence is None:
            absence = self._away[server] = Absence(began, 0.0, self._options.retries.interval_ms / 1000)
            rest = " and those of other servers are read on" if len(self.addresses) > 1 else ""
            LOG.warning("penstock: %s; its queues wait%s (onServerLoss=wait)", error, rest)
        else:
            absence.pause = min(2 * absence.pause, AWAY_PAUSE_MAX)
        absence.until = now + max(absence.pause, PAUSE_PER_ATTEMPT * (now - began))

    def close(self) -> None:
        """Close the connections; the next request opens them again."""
        for link in self._links.values():
            link.close()
        self._links.clear()
        self._away.clear()


def refused(refusal: ControlError, options: ReadOptions, server: Address) -> CursorError:
    """Return a broker's refusal as an error for the user of a query."""
    cursor = f"{options.subject} at {server}"
    match refusal.name:
        case "not-found" if LEASE_ENDED in refusal.text:
            text = f"{cursor} cannot go on"
        case "fenced" if MOVED in refusal.text:
            text = f"{cursor} cannot go on where it was; start the query again"
        case "fenced":
            text = f"{cursor} was attached by another query, which reads on; this one ends ({JOINED})"
        case "not-found":
            text = f"{cursor} cannot go on: a queue does not exist, or was deleted while the query ran"
        case _:
            text = f"{cursor} was refused"
    return CursorError(f"{text}: {refusal.text}")


def has_ended(refusal: ControlError) -> bool:
    """Return whether a broker refused because the lease has ended: another lease may be opened."""
    return refusal.name == "not-found" and LEASE_ENDED in refusal.text


def is_not_found(error: CursorError) -> bool:
    """Return whether a broker refused because a queue does not exist."""
    return isinstance(error.__cause__, ControlError) and error.__cause__.name == "not-found"
