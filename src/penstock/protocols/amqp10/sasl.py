"""Logins over AMQP 1.0: the server's side of SASL, and its frames before the AMQP header (section 5.3).

The mechanisms are those of mechanisms.py without AMQPLAIN. Wrong passwords count in the back-off (login_limits.py).

A client that begins with the AMQP header logs in by ANONYMOUS, without frames, where it is offered that mechanism, as
with Qpid's brokers and RabbitMQ 3. Elsewhere it is answered with the SASL header, and closed (section 2.2).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr
from typing_extensions import override

from penstock.access.credentials import CredentialCheck
from penstock.access.password_hash import ScramKeys, load_scram, scram_is_loaded
from penstock.errors import CommandInvalid
from penstock.flow.states import StateTable
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.login import Verification, conclude_login, count_login
from penstock.protocols.common.mechanisms import ANONYMOUS, EXTERNAL, PLAIN, SCRAM, external_refusal, offered_mechanisms
from penstock.protocols.common.peer import Peer
from penstock.protocols.common.services import Services
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.frames import SASL_HEADER
from penstock.wire.amqp10.spec import (
    FRAME_SASL,
    SASL_CHALLENGE,
    SASL_INIT,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    SASL_RESPONSE,
)
from penstock.wire.sasl import SaslError, parse_plain, shown_mechanism

if TYPE_CHECKING:
    from penstock.protocols.amqp10.engine import Amqp10Engine
    from penstock.protocols.common.connection import Connection

MECHANISMS: Final = (EXTERNAL, SCRAM, PLAIN, ANONYMOUS)
GUEST: Final = "guest"
"""User of ANONYMOUS, and its password."""
RESPONSE_MAX: Final = 4096
"""Most octets of a response; a frame before the login has no more."""
SCRAM_MAX: Final = 512
"""Most octets of a response in SCRAM: SASLprep looks at each character of a name."""
SCRAM_WORK: Final = 1_000
"""Units of work of each response in SCRAM."""


class SaslState(IntEnum):
    """State of an exchange."""

    INIT = 0
    """The client has to choose a mechanism."""
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


class SaslStep:
    """Answer to an init or a response: a challenge, a password to verify, or the outcome."""

    __slots__ = ("is_challenge", "data", "refusal", "delay_s", "check")

    def __init__(
        self,
        is_challenge: bool,
        data: bytes,
        refusal: str = "",
        delay_s: float = 0.0,
        check: CredentialCheck | None = None,
    ) -> None:
        self.is_challenge: Final = is_challenge
        self.data: Final = data
        """The challenge, or the additional data of an outcome (the server's proof in SCRAM)."""
        self.refusal: Final = refusal
        """Reason of a refused login, for the log and never for the client; empty if it is accepted."""
        self.delay_s: Final = delay_s
        """Seconds before the client may know of the refusal; see `login.conclude_login`."""
        self.check: Final = check
        """Check of a password, which gives the outcome; None if it is known."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SaslExchange:
    """One login: `init`, then `respond` to each challenge, until a step is the outcome."""

    def __init__(self, services: Services, peer: Peer) -> None:
        self._services = services
        self._peer = peer
        self.mechanisms: list[str] = offered_mechanisms(services, peer, MECHANISMS)
        """Mechanisms for the client to choose from."""
        self.mechanism: str = ""
        """The chosen one; empty until one of the offered was chosen."""
        self.user: str = ""
        """User that the client claims to be; logged in if the outcome has no refusal."""
        self.is_temporary: bool = False
        """True if the login was refused whatever its credentials, and may succeed later."""
        self.state = SaslState.INIT
        self._scram: Any = None
        """Server of scramp, once SCRAM has begun."""

    def init(self, mechanism: str, initial_response: bytes | None) -> SaslStep:
        """Begin with a mechanism; None stands for no initial response. Raises CommandInvalid for a second init."""
        if self.state is not SaslState.INIT:
            raise CommandInvalid("a second sasl-init on a connection")
        if mechanism not in self.mechanisms:
            offered = ", ".join(self.mechanisms)
            return self._refused(
                f"unknown authentication mechanism {shown_mechanism(mechanism)}; offered are {offered}"
            )
        self.mechanism = mechanism
        refusal = self._services.login_rate.refusal(self._peer.network, self._services.broker.now)
        if refusal:
            self.is_temporary = True
            return self._refused(refusal)
        if initial_response is None and mechanism in (PLAIN, SCRAM):
            return self._challenge(b"")
        return self._evaluate(initial_response or b"")

    def respond(self, response: bytes) -> SaslStep:
        """Continue with the response to a challenge. Raises CommandInvalid if there is none to respond to."""
        if self.state is not SaslState.CHALLENGED:
            raise CommandInvalid("a sasl-response without a sasl-challenge")
        return self._evaluate(response)

    def _evaluate(self, response: bytes) -> SaslStep:
        try:
            most = SCRAM_MAX if self.mechanism == SCRAM else RESPONSE_MAX
            if len(response) > most:
                raise SaslError(f"a {self.mechanism} response has {len(response)} octets; the most is {most}")
            if self.mechanism == PLAIN:
                return self._plain(response)
            if self.mechanism == ANONYMOUS:
                return self._anonymous()
            if self.mechanism == EXTERNAL:
                return self._external(response)
            self._services.broker.work.done += SCRAM_WORK
            return self._scram_first(response) if self._scram is None else self._scram_final(response)
        except SaslError as error:
            return self._refused(str(error))

    # Mechanisms

    def _plain(self, response: bytes) -> SaslStep:
        user, password = parse_plain(response)
        self.user = user
        check = self._services.password_check(user, password, self._peer.loopback)
        self.state = SASL_STATES.move(self.state, SaslState.DONE)
        return SaslStep(False, b"", check=check)

    def _anonymous(self) -> SaslStep:
        """Log in guest; the response is only a trace (RFC 4505 section 2)."""
        self.user = GUEST
        return self._checked(b"", self._services.access_refusal(GUEST, self._peer.loopback))

    def _external(self, response: bytes) -> SaslStep:
        """Log in the user of the certificate; the response is empty, or names the same user."""
        self.user = self._peer.tls_subject
        refusal = external_refusal(response, self.user)
        if refusal:
            raise SaslError(refusal)
        return self._checked(b"", self._services.access_refusal(self.user, self._peer.loopback))

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

    def _refused(self, refusal: str) -> SaslStep:
        return self._outcome(b"", refusal, 0.0)

    def _outcome(self, data: bytes, refusal: str, delay_s: float) -> SaslStep:
        self.state = SASL_STATES.move(self.state, SaslState.DONE)
        self._scram = None
        return SaslStep(False, data, refusal, delay_s)


def _text(response: bytes) -> str:
    try:
        return response.decode()
    except UnicodeDecodeError:
        raise SaslError("a SCRAM-SHA-256 response is not UTF-8") from None


OK: Final = 0
AUTH: Final = 1
SYS_TEMP: Final = 4
"""SASL outcome codes (section 5.3.3.6)."""
USER_LETTERS: Final = 255


class ScramLoading(Verification):
    """Import of the library for SCRAM beside the event loop; the first client that asks for SCRAM waits for it."""

    def __init__(self, layer: SaslLayer, init: Composite, connection: Connection) -> None:
        super().__init__(connection.peer.network)
        self._layer = layer
        self._init = init
        self._connection = connection

    def start(self) -> None:
        """Begin; input of the connection waits meanwhile."""
        self._connection.peer.mechanism = SCRAM
        self._connection.busy += 1
        self._connection.login.attempt = self
        self._connection.services.authenticator.start(self)

    @override
    def cancel(self) -> None:
        self._connection.services.authenticator.cancel(self)

    @override
    def run(self) -> None:
        load_scram()

    @override
    def conclude(self) -> None:
        self._go_on()
        if scram_is_loaded():
            self._layer.on_frame(self._init)
        else:
            conclude_login(self._connection, "", "SCRAM-SHA-256 cannot be loaded", 0.0)
        self._connection.services.resume_input(self._connection)

    @override
    def turn_away(self) -> None:
        self._go_on()
        conclude_login(self._connection, "", "too many logins are being verified", 0.0)

    def _go_on(self) -> None:
        self._connection.login.attempt = None
        self._connection.busy -= 1


class SaslLayer:
    """SASL exchange of one connection; `has_frames` is false for a client that has begun with the AMQP header."""

    def __init__(self, engine: Amqp10Engine, has_frames: bool) -> None:
        self._engine = engine
        self._has_frames = has_frames
        self._exchange = SaslExchange(engine.services, engine.connection.peer)
        self._additional_data: bytes = b""
        """Proof for the client, with the outcome."""

    def begin(self) -> None:
        """Answer the SASL header and offer the mechanisms, or log in a client that does without."""
        if not self._has_frames:
            self._begin_without_frames()
            return
        self._engine.out.write(SASL_HEADER)
        self._send(composite(SASL_MECHANISMS, sasl_server_mechanisms=self._exchange.mechanisms))

    def _begin_without_frames(self) -> None:
        if ANONYMOUS in self._exchange.mechanisms:
            self._engine.connection.peer.mechanism = ANONYMOUS
            self._answer(self._exchange.init(ANONYMOUS, None))
        else:
            self.conclude(False)

    def on_frame(self, performative: Composite) -> None:
        """Act on a SASL frame. Raises BrokerError."""
        connection = self._engine.connection
        if connection.ignores_input():
            return
        if connection.state is not ConnectionState.START:
            raise CommandInvalid(f"{performative.name} after the end of the SASL exchange")
        if performative.code == SASL_INIT:
            mechanism, initial_response = performative.text("mechanism"), performative.fields["initial_response"]
            if mechanism == SCRAM and mechanism in self._exchange.mechanisms and not scram_is_loaded():
                ScramLoading(self, performative, connection).start()
                return
            step = self._exchange.init(mechanism, initial_response if isinstance(initial_response, bytes) else None)
            connection.peer.mechanism = self._exchange.mechanism
        elif performative.code == SASL_RESPONSE:
            step = self._exchange.respond(performative.octets("response"))
        else:
            raise CommandInvalid(f"{performative.name} is not sent by clients")
        self._answer(step)

    def _answer(self, step: SaslStep) -> None:
        connection = self._engine.connection
        user = self._exchange.user
        connection.user = user[:USER_LETTERS]
        if step.is_challenge:
            self._send(composite(SASL_CHALLENGE, challenge=step.data))
        elif step.check is not None:
            connection.login.start(connection, step.check)
        else:
            self._additional_data = step.data
            conclude_login(connection, user, step.refusal, step.delay_s)

    def conclude(self, accepted: bool) -> None:
        """Tell the client that it is logged in, and the AMQP header follows; or refuse it, and close."""
        if accepted:
            self._engine.connection.move(ConnectionState.TUNE)
            self._send_outcome(OK)
            self._engine.sasl = None
        else:
            if not self._has_frames:
                self._engine.out.write(SASL_HEADER)
            self._send_outcome(SYS_TEMP if self._exchange.is_temporary else AUTH)
            self._engine.connection.end()

    def _send_outcome(self, code: int) -> None:
        if self._has_frames:
            self._send(composite(SASL_OUTCOME, code=code, additional_data=self._additional_data or None))

    def _send(self, performative: Composite) -> None:
        self._engine.send(0, performative, FRAME_SASL)
