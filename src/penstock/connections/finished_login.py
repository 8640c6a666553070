"""Finished login: what two processes pass on of a client that is logged in and has not opened a virtual host.

Theory of operation. One process logs a client in, and another process serves it. The first process stops before the
frame that opens a virtual host. By then AMQP 1.0 has agreed on the user only, AMQP 0-9-1 also on the limits of
`Agreement`. The second process begins its connection in the state `OPEN` with both, and reads that frame itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.access.rules import ConnectionAccess, Rules, UserRules
from penstock.connections.connection_state import ConnectionState
from penstock.connections.engine import Agreement, Protocol
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.connections.connection import Connection


class FinishedLogin:
    """Login of one client in another process."""

    def __init__(
        self, user: str, rules: Rules | None, agreement: Agreement, mechanism: str = "", expires_at: float = NEVER
    ) -> None:
        self.user = user
        self.rules = rules
        """Rules of a token or of an HTTP back end; None: the table of users decides."""
        self.agreement = agreement
        self.mechanism = mechanism
        """Authentication mechanism, such as PLAIN."""
        self.expires_at = expires_at
        """Wall-clock time in seconds at which the credentials expire; infinity for never."""


def resume(connection: Connection, protocol: Protocol, login: FinishedLogin) -> None:
    """Begin a connection in the state OPEN, as its login in another process has left it."""
    rules = login.rules
    if rules is None:
        rules = UserRules(connection.broker.access, login.user)
    connection.user = login.user
    connection.logged_in = True
    connection.access = ConnectionAccess(rules, login.user, "")
    connection.peer.mechanism = login.mechanism
    connection.move(ConnectionState.OPEN)
    connection.engine = protocol.engine(connection)
    connection.engine.resume(login.agreement)
    if login.expires_at != NEVER:
        connection.login.expire(connection, login.expires_at)
