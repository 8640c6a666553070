"""Events of a connection, its publishers and receivers, which no call would report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from penstock.client.engine.receipt import Receipt

BLOCKED: Final = "blocked"
UNBLOCKED: Final = "unblocked"
LOST: Final = "lost"
RECONNECTED: Final = "reconnected"
CLOSED: Final = "closed"
PUBLISHER_CLOSED: Final = "publisher closed"
RECEIVER_CLOSED: Final = "receiver closed"
REPLAY_UNCERTAIN: Final = "replay uncertain"
WARNING: Final = "warning"
"""Kinds of events. A connection's last one is `CLOSED`."""
LOGGED: Final = (REPLAY_UNCERTAIN, WARNING)
"""Kinds that the shells also write to the log, as warnings."""


class Event(NamedTuple):
    """Occurrence: its kind, to what it happened, and why."""

    kind: str
    """One of the constants of this module."""
    source: str
    """Queue or exchange of the publisher or receiver; empty for the connection itself."""
    reason: str
    """Words of the broker, or of the client; empty where there are none."""
    receipts: tuple[Receipt, ...] = ()
    """Receipts of the messages that it is about."""
