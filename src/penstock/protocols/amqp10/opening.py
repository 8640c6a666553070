"""Open: limits, virtual host and the properties of both sides (section 2.7.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidField
from penstock.protocols.amqp10.link_credit import plain_properties
from penstock.protocols.amqp10.sole_connections import CAPABILITY, DETECTION
from penstock.protocols.common.engine import HOLD_DEADLINE
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.spec import FRAME_MIN_SIZE, OPEN
from penstock.wire.amqp10.values import Symbol, ulong

if TYPE_CHECKING:
    from penstock.core.vhost import VirtualHost
    from penstock.protocols.amqp10.engine import Amqp10Engine

KEPT: Final = ("product", "version", "platform")
KEPT_LETTERS: Final = 255
"""Properties of a client that are stored for people, with the most letters of each. Others are dropped."""
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
    engine.container = open.text("container_id")[:KEPT_LETTERS]
    engine.peer_max_frame_size = min(size, engine.limits.frame_max)
    engine.channel_max = min(open.number("channel_max", 0xFFFF), engine.limits.channel_max)
    properties = open.mapping("properties")
    _keep_properties(engine, properties)
    connection.peer.set_rates(plain_properties(properties))
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


def _keep_properties(engine: Amqp10Engine, properties: dict[object, object]) -> None:
    stored = engine.connection.peer.properties
    for name in KEPT:
        value = properties.get(Symbol(name))
        if value is not None:
            stored[name] = str(value)[:KEPT_LETTERS]
    stored["connection_name"] = engine.container


def _vhost(engine: Amqp10Engine, hostname: str) -> VirtualHost:
    """Return the virtual host of a host name: `vhost:NAME` (as RabbitMQ 4), one of that name, else "/"."""
    broker = engine.broker
    if hostname.startswith(VHOST_PREFIX):
        return broker.vhost(hostname.removeprefix(VHOST_PREFIX))
    return broker.vhost(hostname if hostname in broker.vhosts else "/")
