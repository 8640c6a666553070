"""Open: limits, virtual host and the properties of both sides (section 2.7.1).

A client may want to be the only connection of its container: "AMQP Enforcing Connection Uniqueness 1.0" (OASIS, 2018).
A client asks with a desired capability of its open. The policy of the newer one decides: it is refused (the default),
or the existing one is closed. As in RabbitMQ 4.4, only connections that have asked count (weak detection), and nobody
closes the connection of another user.

Logins over AMQP 1.0: frames of SASL before the AMQP header (section 5.3).

A client that begins with the AMQP header logs in by ANONYMOUS, without frames, where it is offered that mechanism, as
with Qpid's brokers and RabbitMQ 3. Elsewhere it is answered with the SASL header, and closed (section 2.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.access.password_hash import load_scram, scram_is_loaded
from penstock.errors import CommandInvalid, InvalidField, ResourceLocked
from penstock.protocols.amqp10.link_credit import plain_properties
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.engine import HOLD_DEADLINE
from penstock.protocols.common.login import Verification, conclude_login
from penstock.protocols.common.peer import SHOWN_LETTERS
from penstock.protocols.common.sasl import ANONYMOUS, EXTERNAL, PLAIN, SCRAM, SaslExchange, SaslStep
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.frames import SASL_HEADER, frame
from penstock.wire.amqp10.spec import (
    FRAME_MIN_SIZE,
    FRAME_SASL,
    OPEN,
    SASL_CHALLENGE,
    SASL_INIT,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    SASL_RESPONSE,
)
from penstock.wire.amqp10.values import UINT, Symbol, Typed, ulong

if TYPE_CHECKING:
    from penstock.core.vhost import VirtualHost
    from penstock.protocols.amqp10.engine import Amqp10Engine
    from penstock.protocols.common.connection import Connection


CAPABILITY: Final = "sole-connection-for-container"
"""Capability of an open: desired by the client, offered by us."""
_POLICY: Final = Symbol("sole-connection-enforcement-policy")
"""Property of the client's open: 0 is to refuse the new connection, 1 to close the existing one."""
_CLOSE_EXISTING: Final = 1
DETECTION: Final[dict[object, object]] = {Symbol("sole-connection-detection-policy"): Typed(UINT, 1)}
"""Property of our open: weak, for connections that did not ask are not found."""


class SoleConnections:
    """The connections of one broker that are the only one of their container, at most one for each connection."""

    def __init__(self) -> None:
        self._engines: dict[tuple[str, str], Amqp10Engine] = {}
        """Their engines by virtual host and container-id."""

    def claim(self, engine: Amqp10Engine, vhost: str, opened: Composite) -> None:
        """Register a connection, if its open asks for that. The existing one is closed where the open says so.

        Raises InvalidField if the new one is to be refused.
        """
        if CAPABILITY not in opened.texts("desired_capabilities"):
            return
        container = engine.container
        existing = self._engines.get((vhost, container))
        if existing is not None and not existing.connection.is_closing():
            policy = opened.mapping("properties").get(_POLICY)
            closes = isinstance(policy, Typed) and policy.value == _CLOSE_EXISTING
            if not closes or existing.connection.user != engine.connection.user:
                engine.close_info = {Symbol("invalid-field"): Symbol("container-id")}
                raise InvalidField(
                    f"open of container '{container}', which has a connection that is to be its only one"
                )
            existing.close_info = {Symbol("sole-connection-enforcement"): True}
            existing.connection.close(ResourceLocked(f"container '{container}' has opened another sole connection"))
        self._engines[vhost, container] = engine

    def holds(self, engine: Amqp10Engine) -> bool:
        """Return whether a connection is registered."""
        vhost = engine.connection.vhost
        return vhost is not None and self._engines.get((vhost.name, engine.container)) is engine

    def forget(self, engine: Amqp10Engine) -> None:
        """Remove a connection that has ended."""
        vhost = engine.connection.vhost
        if vhost is not None and self.holds(engine):
            del self._engines[vhost.name, engine.container]


KEPT: Final = ("product", "version", "platform")
"""Properties of a client that are stored for people."""
EMPTY_FRAME: Final = frame(0)
PEER_TIMEOUT_MIN_S: Final = 0.1
"""Shortest idle-time-out of a peer that is obeyed: an empty frame every 50 ms."""
VHOST_PREFIX: Final = "vhost:"
CAPABILITIES: Final = ("ANONYMOUS-RELAY", "SHARED-SUBS", CAPABILITY)
"""Offered capabilities: a target without an address takes messages for any (Anonymous Terminus for Message Routing),
subscriptions may be shared (AMQP JMS mapping 1.0; Qpid JMS refuses to share them where it is not offered), and a
connection may be the only one of its container."""
REFUSED: Final = Symbol("amqp:connection-establishment-failed")
"""Property of an open that is followed by a close: Qpid JMS and Proton then do not take the connection as open."""


def on_open(engine: Amqp10Engine, open: Composite) -> None:
    """Agree on the limits and open a virtual host. Raises BrokerError."""
    connection = engine.connection
    size = open.number("max_frame_size", 0xFFFFFFFF)
    if size < FRAME_MIN_SIZE:
        raise InvalidField(f"open with a max-frame-size of {size}; at least 512 is valid")
    engine.container = open.text("container_id")[:SHOWN_LETTERS]
    engine.peer_max_frame_size = min(size, engine.limits.frame_max)
    engine.channel_max = min(open.number("channel_max", 0xFFFF), engine.limits.channel_max)
    properties = plain_properties(open.mapping("properties"))
    connection.peer.introduce(properties, KEPT)
    connection.peer.properties["connection_name"] = engine.container
    connection.peer.set_rates(properties)
    engine.max_frame_size = engine.limits.frame_max
    vhost = _vhost(engine, open.text("hostname"))
    engine.sole.claim(engine, vhost.name, open)
    connection.open(vhost)
    connection.review_hold_bound()
    write_open(engine)
    timeout_s = open.number("idle_time_out", 0) / 1000
    beat_s = max(timeout_s, PEER_TIMEOUT_MIN_S) / 2 if timeout_s > 0 else 0.0
    engine.keep_time(EMPTY_FRAME, beat_s, 2.0 * engine.limits.heartbeat_s)


def write_open(engine: Amqp10Engine) -> None:
    """Write our open; one that precedes a close says so."""
    engine.open_sent = True
    properties: dict[object, object] = {
        Symbol("product"): "Penstock",
        Symbol("version"): engine.services.version,
        Symbol("platform"): "Python",
        Symbol(HOLD_DEADLINE): ulong(engine.broker.defaults.hold_deadline_ms()),
    }
    version = engine.limits.rabbitmq_version
    if version is not None:
        properties[Symbol("product")] = "RabbitMQ"
        properties[Symbol("version")] = version
        properties[Symbol("penstock-version")] = engine.services.version
    if engine.sole.holds(engine):
        properties.update(DETECTION)
    if engine.connection.is_closing():
        properties = {REFUSED: True}
    engine.send(
        0,
        composite(
            OPEN,
            container_id="penstock",
            max_frame_size=engine.limits.frame_max,
            channel_max=engine.channel_max,
            idle_time_out=engine.limits.heartbeat_s * 1000 or None,
            offered_capabilities=list(CAPABILITIES),
            properties=properties,
        ),
    )


def _vhost(engine: Amqp10Engine, hostname: str) -> VirtualHost:
    """Return the virtual host of a host name: `vhost:NAME` (as RabbitMQ 4), one of that name, else "/"."""
    broker = engine.broker
    if hostname.startswith(VHOST_PREFIX):
        return broker.vhost(hostname.removeprefix(VHOST_PREFIX))
    return broker.vhost(hostname if hostname in broker.vhosts else "/")


MECHANISMS: Final = (EXTERNAL, SCRAM, PLAIN, ANONYMOUS)
RESPONSE_MAX: Final = 4096
"""Most octets of a response; a frame before the login has no more."""
OK: Final = 0
AUTH: Final = 1
SYS_TEMP: Final = 4
"""SASL outcome codes (section 5.3.3.6)."""


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

    def __init__(self, engine: Amqp10Engine, has_frames: bool) -> None:
        self._engine = engine
        self._has_frames = has_frames
        self._exchange = SaslExchange(engine.services, engine.connection.peer, MECHANISMS, RESPONSE_MAX)
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
        self._exchange.carry_out(self._engine.connection, step)

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
