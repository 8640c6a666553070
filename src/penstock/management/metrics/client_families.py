"""Families of metrics about connections and channels (sessions, in AMQP 1.0): each a value of one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.core.consume.session import Session
from penstock.core.publish.producer import producers_of
from penstock.management.metrics.exposition import COUNTER, GAUGE, Family
from penstock.management.views import withheld_by
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.traffic import Traffic

TRAFFIC: Final = "connection_coarse_metrics"
CONNECTIONS: Final = "connection_metrics"
CHANNELS: Final = "channel_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""
FLOW: Final = "penstock_connection_metrics"
CHANNEL_FLOW: Final = "penstock_channel_metrics"
"""Our own groups."""


def _nothing(traffic: Traffic) -> int:
    return 0


class ConnectionFamily(Family):
    """Family with a sample for each connection; `/metrics` has the sum."""

    def __init__(
        self,
        group: str,
        name: str,
        kind: str,
        value: Callable[[Connection], int],
        help: str,
        of_ended: Callable[[Traffic], int] = _nothing,
    ) -> None:
        super().__init__(name, kind, help)
        self.group = group
        self.value = value
        self.of_ended = of_ended
        """Function of what connections that have ended add to the sum, with this traffic in all: to a gauge nothing."""


class ChannelFamily(Family):
    """Family with a sample for each channel; `/metrics` has the sum."""

    def __init__(self, group: str, name: str, kind: str, value: Callable[[Session], int], help: str) -> None:
        super().__init__(name, kind, help)
        self.group = group
        self.value = value


def _counter(group: str, name: str, count: Callable[[Traffic], int], help: str) -> ConnectionFamily:
    """Return a counter of the traffic of each connection."""
    return ConnectionFamily(group, name, COUNTER, lambda connection: count(connection.peer.traffic), help, count)


def _unconfirmed(session: Session) -> int:
    return sum([pending.publishes() for producer in producers_of(session) for pending in producer.confirms.pending])


def _withheld(session: Session) -> int:
    return sum([withheld_by(producer) for producer in producers_of(session)])


CONNECTION_FAMILIES: Final[tuple[ConnectionFamily, ...]] = (
    ConnectionFamily(
        CONNECTIONS, "rabbitmq_connection_channels", GAUGE,
        lambda connection: len(connection.engine.sessions()), "Channels on a connection",
    ),
    _counter(
        TRAFFIC, "rabbitmq_connection_incoming_bytes_total", lambda traffic: int(traffic.received),
        "Total number of bytes received on a connection; inside of TLS",
    ),
    _counter(
        TRAFFIC, "rabbitmq_connection_outgoing_bytes_total", lambda traffic: int(traffic.sent),
        "Total number of bytes sent on a connection; inside of TLS",
    ),
    _counter(
        CONNECTIONS, "rabbitmq_connection_incoming_packets_total", lambda traffic: int(traffic.reads),
        "Total number of packets received on a connection: reads of its socket",
    ),
    _counter(
        CONNECTIONS, "rabbitmq_connection_outgoing_packets_total", lambda traffic: int(traffic.writes),
        "Total number of packets sent on a connection: writes to its socket",
    ),
    ConnectionFamily(
        FLOW, "penstock_connection_blocked", GAUGE, lambda connection: int(connection.blocks > 0),
        "Connections of which a gate blocks a producer: 1 for each",
    ),
    ConnectionFamily(
        FLOW, "penstock_connection_paused", GAUGE, lambda connection: int(connection.may_pause()),
        "Connections that are not read, because their hold budget is used up: 1 for each",
    ),
    ConnectionFamily(
        FLOW, "penstock_connection_held_messages", GAUGE, lambda connection: int(connection.pausing.budget.messages),
        "Publishes that are held before a gate",
    ),
    ConnectionFamily(
        FLOW, "penstock_connection_held_bytes", GAUGE, lambda connection: int(connection.pausing.budget.bytes),
        "Bytes (charges) of publishes that are held before a gate",
    ),
)  # fmt: skip

CHANNEL_FAMILIES: Final[tuple[ChannelFamily, ...]] = (
    ChannelFamily(
        CHANNELS, "rabbitmq_channel_consumers", GAUGE, lambda session: len(session.consumers), "Consumers on a channel",
    ),
    ChannelFamily(
        CHANNELS, "rabbitmq_channel_messages_unacked", GAUGE, lambda session: session.unsettled.count(),
        "Delivered but not yet acknowledged messages",
    ),
    ChannelFamily(
        CHANNELS, "rabbitmq_channel_messages_unconfirmed", GAUGE, _unconfirmed,
        "Published but not yet confirmed messages",
    ),
    ChannelFamily(
        CHANNELS, "rabbitmq_consumer_prefetch", GAUGE, lambda session: int(session.prefetch),
        "Limit of unacknowledged messages for each consumer",
    ),
    ChannelFamily(
        CHANNELS, "rabbitmq_channel_prefetch", GAUGE, lambda session: int(session.credit.window),
        "Total limit of unacknowledged messages for all consumers on a channel",
    ),
    ChannelFamily(
        CHANNEL_FLOW, "penstock_channel_confirms_withheld", GAUGE, _withheld,
        "Acknowledgements to publishers that are withheld until a gate opens",
    ),
)  # fmt: skip
