"""SASL layer of a connection: frames between the SASL header and the AMQP header (section 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import CommandInvalid
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.login import log_in
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.frames import SASL_HEADER
from penstock.wire.amqp10.spec import FRAME_SASL, SASL_INIT, SASL_MECHANISMS, SASL_OUTCOME
from penstock.wire.sasl import SaslError, parse_plain

if TYPE_CHECKING:
    from penstock.protocols.amqp10.engine import Amqp10Engine

OK: Final = 0
AUTH: Final = 1
"""SASL outcome codes (section 5.3.3.6)."""
USER_LETTERS: Final = 255


class SaslLayer:
    """SASL exchange of one connection."""

    def __init__(self, engine: Amqp10Engine) -> None:
        self._engine = engine

    def begin(self) -> None:
        """Answer the SASL header and offer the mechanisms."""
        self._engine.out.write(SASL_HEADER)
        self._send(composite(SASL_MECHANISMS, sasl_server_mechanisms=["PLAIN"]))

    def on_frame(self, performative: Composite) -> None:
        """Act on a SASL frame. Raises BrokerError."""
        connection = self._engine.connection
        if connection.ignores_input():
            return
        if connection.state is not ConnectionState.START:
            raise CommandInvalid(f"{performative.name} after the end of the SASL exchange")
        if performative.code != SASL_INIT:
            raise CommandInvalid(f"{performative.name} instead of sasl-init")
        mechanism = performative.text("mechanism")
        connection.peer.mechanism = mechanism
        if mechanism != "PLAIN":
            self.refuse()
            return
        try:
            user, password = parse_plain(performative.octets("initial_response"))
        except SaslError:
            self.refuse()
            return
        connection.user = user[:USER_LETTERS]
        if log_in(connection, user, password):
            connection.move(ConnectionState.TUNE)
            self._send(composite(SASL_OUTCOME, code=OK))
            self._engine.sasl = None

    def refuse(self) -> None:
        """Refuse the client, and close."""
        self._send(composite(SASL_OUTCOME, code=AUTH))
        self._engine.connection.end()

    def _send(self, performative: Composite) -> None:
        self._engine.send(0, performative, FRAME_SASL)
