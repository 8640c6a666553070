"""Login of a client, for every protocol: back-off, verification outside the event loop, and late refusals.

Theory of operation. `ConnectionLogin.start` begins an attempt, and the connection is `VERIFYING` until its password is
verified. Input waits meanwhile, but the socket is read, within a bound. So an end of input is seen at once, and the
attempt of a disconnected client costs no verification. Wrong passwords are answered late (login_limits.py).

A `Verification` has a slow part, `run`, which does not touch the broker, and `conclude`, which applies the result. An
`Authenticator` runs `run` in a thread and `conclude` in a later turn. Unit tests and the simulation use
`InlineAuthenticator`, which runs both at once.

Two parts follow a login: the expiry of its token, which closes the connection (in RabbitMQ it refuses operations), and
the update of its secret. `connection.update-secret` and `/auth/tokens` of AMQP 1.0 are extensions of RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.access.rules import ConnectionAccess, CredentialCheck, UserRules
from penstock.access.tokens import TokenRules
from penstock.connections.audit_trail import actor_of
from penstock.connections.authorization import NO_ACCESS
from penstock.connections.connection_state import ConnectionState
from penstock.connections.log_line import LOGIN, LogLine
from penstock.connections.peer import THIS_MACHINE
from penstock.connections.services import Services
from penstock.errors import AccessRefused, NotAllowed
from penstock.flow.timers import NEVER, TimerHandler
from penstock.logs.ids import SECRET

if TYPE_CHECKING:
    from penstock.connections.connection import Connection


@mypyc_attr(allow_interpreted_subclasses=True)
class Verification:
    """Verification of the credentials of one client."""

    def __init__(self, network: str) -> None:
        self.network: str = network
        """Network of the client (`Peer.network`): networks take turns."""
        self.subject: str = ""
        """User of the credentials, one subject for all unknown users: users of a network take turns."""
        self.remote: bool = False
        """True if `run` may wait for another server, so that it must not occupy the threads of passwords."""
        self.back_end: bool = False
        """True if `run` waits for an HTTP back end, so that it must not occupy the threads of tokens either."""
        self.number: int = 0
        """Number of the verification in the line."""
        self.cancelled: bool = False
        """True if the result is no longer needed."""

    def run(self) -> None:
        """Run the slow part. The method runs in a thread, and must not raise."""
        raise NotImplementedError

    def conclude(self) -> None:
        """Apply the result, in a turn of the event loop; not called after `cancel`."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Drop the verification: its client has disconnected."""
        raise NotImplementedError

    def turn_away(self) -> None:
        """Refuse the client without a verification: too many wait. `Authenticator.start` may call this method."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Authenticator:
    """Runner of verifications."""

    def start(self, verification: Verification) -> None:
        """Run a verification, now or later, and conclude it; beyond a bound it is refused."""
        raise NotImplementedError

    def cancel(self, verification: Verification) -> None:
        """Drop a verification: its client has disconnected. A running verification ends without a conclusion."""
        verification.cancelled = True


class InlineAuthenticator(Authenticator):
    """Runner that verifies at once."""

    @override
    def start(self, verification: Verification) -> None:
        verification.run()
        if not verification.cancelled:
            verification.conclude()


class CredentialExpiry(TimerHandler):
    """Close of a connection when its token has expired by the wall clock, which may be set meanwhile."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection: Connection | None = connection
        self.at: float = NEVER
        """Wall-clock time in seconds."""

    def set(self, at: float) -> None:
        """Set the wall-clock time in seconds; infinity for none."""
        connection = self._connection
        if connection is None:
            return
        self.at = at
        connection.broker.timers.drop(self)
        if at != NEVER:
            connection.broker.timers.add(self, at - connection.broker.wall_offset)

    def end(self) -> None:
        """Cancel the timer: the connection is closed."""
        if self._connection is not None:
            self._connection.broker.timers.drop(self)
            self._connection = None

    @override
    def on_deadline(self, now: float) -> float:
        connection = self._connection
        if connection is None or connection.is_closing():
            return NEVER
        left = self.at - connection.broker.wall_offset - now
        if left > 0:
            return now + left
        wall = now + connection.broker.wall_offset
        connection.close(
            AccessRefused(f"provided JWT token has expired at timestamp {self.at:.0f} (validated at {wall:.0f})")
        )
        return NEVER


RENEWAL_WORK: Final = 400
"""Units of work to verify a token: its thread runs Python, and takes time from the event loop."""
VERIFYING_OCTETS_MAX: Final = 65_536
"""Most bytes of input that are read and wait while a password is verified."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginListener:
    """Receiver of the outcome of an attempt to log in."""

    def on_login(self, check: CredentialCheck, refusal: str, delay_s: float) -> None:
        """Handle the outcome: "" if the client is logged in, or the reason of a refusal, for the log only.

        `delay_s` is the delay in seconds before the client may know of a refusal.
        """
        raise NotImplementedError


class LoginAttempt(Verification):
    """Attempt to log in with credentials."""

    def __init__(self, services: Services, check: CredentialCheck, network: str, listener: LoginListener) -> None:
        super().__init__(network)
        self._services = services
        self._check = check
        self.remote = check.remote
        self.back_end = check.back_end
        self.subject = services.backoff.known_name(check.user)
        self._listener: LoginListener | None = listener
        """Receiver of the outcome; None once notified or dropped, to avoid a reference cycle."""

    def start(self) -> None:
        """Begin, unless the back-off refuses; the outcome may be known at once."""
        refusal = self._services.backoff.refusal(self._check.user, self.network)
        if refusal:
            self._tell(refusal, 0.0)
        elif self._check.is_slow():
            self._services.authenticator.start(self)
        else:
            self.conclude()

    @override
    def cancel(self) -> None:
        self._listener = None
        self._services.authenticator.cancel(self)

    @override
    def run(self) -> None:
        self._check.verify()

    @override
    def conclude(self) -> None:
        refusal = self._check.refusal()
        delay_s = count_login(self._services, self._check.user, refusal, self.network)
        self._tell(refusal, delay_s)

    @override
    def turn_away(self) -> None:
        self._tell("too many logins are being verified", 0.0)

    def _tell(self, refusal: str, delay_s: float) -> None:
        listener = self._listener
        self._listener = None
        if listener is not None:
            listener.on_login(self._check, refusal, delay_s)


class Renewal(LoginAttempt):
    """Verification of a newer token: renewals of one user begin at a bounded rate, and wait until then."""

    def __init__(self, services: Services, check: CredentialCheck, network: str, listener: LoginListener) -> None:
        super().__init__(services, check, network, listener)
        self._user: str = ""
        self._timer: RenewalTimer | None = None
        """Timer for the start of the renewal; None if it does not wait."""

    def start_at_rate(self, user: str) -> None:
        """Begin, now or when the user's rate allows."""
        broker = self._services.broker
        broker.work.count(RENEWAL_WORK)
        self._user = user
        at = self._services.renewal_rate.reserve(user, broker.now)
        if at <= broker.now:
            self.start()
        else:
            self._timer = RenewalTimer(self)
            broker.timers.add(self._timer, at)

    def begin(self) -> None:
        """Begin: the time has come."""
        self._timer = None
        self.start()

    @override
    def cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            self._services.broker.timers.drop(timer)
            self._services.renewal_rate.give_back(self._user, self._services.broker.now)
        super().cancel()


class RenewalTimer(TimerHandler):
    """Timer for the start of a renewal."""

    def __init__(self, renewal: Renewal) -> None:
        super().__init__()
        self._renewal = renewal

    @override
    def on_deadline(self, now: float) -> float:
        self._renewal.begin()
        return NEVER


class AttemptListener(LoginListener):
    """Receiver of the outcome for a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @override
    def on_login(self, check: CredentialCheck, refusal: str, delay_s: float) -> None:
        connection = self._connection
        connection.login.finish(connection)
        connection.services.logins.end_verdict(connection)
        if connection.state is ConnectionState.VERIFYING:
            rules = check.rules()
            if not refusal and rules is not None:
                connection.user = check.user
                connection.access = ConnectionAccess(rules, check.user, "")
                connection.login.expire(connection, check.expires_at())
            conclude_login(connection, check.user, refusal, delay_s)
        connection.services.resume_input(connection)


class ConnectionLogin:
    """Login of a connection: its attempt, input that waits for the attempt, and a late refusal."""

    def __init__(self) -> None:
        self.attempt: Verification | None = None
        """Login attempt while the password is verified or its verification prepared; None otherwise."""
        self.late_refusal: LateRefusal | None = None
        """Delayed answer to a wrong password."""
        self._expiry: CredentialExpiry | None = None
        """Expiry of the credentials, if they expire."""
        self._deferred: int = 0
        """Bytes that were read while the password was being verified."""

    def start(self, connection: Connection, check: CredentialCheck) -> None:
        """Begin an attempt; the outcome may be known at once."""
        connection.move(ConnectionState.VERIFYING)
        check.address = connection.peer.address.rpartition(":")[0]
        connection.services.logins.await_verdict(connection)
        self.verify(connection, check, AttemptListener(connection))

    def verify(self, connection: Connection, check: CredentialCheck, listener: LoginListener) -> None:
        """Check credentials; input of the connection waits for the outcome, which may be known at once."""
        attempt = LoginAttempt(connection.services, check, connection.peer.network, listener)
        self.begin(connection, attempt)
        attempt.start()

    def begin(self, connection: Connection, attempt: Verification) -> None:
        """Make input of the connection wait for an attempt."""
        self.attempt = attempt
        connection.hold_input()

    def finish(self, connection: Connection) -> None:
        """End the wait of the connection's input: the attempt is over. The caller resumes the input."""
        self.attempt = None
        connection.release_input(False)

    def count_deferred(self, octets: int) -> None:
        """Count bytes of input that wait."""
        if self.attempt is not None:
            self._deferred += octets

    def reads_ahead(self) -> bool:
        """Return whether the socket is read although input waits: the client may disconnect while it is verified."""
        return self.attempt is not None and self._deferred < VERIFYING_OCTETS_MAX

    def expire(self, connection: Connection, at: float) -> None:
        """Set the wall-clock time in seconds at which the credentials expire; infinity for never."""
        if self._expiry is None:
            self._expiry = CredentialExpiry(connection)
        self._expiry.set(at)

    def expires_at(self) -> float:
        """Return the wall-clock time in seconds at which the credentials expire; infinity for never."""
        return NEVER if self._expiry is None else self._expiry.at

    def end(self, connection: Connection) -> None:
        """Drop the attempt, the late refusal and the expiry: the connection is closed."""
        if self._expiry is not None:
            self._expiry.end()
        if self.attempt is not None:
            self.attempt.cancel()
            self.finish(connection)
        if self.late_refusal is not None:
            self.late_refusal.end()


def conclude_login(connection: Connection, user: str, refusal: str, delay_s: float) -> None:
    """Log in a client whose credentials were checked, or refuse it; only the log has the reason of a refusal."""
    services = connection.services
    services.audit.login(actor_of(connection), connection.peer.mechanism, refusal)
    if not refusal:
        connection.logged_in = True
        if connection.access is NO_ACCESS:
            connection.access = ConnectionAccess(UserRules(connection.broker.access, user), user, "")
        services.logins.leave(connection)
        connection.engine.on_login(True)
        return
    services.log_refusal(LOGIN, f"[{connection.name()}] login refused: {refusal}")
    if delay_s > 0:
        connection.move(ConnectionState.REFUSED)
        connection.login.late_refusal = LateRefusal(connection, user, delay_s)
    else:
        connection.engine.on_login(False)


def count_login(services: Services, user: str, refusal: str, address: str) -> float:
    """Count checked credentials in the back-off. Return the delay in seconds before the client may know a refusal.

    `address` is the network of the client (`Peer.network`); the back-off counts per user and network.
    """
    if refusal:
        return services.backoff.failed(user, address, services.broker.now)
    services.backoff.succeeded(user, address)
    return 0.0


class LateRefusal(TimerHandler):
    """Delayed answer to a wrong password.

    The answer counts as waiting until its time even if the client disconnects. A right password is answered at once, so
    a short silence already reveals a wrong one, and the next guess could follow on another connection.
    """

    def __init__(self, connection: Connection, user: str, delay_s: float) -> None:
        super().__init__()
        self._connection: Connection | None = connection
        """The connection; None once it is closed."""
        self._backoff = connection.services.backoff
        self._network = connection.peer.network
        self._keys = self._backoff.wait(user, self._network)
        connection.broker.timers.add(self, connection.broker.now + delay_s)

    def end(self) -> None:
        """Cancel the answer: the connection is closed."""
        connection = self._connection
        if connection is None:
            return
        self._connection = None
        connection.login.late_refusal = None
        if self._network == THIS_MACHINE or self._backoff.waits_are_many():
            self._backoff.answered(self._keys)
            connection.broker.timers.drop(self)

    @override
    def on_deadline(self, now: float) -> float:
        self._backoff.answered(self._keys)
        connection = self._connection
        if connection is not None:
            self._connection = None
            connection.login.late_refusal = None
            if connection.state is ConnectionState.REFUSED:
                connection.engine.on_login(False)
        return NEVER


UNAUTHORIZED: Final = "amqp:unauthorized-access"
"""Condition that RabbitMQ sends to AMQP 1.0 clients."""


class SecretUpdate(LoginListener):
    """Update of the secret of an open connection.

    As in RabbitMQ a new token replaces the old one if it names the same user. A user with a password is not asked for
    it again: any new secret changes nothing.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def start(self, secret: bytes) -> None:
        """Verify the new secret; `ProtocolEngine.on_login` or a close (530) follows, now or later."""
        connection = self._connection
        if not isinstance(connection.access.rules, TokenRules):
            connection.engine.on_login(True)
            return
        services, peer = connection.services, connection.peer
        check = services.password_check(connection.user, secret.decode(errors="replace"), peer.loopback)
        renewal = Renewal(services, check, peer.network, self)
        connection.login.begin(connection, renewal)
        renewal.start_at_rate(connection.user)

    @override
    def on_login(self, check: CredentialCheck, refusal: str, delay_s: float) -> None:
        connection = self._connection
        connection.login.finish(connection)
        if connection.is_closing():
            return
        rules, newer = connection.access.rules, check.rules()
        if not refusal and check.user != connection.user:
            refusal = "not allowed to change username on refreshed token"
        if refusal or not isinstance(rules, TokenRules) or not isinstance(newer, TokenRules):
            text = f"[{connection.name()}] new secret refused: {refusal or 'it is no token'}"
            connection.services.log(LogLine(text, {"id": SECRET}))
            refused = NotAllowed("New secret was refused by one of the backends")
            refused.finer_condition = UNAUTHORIZED
            connection.close(refused)
        else:
            rules.replace(newer)
            connection.login.expire(connection, check.expires_at())
            connection.services.log(LogLine(f"[{connection.name()}] secret updated", {"id": SECRET}))
            connection.engine.on_login(True)
        connection.services.resume_input(connection)
