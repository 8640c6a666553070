"""Server's side of SASL (RFC 4422), for every protocol: choice of a mechanism, responses, and the outcome.

Wrong passwords count in the back-off (login_limits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from mypy_extensions import mypyc_attr

from penstock.access.access_table import GUEST
from penstock.access.password_hash import ScramKeys
from penstock.access.rules import CredentialCheck
from penstock.connections.connection import Connection
from penstock.connections.login import conclude_login, count_login
from penstock.connections.peer import SHOWN_LETTERS, Peer
from penstock.connections.sasl_mechanisms import AMQPLAIN, ANONYMOUS, EXTERNAL, PLAIN, SCRAM, offered_mechanisms
from penstock.connections.services import Services
from penstock.errors import BrokerError, CommandInvalid, FrameError
from penstock.flow.states import StateTable
from penstock.wire.amqp091.amqplain import parse_amqplain
from penstock.wire.sasl import SaslError, parse_plain, shown_mechanism

PASSWORDS: Final[dict[str, Callable[[bytes], tuple[str, str]]]] = {PLAIN: parse_plain, AMQPLAIN: parse_amqplain}
"""Mechanisms whose response has user and password, with the function that parses it."""
PLACEHOLDER: Final = b"\0*\0*"
"""Response to EXTERNAL of amqp091-go, which has no user name."""
SCRAM_MAX: Final = 512
"""Most bytes of a response in SCRAM: SASLprep examines each character of a name."""
SCRAM_WORK: Final = 1_000
"""Units of work of each response in SCRAM."""


class SaslState(IntEnum):
    """State of an exchange."""

    INIT = 0
    """The client must choose a mechanism."""
    CHALLENGED = 1
    """A challenge was sent, and the response is awaited."""
    DONE = 2
    """The outcome is known; it may be sent later."""


SASL_STATES: Final = StateTable(
    "SASL exchange",
    SaslState.INIT,
    {
        SaslState.INIT: {
            SaslState.CHALLENGED: "mechanism needs a response",
            SaslState.DONE: "initial response was enough, or refused",
        },
        SaslState.CHALLENGED: {
            SaslState.CHALLENGED: "first response of SCRAM",
            SaslState.DONE: "last response, or one that was refused",
        },
    },
)


class SaslStep(NamedTuple):
    """Answer to an init or a response: a challenge, a password to verify, or the outcome."""

    is_challenge: bool
    data: bytes
    """The challenge, or the additional data of an outcome (the server's proof in SCRAM)."""
    refusal: str = ""
    """Reason of a refused login, for the log and never for the client; empty if the login is accepted."""
    delay_s: float = 0.0
    """Seconds before the client may know of the refusal; see `login.conclude_login`."""
    check: CredentialCheck | None = None
    """Check of a password, which determines the outcome; None if the outcome is known."""
    fault: BrokerError | None = None
    """Error of a refused client that violates SASL, for protocols that name such errors; None for other refusals."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SaslExchange:
    """One login: `init`, then `respond` to each challenge, until a step is the outcome."""

    def __init__(self, services: Services, peer: Peer, known: Sequence[str], response_max: int) -> None:
        """`known` are the mechanisms of the protocol, and `response_max` is the most bytes of a response."""
        self._services = services
        self._peer = peer
        self._response_max = response_max
        self.mechanisms: list[str] = offered_mechanisms(services, peer, known)
        """Mechanisms for the client to choose from."""
        self.user: str = ""
        """User that the client claims to be; logged in if the outcome has no refusal."""
        self.is_temporary: bool = False
        """True if the login was refused regardless of its credentials, and may succeed later."""
        self.state = SaslState.INIT
        self._scram: Any = None
        """Server of scramp, once SCRAM has begun."""

    def init(self, mechanism: str, initial_response: bytes | None) -> SaslStep:
        """Begin with a mechanism; None stands for no initial response. Raises CommandInvalid for a second init."""
        if self.state is not SaslState.INIT:
            raise CommandInvalid("a second sasl-init on a connection")
        if mechanism not in self.mechanisms:
            offered = ", ".join(self.mechanisms)
            return self._faulty(
                CommandInvalid(f"unknown authentication mechanism {shown_mechanism(mechanism)}; offered are {offered}")
            )
        self._peer.mechanism = mechanism
        refusal = self._services.login_rate.refusal(self._peer.network, self._services.broker.now)
        if refusal:
            self.is_temporary = True
            return self._refused(refusal)
        if initial_response is None and mechanism in (PLAIN, SCRAM):
            return self._challenge(b"")
        return self._evaluate(initial_response or b"")

    def respond(self, response: bytes) -> SaslStep:
        """Continue with the response to a challenge. Raises CommandInvalid without a pending challenge."""
        if self.state is not SaslState.CHALLENGED:
            raise CommandInvalid("a sasl-response without a sasl-challenge")
        return self._evaluate(response)

    def _evaluate(self, response: bytes) -> SaslStep:
        mechanism = self._peer.mechanism
        try:
            most = SCRAM_MAX if mechanism == SCRAM else self._response_max
            if len(response) > most:
                raise SaslError(f"a {mechanism} response has {len(response)} bytes; the most is {most}")
            if mechanism in PASSWORDS:
                return self._password(*PASSWORDS[mechanism](response))
            if mechanism == ANONYMOUS:  # The response is only a trace (RFC 4505 section 2).
                return self._identified(GUEST)
            if mechanism == EXTERNAL:
                return self._external(response)
            self._services.broker.work.done += SCRAM_WORK
            return self._scram_first(response) if self._scram is None else self._scram_final(response)
        except SaslError as error:
            return self._faulty(FrameError(str(error)))

    # Mechanisms

    def _password(self, user: str, password: str) -> SaslStep:
        self.user = user
        check = self._services.password_check(user, password, self._peer.loopback)
        self.state = SASL_STATES.move(self.state, SaslState.DONE)
        return SaslStep(False, b"", check=check)

    def _identified(self, user: str) -> SaslStep:
        self.user = user
        return self._checked(b"", self._services.access_refusal(user, self._peer.loopback))

    def _external(self, response: bytes) -> SaslStep:
        """Log in the user of the certificate; the response is empty, or names the same user (RFC 4422, appendix A)."""
        self.user = self._peer.tls_subject
        if response not in (b"", PLACEHOLDER, self.user.encode()):
            return self._refused("an EXTERNAL response asks to act for another user")
        return self._identified(self.user)

    def _scram_first(self, response: bytes) -> SaslStep:
        from scramp import ScramException, ScramMechanism  # See `load_scram`.

        server = ScramMechanism(SCRAM).make_server(self._scram_keys, s_nonce=self._services.make_nonce())
        try:
            server.set_client_first(_text(response))
            challenge: str = server.get_server_first()
        except ScramException as error:
            raise SaslError(f"a SCRAM-SHA-256 response is malformed: {error}") from None
        self._scram = server
        return self._challenge(challenge.encode())

    def _scram_final(self, response: bytes) -> SaslStep:
        from scramp import ScramException
        from scramp.utils import ServerError

        refusal = self._services.backoff.refusal(self.user, self._peer.network)
        if refusal:
            return self._refused(refusal)
        try:
            self._scram.set_client_final(_text(response))
        except ScramException as error:
            if error.server_error is not ServerError.INVALID_PROOF:
                raise SaslError(f"a SCRAM-SHA-256 response is malformed: {error}") from None
            refusal = self._services.access_refusal(self.user, True)
            return self._checked(b"", refusal or f"user '{self.user}' gave a wrong password")
        final: str = self._scram.get_server_final()
        return self._checked(final.encode(), self._services.access_refusal(self.user, self._peer.loopback))

    def _scram_keys(self, user: str) -> ScramKeys:
        """Return the keys of the user in the first response: a name after SASLprep."""
        self.user = user
        return self._services.scram_keys(user)

    # Steps

    def _challenge(self, data: bytes) -> SaslStep:
        self.state = SASL_STATES.move(self.state, SaslState.CHALLENGED)
        return SaslStep(True, data)

    def _checked(self, data: bytes, refusal: str) -> SaslStep:
        """Return the outcome of checked credentials, which count in the back-off."""
        delay_s = count_login(self._services, self.user, refusal, self._peer.network)
        return self._outcome(b"" if refusal else data, refusal, delay_s)

    def _faulty(self, fault: BrokerError) -> SaslStep:
        return self._outcome(b"", str(fault), 0.0, fault)

    def _refused(self, refusal: str) -> SaslStep:
        return self._outcome(b"", refusal, 0.0)

    def _outcome(self, data: bytes, refusal: str, delay_s: float, fault: BrokerError | None = None) -> SaslStep:
        self.state = SASL_STATES.move(self.state, SaslState.DONE)
        self._scram = None
        return SaslStep(False, data, refusal, delay_s, None, fault)

    def carry_out(self, connection: Connection, step: SaslStep) -> None:
        """Log the client in by a step, refuse it, or verify its password first; the protocol sends a challenge itself.

        `ProtocolEngine.on_login` follows, now or in a later turn.
        """
        connection.user = self.user[:SHOWN_LETTERS]
        if step.check is not None:
            connection.login.start(connection, step.check)
        elif not step.is_challenge:
            conclude_login(connection, self.user, step.refusal, step.delay_s)


def _text(response: bytes) -> str:
    try:
        return response.decode()
    except UnicodeDecodeError:
        raise SaslError("a SCRAM-SHA-256 response is not UTF-8") from None
