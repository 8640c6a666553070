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
    return conclude_login(connection, user, refusal, delay_s)


def conclude_login(connection: Connection, user: str, refusal: str, delay_s: float) -> bool:
    """Log a client in whose credentials were checked, or refuse it as `log_in` does; return whether it is logged in."""
    services = connection.services
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
    refusal = services.backoff.refusal(user, address)
    if refusal:
        return refusal, 0.0
    refusal = services.login_refusal(user, password, loopback)
    return refusal, count_login(services, user, refusal, address)


def count_login(services: Services, user: str, refusal: str, address: str) -> float:
    """Count checked credentials in the back-off. Return the delay in seconds before the client may know a refusal."""
    if refusal:
        return services.backoff.failed(user, address, services.broker.now)
    services.backoff.succeeded(user, address)
    return 0.0


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
