"""Events of a connection, its publishers and its receivers."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.client.engine.outcomes import Receipt

BLOCKED: Final = "blocked"
UNBLOCKED: Final = "unblocked"
LOST: Final = "lost"
RECONNECTED: Final = "reconnected"
CLOSED: Final = "closed"
PUBLISHER_CLOSED: Final = "publisher closed"
RECEIVER_CLOSED: Final = "receiver closed"
REPLAY_UNCERTAIN: Final = "replay uncertain"
WARNING: Final = "warning"
"""Kinds of events. The last event of a connection is `CLOSED`."""
LOGGED: Final = (REPLAY_UNCERTAIN, WARNING)
"""Kinds that the shells also log as warnings."""


class Event(NamedTuple):
    """Event: its kind, its subject, and the reason."""

    kind: str
    """One of the constants of this module."""
    source: str
    """Queue or exchange of the publisher or receiver; empty for the connection itself."""
    reason: str
    """Reason of the broker, or of the client; empty without one."""
    receipts: tuple[Receipt, ...] = ()
    """Receipts of the messages concerned."""
