"""Connections: everything that is said of one, whatever its protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.core.consume.session import Session
from penstock.describe.described_node import DescribedNode
from penstock.describe.message_stats import connection_tally, tally_stats
from penstock.describe.table import ABSENT, Field, Reading, Row, Table, amounts, metric, plain
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.peer import Traffic, rabbitmq_fields

TRAFFIC: Final = "connection_coarse_metrics"
CONNECTIONS: Final = "connection_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""
FLOW: Final = "penstock_connection_metrics"


def peer_of(address: str) -> Row:
    """Return host and port of an address as those of a peer."""
    host, _, port = address.rpartition(":")
    return {"peer_host": host, "peer_port": int(port) if port.isdecimal() else 0}


def connection_details(connection: Connection) -> Row:
    """Return what other rows say of a connection."""
    return {"name": connection.name(), **peer_of(connection.peer.address)}


def channel_details(session: Session, node: DescribedNode) -> Row:
    """Return what other rows say of a session."""
    connection = node.connections.get(session.connection_number)
    return {
        "name": session.name,
        "number": int(session.number),
        "user": "" if connection is None else connection.user,
        "node": node.name,
        "connection_name": "" if connection is None else connection.name(),
        **peer_of("" if connection is None else connection.peer.address),
    }


def _state(connection: Connection, at: Reading) -> object:
    """Return RabbitMQ's state: `blocked` for a connection blocked by any gate."""
    if connection.state is ConnectionState.RUNNING and connection.blocks > 0:
        return "blocked"
    return connection.state.word()


def _own_end(connection: Connection, at: Reading) -> object:
    ours = peer_of(connection.peer.local)
    return {"host": ours["peer_host"], "port": ours["peer_port"]}


def _octets(connection: Connection, at: Reading) -> object:
    """Return the octets, with the rates of the last pass of the sampler."""
    traffic = connection.peer.traffic
    return {
        "recv_oct": int(traffic.received),
        "recv_oct_details": {"rate": round(traffic.received_rate, 3)},
        "recv_cnt": int(traffic.reads),
        "send_oct": int(traffic.sent),
        "send_oct_details": {"rate": round(traffic.sent_rate, 3)},
        "send_cnt": int(traffic.writes),
    }


def _stats(connection: Connection, at: Reading) -> object:
    origin = connection.origin
    if origin is None:
        return ABSENT
    tally = connection_tally(origin, list(connection.engine.sessions()))
    return tally_stats(tally, origin.series, at.ranges) or ABSENT


def held(connection: Connection) -> Row:
    """Return the publishes that are held."""
    return amounts(connection.pausing.budget.messages, connection.pausing.budget.bytes)


def _sent(count: Callable[[Traffic], int]) -> Callable[[Connection, Reading], object]:
    return lambda connection, at: count(connection.peer.traffic)


OCTETS: Final[tuple[tuple[str, Callable[[Traffic], int], str, str], ...]] = (
    ("rabbitmq_connection_incoming_bytes_total", lambda traffic: int(traffic.received),
     "Total number of bytes received on a connection; inside of TLS", TRAFFIC),
    ("rabbitmq_connection_outgoing_bytes_total", lambda traffic: int(traffic.sent),
     "Total number of bytes sent on a connection; inside of TLS", TRAFFIC),
    ("rabbitmq_connection_incoming_packets_total", lambda traffic: int(traffic.reads),
     "Total number of packets received on a connection: reads of its socket", CONNECTIONS),
    ("rabbitmq_connection_outgoing_packets_total", lambda traffic: int(traffic.writes),
     "Total number of packets sent on a connection: writes to its socket", CONNECTIONS),
)  # fmt: skip
"""Families of octets: sums over all connections keep those that have ended."""

CONNECTION: Final[Table[Connection]] = Table(
    Field("name", lambda connection, at: connection.name()),
    Field("user", lambda connection, at: connection.user),
    Field("vhost", lambda connection, at: "" if connection.vhost is None else connection.vhost.name),
    Field("node", lambda connection, at: at.node.name),
    Field("type", lambda connection, at: "network"),
    Field("auth_mechanism", lambda connection, at: connection.peer.mechanism),
    Field("state", _state),
    Field("channels", lambda connection, at: len(connection.engine.sessions()), "channels",
           "rabbitmq_connection_channels", "Channels on a connection", CONNECTIONS),
    Field("protocol.*", lambda connection, at: connection.engine.details()),
    Field("connected_at", lambda connection, at: (
        round((connection.times.opened + at.node.broker.wall_offset) * 1000)), "ms"),
    Field("peer.*", lambda connection, at: peer_of(connection.peer.address)),
    Field("local.*", _own_end),
    Field("tls.*", lambda connection, at: rabbitmq_fields(connection.peer.tls)),
    Field("client_properties", lambda connection, at: plain(connection.peer.properties)),
    Field("user_provided_name", lambda connection, at: plain(connection.peer.properties.get("connection_name"))),
    Field("penstock.number", lambda connection, at: connection.number),
    Field("penstock.blocked", lambda connection, at: connection.blocks > 0, "", "penstock_connection_blocked",
           "Connections of which a gate blocks a producer: 1 for each", FLOW),
    Field("penstock.paused", lambda connection, at: connection.may_pause() or connection.pausing.pieces.waiting),
    Field("penstock.held", lambda connection, at: held(connection)),
    Field("octets.*", _octets),
    Field("message_stats", _stats),
    *[metric(family, _sent(count), help, group) for family, count, help, group in OCTETS],
    metric("penstock_connection_paused", lambda connection, at: connection.may_pause(),
           "Connections that are not read, because their hold budget is used up: 1 for each", FLOW),
    metric("penstock_connection_held_messages", lambda connection, at: int(connection.pausing.budget.messages),
           "Publishes that are held before a gate", FLOW),
    metric("penstock_connection_held_bytes", lambda connection, at: int(connection.pausing.budget.bytes),
           "Bytes (charges) of publishes that are held before a gate", FLOW),
)  # fmt: skip


def connection_row(connection: Connection) -> Row:
    """Return what `status` says of a connection."""
    return {
        "name": connection.name(),
        "product": str(connection.peer.properties.get("product", "")),
        "protocol": connection.engine.details().get("protocol"),
        "state": connection.state.word(),
        "blocked": connection.blocks > 0,
        "channels": len(connection.engine.sessions()),
        "held": held(connection),
    }
