"""Logins over AMQP 1.0: frames of SASL before the AMQP header (section 5.3).

A client that begins with the AMQP header is logged in by ANONYMOUS, without frames, if that mechanism is offered (as in
Qpid's brokers and RabbitMQ 3). Otherwise the broker answers with the SASL header, and closes the connection (section
2.2).
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.access.password_hash import load_scram, scram_is_loaded
from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.login import Verification, conclude_login
from penstock.connections.sasl import SaslExchange, SaslStep
from penstock.connections.sasl_mechanisms import ANONYMOUS, EXTERNAL, PLAIN, SCRAM
from penstock.errors import CommandInvalid
from penstock.protocols.amqp10.endpoint import Endpoint
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

MECHANISMS: Final = (EXTERNAL, SCRAM, PLAIN, ANONYMOUS)
RESPONSE_MAX: Final = 4096
"""Most bytes of a response; frames before the login are not larger."""
OK: Final = 0
AUTH: Final = 1
SYS_TEMP: Final = 4
"""SASL outcome codes (section 5.3.3.6)."""


class ScramLoading(Verification):
    """Import of the library for SCRAM outside the event loop; the first client that asks for SCRAM waits for it."""

    def __init__(self, layer: SaslLayer, init: Composite, connection: Connection) -> None:
        super().__init__(connection.peer.network)
        self._layer = layer
        self._init = init
        self._connection = connection

    def start(self) -> None:
        """Begin the import; input of the connection waits meanwhile."""
        self._connection.peer.mechanism = SCRAM
        self._connection.login.begin(self._connection, self)
        self._connection.services.authenticator.start(self)

    @override
    def cancel(self) -> None:
        self._connection.services.authenticator.cancel(self)

    @override
    def run(self) -> None:
        load_scram()

    @override
    def conclude(self) -> None:
        self._connection.login.finish(self._connection)
        if scram_is_loaded():
            self._layer.on_frame(self._init)
        else:
            conclude_login(self._connection, "", "SCRAM-SHA-256 cannot be loaded", 0.0)
        self._connection.services.resume_input(self._connection)

    @override
    def turn_away(self) -> None:
        self._connection.login.finish(self._connection)
        conclude_login(self._connection, "", "too many logins are being verified", 0.0)


class SaslLayer:
    """SASL exchange of one connection; `has_frames` is false for a client that has begun with the AMQP header."""

    def __init__(self, endpoint: Endpoint, has_frames: bool) -> None:
        connection = endpoint.connection
        self._endpoint = endpoint
        self._has_frames = has_frames
        self._exchange = SaslExchange(connection.services, connection.peer, MECHANISMS, RESPONSE_MAX)
        self._additional_data: bytes = b""
        """Proof for the client, sent with the outcome."""

    def begin(self) -> None:
        """Answer the SASL header and offer the mechanisms, or log in a client that skips SASL."""
        if not self._has_frames:
            self._begin_without_frames()
            return
        self._endpoint.connection.output.buffer.write(SASL_HEADER)
        self._send(composite(SASL_MECHANISMS, sasl_server_mechanisms=self._exchange.mechanisms))

    def _begin_without_frames(self) -> None:
        if ANONYMOUS in self._exchange.mechanisms:
            self._answer(self._exchange.init(ANONYMOUS, None))
        else:
            self.conclude(False)

    def on_frame(self, performative: Composite) -> None:
        """Handle a SASL frame. Raises BrokerError."""
        connection = self._endpoint.connection
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
        elif performative.code == SASL_RESPONSE:
            step = self._exchange.respond(performative.octets("response"))
        else:
            raise CommandInvalid(f"{performative.name} is not sent by clients")
        self._answer(step)

    def _answer(self, step: SaslStep) -> None:
        if step.is_challenge:
            self._send(composite(SASL_CHALLENGE, challenge=step.data))
        else:
            self._additional_data = step.data
        self._exchange.carry_out(self._endpoint.connection, step)

    def conclude(self, accepted: bool) -> None:
        """Report success to the client, and expect the AMQP header; or refuse the client, and close."""
        if accepted:
            self._endpoint.connection.move(ConnectionState.TUNE)
            self._send_outcome(OK)
        else:
            if not self._has_frames:
                self._endpoint.connection.output.buffer.write(SASL_HEADER)
            self._send_outcome(SYS_TEMP if self._exchange.is_temporary else AUTH)
            self._endpoint.connection.end()

    def _send_outcome(self, code: int) -> None:
        if self._has_frames:
            self._send(composite(SASL_OUTCOME, code=code, additional_data=self._additional_data or None))

    def _send(self, performative: Composite) -> None:
        self._endpoint.send(0, performative, FRAME_SASL)
