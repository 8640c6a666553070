"""Login of a client by user and password, for every protocol; wrong passwords are answered late (login_backoff.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.refusal_log import LOGIN
from penstock.protocols.common.services import Services

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection


def log_in(connection: Connection, user: str, password: str) -> bool:
    """Log a client in, and return whether that succeeded.

    A wrong password is refused, now or later (`ProtocolEngine.refuse_login`); the reason goes to the log only.
    """
    services, peer = connection.services, connection.peer
    refusal, delay_s = check_login(services, user, password, peer.network, peer.loopback)
    if not refusal:
        connection.logged_in = True
        services.logins.leave(connection)
        return True
    services.log_refusal(LOGIN, f"[{connection.name()}] login refused: {refusal}")
    if delay_s > 0:
        connection.move(ConnectionState.REFUSED)
        connection.late_refusal = LateRefusal(connection, user, delay_s)
    else:
        connection.engine.refuse_login()
    return False


def check_login(services: Services, user: str, password: str, address: str, loopback: bool) -> tuple[str, float]:
    """Return why a login is refused ("" if it is accepted), and the delay in seconds before the client may know.

    `address` is the network of the client (`Peer.network`); the back-off counts per user and network.
    """
    backoff = services.backoff
    refusal = backoff.refusal(user, address)
    if refusal:
        return refusal, 0.0
    refusal = services.login_refusal(user, password, loopback)
    if refusal:
        return refusal, backoff.failed(user, address, services.broker.now)
    backoff.succeeded(user, address)
    return "", 0.0


class LateRefusal(TimerHandler):
    """Delayed answer to a wrong password."""

    def __init__(self, connection: Connection, user: str, delay_s: float) -> None:
        super().__init__()
        self._connection = connection
        self._keys = connection.services.backoff.wait(user, connection.peer.network)
        connection.broker.timers.add(self, connection.broker.now + delay_s)

    def end(self) -> None:
        """Cancel the answer: the connection is closed."""
        self._connection.services.backoff.answered(self._keys)
        self._connection.broker.timers.drop(self)

    @override
    def on_deadline(self, now: float) -> float:
        connection = self._connection
        connection.services.backoff.answered(self._keys)
        connection.late_refusal = None
        if connection.state is ConnectionState.REFUSED:
            connection.engine.refuse_login()
        return NEVER
