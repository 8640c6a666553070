"""Handshake: from the protocol header to the agreed limits (AMQP 0-9-1 section 2.2.4)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.errors import AccessRefused, NotAllowed
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.common.audit_trail import actor_of
from penstock.protocols.common.client_profiles import EXACT_FLOW, PRODUCER_LANES, Profile, profile_of
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.engine import HOLD_DEADLINE
from penstock.protocols.common.mechanisms import AMQPLAIN, ANONYMOUS, EXTERNAL, PLAIN
from penstock.protocols.common.peer import QUERY
from penstock.protocols.common.sasl import SaslExchange
from penstock.wire.amqp091 import spec

if TYPE_CHECKING:
    from penstock.protocols.amqp091.engine import Amqp091Engine

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
MECHANISMS: Final = (EXTERNAL, PLAIN, AMQPLAIN, ANONYMOUS)
"""Mechanisms of this protocol; SCRAM would need `connection.secure`, which no client knows."""
FRAME_MIN: Final = 4096
"""Frame size that every peer must accept (section 4.2.3)."""

KEPT: Final = ("product", "version", "platform", "information", "copyright", "connection_name", QUERY)
"""Client properties that are stored for people."""
CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "channel.flow",
    "connection.blocked",
    "consumer_cancel_notify",
    "consumer_priorities",
    "direct_reply_to",
    "exchange_exchange_bindings",
    EXACT_FLOW,
    "penstock.tx_commit_retry",
    "per_consumer_qos",
    "publisher_confirms",
)
"""Client capabilities that are stored, each true or false. Others are dropped."""
CLIENTS_KNOWN: Final = 64
"""Most clients whose connections share capabilities and profile; further ones have their own."""


def start(engine: Amqp091Engine) -> None:
    """Answer the protocol header."""
    engine.connection.move(ConnectionState.START)
    engine.send(
        0,
        spec.CONNECTION_START,
        {
            "version_major": 0,
            "version_minor": 9,
            "server_properties": _server_properties(engine),
            "mechanisms": " ".join(_exchange(engine).mechanisms).encode(),
            "locales": b"en_US",
        },
    )


def _server_properties(engine: Amqp091Engine) -> dict[str, object]:
    return {
        "product": "Penstock",
        "version": engine.services.version,
        HOLD_DEADLINE: engine.broker.defaults.hold_deadline_ms(),
        "platform": "Python",
        "information": "Licensed under the Apache License 2.0",
        "capabilities": {
            "publisher_confirms": True,
            "exchange_exchange_bindings": True,
            "basic.nack": True,
            "consumer_cancel_notify": True,
            "connection.blocked": True,
            "authentication_failure_close": True,
            "per_consumer_qos": True,
            "direct_reply_to": True,
            "penstock.tx_commit_retry": True,
            EXACT_FLOW: True,
            PRODUCER_LANES: True,
        },
    }


def start_ok(engine: Amqp091Engine, args: dict[str, object]) -> None:
    """Log the client in (section 1.4.2.2).

    Raises CommandInvalid (503) for an unknown mechanism, FrameError (501) for a malformed response, and NotAllowed
    (530) beyond a limit of logins a second.
    """
    properties = arg.table(args, "client_properties")
    _keep_properties(engine, properties)
    engine.connection.peer.set_rates(properties)
    exchange = _exchange(engine)
    step = exchange.init(arg.text(args, "mechanism"), arg.octets(args, "response"))
    if exchange.is_temporary:
        engine.services.audit.login(actor_of(engine.connection), engine.connection.peer.mechanism, step.refusal)
        raise NotAllowed(f"login refused: {step.refusal}")
    if step.fault is not None:
        raise step.fault
    exchange.carry_out(engine.connection, step)


def _exchange(engine: Amqp091Engine) -> SaslExchange:
    return SaslExchange(engine.services, engine.connection.peer, MECHANISMS, engine.limits.initial_frame_max)


def accept_login(engine: Amqp091Engine) -> None:
    """Offer the limits of the connection (section 1.4.2.5); one that is open has updated its secret."""
    if engine.connection.state is ConnectionState.RUNNING:
        engine.send(0, spec.CONNECTION_UPDATE_SECRET_OK, {})
        return
    engine.connection.move(ConnectionState.TUNE)
    engine.send(
        0,
        spec.CONNECTION_TUNE,
        {
            "channel_max": engine.channel_max,
            "frame_max": engine.limits.frame_max,
            "heartbeat": engine.limits.heartbeat_s,
        },
    )


def _keep_properties(engine: Amqp091Engine, properties: dict[str, object]) -> None:
    """Store the listed properties of a client and drop the others."""
    engine.connection.peer.introduce(properties, KEPT)
    stored = engine.connection.peer.properties
    capabilities = properties.get("capabilities")
    announced: tuple[tuple[str, bool], ...] = ()
    if isinstance(capabilities, dict):
        announced = tuple((name, capabilities[name] is True) for name in CAPABILITIES if name in capabilities)
    client = str(stored.get("product", "")), str(stored.get("platform", ""))
    engine.capabilities, engine.profile = _known_client(*client, announced)
    if isinstance(capabilities, dict):
        stored["capabilities"] = engine.capabilities


@lru_cache(maxsize=CLIENTS_KNOWN)
def _known_client(
    product: str, platform: str, announced: tuple[tuple[str, bool], ...]
) -> tuple[dict[str, object], Profile]:
    """Return capabilities and profile of a client: its connections share them."""
    capabilities: dict[str, object] = dict(announced)
    return capabilities, profile_of(product, platform, capabilities)


def refuse_login(engine: Amqp091Engine) -> None:
    """Refuse a client that has not logged in."""
    mechanism = engine.connection.peer.mechanism
    if engine.capabilities.get("authentication_failure_close") is True:
        engine.on_error(
            0,
            AccessRefused(
                f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            ),
        )
    else:
        engine.connection.end()  # Older clients expect the socket to close (AMQP 0-9-1 section 2.2.2).


def tune_ok(engine: Amqp091Engine, args: dict[str, object]) -> None:
    """Agree on the limits (section 1.4.2.6)."""
    frame_max, channel_max = arg.number(args, "frame_max"), arg.number(args, "channel_max")
    if frame_max and (frame_max < FRAME_MIN or frame_max > engine.limits.frame_max):
        raise NotAllowed(
            f"frame_max={frame_max} is outside the {FRAME_MIN} to {engine.limits.frame_max} that were offered"
        )
    if channel_max > engine.limits.channel_max:
        raise NotAllowed(f"channel_max={channel_max} is above the {engine.limits.channel_max} that were offered")
    engine.frame_max = frame_max or engine.limits.frame_max
    engine.channel_max = channel_max or engine.limits.channel_max
    engine.heartbeat_s = arg.number(args, "heartbeat")
    engine.connection.move(ConnectionState.OPEN)


def open_vhost(engine: Amqp091Engine, args: dict[str, object]) -> None:
    """Open a virtual host for the client (section 1.4.2.7). Raises NotAllowed (530) for an unknown one."""
    engine.connection.open(engine.broker.vhost(arg.text(args, "virtual_host")))
    engine.keep_time(HEARTBEAT_FRAME, engine.heartbeat_s / 2, 2.0 * engine.heartbeat_s)
    engine.send(0, spec.CONNECTION_OPEN_OK, {})
