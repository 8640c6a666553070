"""Connections that are slowed by their own work: their input waits for its share of a turn most of the time.

`work` is a gate with a name, like those before queues: it closes for one connection, and is told of in the log, the
flow log and `penstock why`. It is judged once a second, by how long input of the connection stood in the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.flow.work import SHARE

if TYPE_CHECKING:
    from penstock.protocols.amqp091.connection import Connection

KIND: Final = "work"
"""The kind of this gate; its name is that of the connection."""
SLOWED_PERCENT: Final = 50
"""Part of the time for which input has waited, from which on a connection counts as slowed."""


class Wait:
    """The waiting of one connection's input."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.entered: float = 0.0
        """When its input entered the line last."""
        self.waited_s: float = 0.0
        """Seconds for which input stood in the line since the last look."""
        self.since: float | None = None
        """Since when it counts as slowed; None while it does not."""

    def clause(self, now: float) -> str:
        """Return what slows it, in one clause."""
        since = 0.0 if self.since is None else now - self.since
        return (
            f"slowed {since:.1f} s by its own work: it has cost {int(self.connection.work_done):,} units in all, "
            f"and its input waits for its share of {SHARE:,} units a turn"
        )


class SlowedConnections:
    """The connections whose input had to wait lately."""

    def __init__(self) -> None:
        self._waits: dict[int, Wait] = {}
        """By number of the connection."""
        self._looked: float = 0.0

    def enter(self, connection: Connection, now: float) -> None:
        """Note that input of a connection begins to wait."""
        wait = self._waits.get(connection.number)
        if wait is None:
            wait = Wait(connection)
            self._waits[connection.number] = wait
        wait.entered = now

    def leave(self, number: int, now: float) -> None:
        """Note that input of a connection waits no more, for now."""
        wait = self._waits.get(number)
        if wait is not None:
            wait.waited_s += now - wait.entered

    def forget(self, number: int) -> None:
        """Forget a connection that is gone."""
        self._waits.pop(number, None)

    def of(self, connection: Connection) -> Wait | None:
        """Return the waiting of a connection that counts as slowed; None for any other."""
        wait = self._waits.get(connection.number)
        return None if wait is None or wait.since is None else wait

    def slowed(self) -> list[Wait]:
        """Return the connections that count as slowed, the longest first."""
        found = [wait for wait in self._waits.values() if wait.since is not None]
        found.sort(key=_since)
        return found

    def sample(self, now: float) -> tuple[list[Wait], list[Wait]]:
        """Judge all of them, about once a second; returns those that began to be slowed, and that ceased to be."""
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
