"""Slowed connections: connections that are slowed by their own work. Most of the time, their input waits for its share
of a turn.

`work` is a gate with a name, like gates of queues. The gate closes for one connection and appears in the log, the flow
log and `penstock why`. The state is updated once a second, from the time that input of the connection waited.
"""

from __future__ import annotations

from typing import Final

from penstock.connections.connection import Connection
from penstock.flow.work import SHARE

KIND: Final = "work"
"""Kind of this gate; the gate's name is the connection's."""
SLOWED_PERCENT: Final = 50
"""Percentage of the time for which input waits, from which a connection counts as slowed."""


class Wait:
    """Waiting time of one connection's input."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.entered: float = 0.0
        """Time at which the input last began to wait."""
        self.waited_s: float = 0.0
        """Seconds of waiting since the last sample."""
        self.since: float | None = None
        """Time since which the connection counts as slowed; None while it does not."""

    def clause(self, now: float) -> str:
        """Describe the cause of the slowing, in one clause."""
        since = 0.0 if self.since is None else now - self.since
        return (
            f"slowed {since:.1f} s by its own work: it has cost {int(self.connection.work_done):,} units in all, "
            f"and its input waits for its share of {SHARE:,} units a turn"
        )


class SlowedConnections:
    """Connections whose input had to wait recently."""

    def __init__(self) -> None:
        self._waits: dict[int, Wait] = {}
        """Waits by number of the connection."""
        self._looked: float = 0.0

    def enter(self, connection: Connection, now: float) -> None:
        """Record that input of a connection begins to wait."""
        wait = self._waits.get(connection.number)
        if wait is None:
            wait = Wait(connection)
            self._waits[connection.number] = wait
        wait.entered = now

    def leave(self, number: int, now: float) -> None:
        """Record that input of a connection stops waiting."""
        wait = self._waits.get(number)
        if wait is not None:
            wait.waited_s += now - wait.entered

    def forget(self, number: int) -> None:
        """Remove a connection that is closed."""
        self._waits.pop(number, None)

    def of(self, connection: Connection) -> Wait | None:
        """Return the wait of a connection that counts as slowed; None for others."""
        wait = self._waits.get(connection.number)
        return None if wait is None or wait.since is None else wait

    def slowed(self) -> list[Wait]:
        """Return the connections that count as slowed, the longest first."""
        waits = [wait for wait in self._waits.values() if wait.since is not None]
        waits.sort(key=_since)
        return waits

    def sample(self, now: float) -> tuple[list[Wait], list[Wait]]:
        """Update all states, about once a second.

        Return the connections that became slowed, and the connections that ceased to be slowed.
        """
        period = now - self._looked
        self._looked = now
        began: list[Wait] = []
        ceased: list[Wait] = []
        for number, wait in list(self._waits.items()):
            connection = wait.connection
            if connection.in_line:
                wait.waited_s += now - max(wait.entered, now - period)
                wait.entered = now
            slow = wait.waited_s * 100 >= period * SLOWED_PERCENT
            wait.waited_s = 0.0
            if slow and wait.since is None:
                wait.since = now - period
                began.append(wait)
            elif not slow:
                if wait.since is not None:
                    ceased.append(wait)
                    wait.since = None
                if not connection.in_line:
                    del self._waits[number]
        return began, ceased


def _since(wait: Wait) -> float:
    return 0.0 if wait.since is None else wait.since
