"""Open: limits, virtual host and the properties of both sides (section 2.7.1)."""

from __future__ import annotations

from typing import Final

from penstock.connections.engine import HOLD_DEADLINE
from penstock.connections.peer import CONNECTION_NAME
from penstock.core.broker import Broker
from penstock.core.vhost import VirtualHost
from penstock.protocols.amqp10.endpoint import CAPABILITY, DETECTION, Endpoint
from penstock.protocols.amqp10.link_credit import DELAYED_DELIVERY, plain_properties
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.spec import (
    OPEN,
)
from penstock.wire.amqp10.values import Symbol, ulong

KEPT: Final = ("product", "version", "platform", CONNECTION_NAME)
"""Properties of a client that are stored for listings."""
EMPTY_FRAME: Final = frame(0)
PEER_TIMEOUT_MIN_S: Final = 0.1
"""Shortest idle-time-out of a peer that is honoured: an empty frame every 50 ms."""
VHOST_PREFIX: Final = "vhost:"
DEFAULT_VHOST: Final = "/"
"""Virtual host of an open whose host name is no virtual host."""
CAPABILITIES: Final = ("LINK_PAIR_V1_0", "ANONYMOUS-RELAY", "SHARED-SUBS", DELAYED_DELIVERY, CAPABILITY)
"""Offered capabilities.

Links to the management node are paired (AMQP Request-Response Messaging with Link Pairing 1.0). A target without an
address takes messages for any address (Anonymous Terminus for Message Routing). Subscriptions may be shared (AMQP JMS
mapping 1.0): Qpid JMS shares none without the offer. A connection may be the only one of its container.
"""
REFUSED: Final = Symbol("amqp:connection-establishment-failed")
"""Property of an open that a close follows: Qpid JMS and Proton then do not treat the connection as open."""


def on_open(endpoint: Endpoint, open: Composite) -> None:
    """Agree on the limits and open a virtual host. Raises BrokerError."""
    connection = endpoint.connection
    endpoint.agree(open)
    properties = plain_properties(open.mapping("properties"))
    connection.peer.introduce(properties, KEPT)
    if not connection.peer.given_name:
        connection.peer.properties[CONNECTION_NAME] = endpoint.container
    connection.peer.set_rates(properties)
    vhost = _vhost(connection.broker, open.text("hostname"))
    endpoint.shared.sole.claim(endpoint, vhost.name, open)
    connection.open(vhost)
    connection.review_hold_bound()
    write_open(endpoint)
    timeout_s = open.number("idle_time_out", 0) / 1000
    beat_s = max(timeout_s, PEER_TIMEOUT_MIN_S) / 2 if timeout_s > 0 else 0.0
    connection.engine.keep_time(EMPTY_FRAME, beat_s, 2.0 * connection.limits.start.heartbeat_s)


def write_open(endpoint: Endpoint) -> None:
    """Write the broker's open; an open that precedes a close says so."""
    connection = endpoint.connection
    limits, services = connection.limits, connection.services
    properties: dict[object, object] = {
        Symbol("product"): "Penstock",
        Symbol("version"): services.version,
        Symbol("platform"): "Python",
        Symbol("node"): services.node_name(),
        Symbol("cluster_name"): services.cluster_name(),
        Symbol(HOLD_DEADLINE): ulong(connection.broker.defaults.hold_deadline_ms()),
    }
    version = limits.start.rabbitmq_version
    if version is not None:
        properties[Symbol("product")] = "RabbitMQ"
        properties[Symbol("version")] = version
        properties[Symbol("penstock-version")] = services.version
    if endpoint.shared.sole.holds(endpoint):
        properties.update(DETECTION)
    if connection.is_closing():
        properties = {REFUSED: True}
    endpoint.send(
        0,
        composite(
            OPEN,
            container_id="penstock",
            max_frame_size=limits.start.frame_max,
            channel_max=endpoint.channel_max,
            idle_time_out=limits.start.heartbeat_s * 1000 or None,
            offered_capabilities=list(CAPABILITIES),
            properties=properties,
        ),
    )


def _vhost(broker: Broker, hostname: str) -> VirtualHost:
    """Return the virtual host of a host name: `vhost:NAME` (as RabbitMQ 4), a virtual host of that name, else "/"."""
    if hostname.startswith(VHOST_PREFIX):
        return broker.vhost(hostname.removeprefix(VHOST_PREFIX))
    return broker.vhost(hostname if hostname in broker.vhosts else DEFAULT_VHOST)
