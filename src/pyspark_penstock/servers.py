"""Brokers of one source: requests to each of them, refusals in the user's words, and what is done while one is away.

With ``onServerLoss=fail`` a lost connection is made again a number of times, and then ends the query. With ``wait``
each request is tried once, and a server that does not answer is *away*: it is asked again after a pause that grows, and
the others go on. A refused login is not waited for.
"""

import time
from dataclasses import dataclass
from typing import Any

from penstock.client import ControlError, LoginRefused
from pyspark_penstock.batch_options import ReadOptions
from pyspark_penstock.connections import BrokerLink
from pyspark_penstock.errors import BrokerUnreachable, CursorError
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import Retries
from pyspark_penstock.parsing import Address

MOVED = "moved by an operator"
"""Words of a broker's refusal of a request with the token from before a move."""
LEASE_ENDED = "has ended"
"""Words of a broker's refusal of a request under a lease that has ended."""
AWAY_PAUSE_MAX = 30.0
"""Longest pause in seconds before a server that is away is asked again; the first is the option's retry interval."""
PAUSE_PER_ATTEMPT = 4
"""A pause is at least so many times as long as the attempt took, because the other servers wait during an attempt."""


@dataclass
class Absence:
    """Server that is away; times in monotonic seconds."""

    since: float
    until: float
    """When it is asked again."""
    pause: float


class Servers:
    """Connections of one source to its brokers, opened on first use."""

    def __init__(self, options: ReadOptions) -> None:
        """Store the options; nothing is connected yet."""
        self._options = options
        self.addresses = options.access.servers
        self._links: dict[Address, BrokerLink] = {}
        self._away: dict[Address, Absence] = {}

    def ask(self, server: Address, operation: str, **fields: object) -> dict[str, Any]:
        """Return the answer of a server.

        Raises `CursorError` for a refusal and `BrokerUnreachable` when it does not answer.
        """
        if server not in self._links:
            retries = self._options.retries
            patient = Retries(0, retries.interval_ms) if self._options.waits else retries
            self._links[server] = BrokerLink(self._options.access, server, patient)
        if operation.startswith("cursor.") and operation not in ("cursor.queues", "cursor.find"):
            fields["cursor"] = self._options.cursor
        try:
            return self._links[server].ask(operation, fields)
        except ControlError as refusal:
            raise refused(refusal, self._options, server) from refusal

    def ask_present(self, server: Address, operation: str, **fields: object) -> dict[str, Any] | None:
        """Return the answer of a server; None while it is away, if the query waits for it. Raises as `ask`."""
        absence = self._away.get(server)
        began = time.monotonic()
        if absence is not None and began < absence.until:
            return None
        try:
            answer = self.ask(server, operation, **fields)
        except BrokerUnreachable as error:
            if not self._options.waits or isinstance(error.__cause__, LoginRefused):
                raise
            self._leave(server, began, error)
            return None
        if absence is not None:
            del self._away[server]
            LOG.warning("penstock: %s is back after %.0f s", server, time.monotonic() - absence.since)
        return answer

    def absences(self) -> dict[Address, float]:
        """Return the servers that are away, and for how many seconds."""
        now = time.monotonic()
        return {server: now - absence.since for server, absence in self._away.items()}

    def _leave(self, server: Address, began: float, error: BrokerUnreachable) -> None:
        now = time.monotonic()
        absence = self._away.get(server)
        if absence is None:
            absence = self._away[server] = Absence(began, 0.0, self._options.retries.interval_ms / 1000)
            LOG.warning(
                "penstock: %s; its queues wait and those of other servers are read on (onServerLoss=wait)", error
            )
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
    """Return the meaning of a broker's refusal for the user of a query."""
    cursor = f"{options.subject} at {server}"
    match refusal.name:
        case "not-found" if LEASE_ENDED in refusal.text:
            text = f"{cursor} cannot go on"
        case "fenced" if MOVED in refusal.text:
            text = f"{cursor} cannot go on where it was; start the query again"
        case "fenced":
            text = (
                f"{cursor} was attached by another query, which reads on; this one ends (for a join of a data frame "
                "with itself load it twice, each with a cursor of its own)"
            )
        case "not-found":
            text = f"{cursor} cannot go on: a queue does not exist, or was deleted while the query ran"
        case _:
            text = f"{cursor} was refused"
    return CursorError(f"{text}: {refusal.text}")


def is_not_found(error: CursorError) -> bool:
    """Return whether a broker refused because a queue does not exist."""
    return isinstance(error.__cause__, ControlError) and error.__cause__.name == "not-found"
