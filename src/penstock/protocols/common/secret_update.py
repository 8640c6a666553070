"""Update of the secret of a connection that is open: `connection.update-secret`, and `/auth/tokens` of AMQP 1.0.

Both are extensions of RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.access.credentials import CredentialCheck
from penstock.access.tokens import TokenRules
from penstock.errors import NotAllowed
from penstock.log_ids import SECRET
from penstock.protocols.common.log_line import LogLine
from penstock.protocols.common.login import LoginAttempt, LoginListener

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection


UNAUTHORIZED: Final = "amqp:unauthorized-access"
"""Condition that AMQP 1.0 clients of RabbitMQ get."""


class SecretUpdate(LoginListener):
    """Update of the secret of a connection that is open.

    As in RabbitMQ a new token takes the place of the old one if it names the same user. A user with a password is not
    asked for it again: whatever the new secret is, nothing changes.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def start(self, secret: str) -> None:
        """Verify the new secret; `ProtocolEngine.on_login` or a close (530) follows, now or later."""
        connection = self._connection
        if not isinstance(connection.access.rules, TokenRules):
            connection.engine.on_login(True)
            return
        check = connection.services.password_check(connection.user, secret, connection.peer.loopback)
        connection.busy += 1
        attempt = LoginAttempt(connection.services, check, connection.peer.network, self)
        connection.login.attempt = attempt
        attempt.start()

    @override
    def on_login(self, check: CredentialCheck, refusal: str, delay_s: float) -> None:
        connection = self._connection
        connection.login.attempt = None
        connection.busy -= 1
        if connection.is_closing():
            return
        rules, newer = connection.access.rules, check.rules()
        if not refusal and check.user != connection.user:
            refusal = "not allowed to change username on refreshed token"
        if refusal or not isinstance(rules, TokenRules) or not isinstance(newer, TokenRules):
            text = f"[{connection.name()}] new secret refused: {refusal or 'it is no token'}"
            connection.services.log_limited(LogLine(text, {"id": SECRET}))
            refused = NotAllowed("New secret was refused by one of the backends")
            refused.finer_condition = UNAUTHORIZED
            connection.close(refused)
        else:
            rules.replace(newer)
            connection.login.expire(connection, check.expires_at())
            connection.services.log_limited(LogLine(f"[{connection.name()}] secret updated", {"id": SECRET}))
            connection.engine.on_login(True)
        connection.services.resume_input(connection)
