"""Logins that one driver finishes and another one serves, and what the served connection shows of each field."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

from penstock.access.permission import READ, WRITE
from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.peer import query_of, rabbitmq_fields
from penstock.core.settings.limits import Limits
from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp091.engine import Amqp091Engine
from penstock.server.login_record import LoginRecord
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.raw_client import Peer

OPENING: Final = method_frame(0, spec.CONNECTION_OPEN, virtual_host="/")
TOKEN: Final = LoginRecord(
    protocol="AMQP 0-9-1",
    user="anna",
    mechanism="PLAIN",
    number=4711,
    address="10.0.0.7:40312",
    local="10.0.0.1:5672",
    loopback=True,
    properties={"product": "Flights", "platform": "Java", "connection_name": "web-1", "penstock_query": "totals"},
    capabilities={"penstock.exact-flow": True, "basic.nack": False},
    rates=(10.0, 9.5, 1000.0, 3.0, 2000.0),
    scopes=("read:*/mine*", "write:%2F/a%2Ab/key.*", "tag:monitoring"),
    expires_at=2e9,
    frame_max=8192,
    channel_max=7,
    heartbeat_s=13,
    tls=("TLSv1.3", "TLS_AES_256_GCM_SHA384", "anna", "CN=anna", "CN=issuer", "2026 2027"),
    rest=OPENING,
)
"""Login with a token, in which every field has another value than without it."""
SERVED: Final = LoginRecord(
    protocol="AMQP 0-9-1",
    user="anna",
    mechanism="PLAIN",
    address="10.0.0.7:40312",
    properties={},
    served_vhosts=("/", "tenant"),
    served_tags=("management",),
    served_permission=("^mine", ".*", "^mine"),
    frame_max=8192,
    rest=OPENING,
)
"""Login by an HTTP back end."""
LOST: Final[dict[str, object]] = {
    "protocol": "AMQP 1.0", "user": "", "mechanism": "", "number": 0, "address": "", "local": "", "loopback": False,
    "properties": {}, "capabilities": None, "rates": None, "scopes": None, "served_vhosts": None, "served_tags": (),
    "served_permission": ("", "", ""), "expires_at": None, "frame_max": 0, "channel_max": 0, "heartbeat_s": 0,
    "tls": None, "rest": b"",
}  # fmt: skip
"""Value of each field that is lost."""


def _rates(limits: Limits | None) -> tuple[float | None, ...]:
    if limits is None:
        return ()
    return (
        limits.rate_messages, limits.refill_messages, limits.rate_bytes, limits.burst_messages, limits.burst_bytes,
    )  # fmt: skip


def _rights(connection: Connection) -> list[bool]:
    rules = connection.access.rules
    return [
        rules.enters("/"), rules.enters("tenant"), rules.permits(READ, "tenant", "mine"),
        rules.permits(WRITE, "/", "a*b"), rules.permits(READ, "/", "other"),
        rules.permits_topic(WRITE, "/", "a*b", "key.x"), rules.permits_topic(WRITE, "/", "a*b", "other"),
    ]  # fmt: skip


def _profile(connection: Connection) -> object:
    engine = connection.engine
    return (engine.profile.exact_flow, engine.capabilities) if isinstance(engine, Amqp091Engine) else None


SHOWN: Final[dict[str, Callable[[Connection], object]]] = {
    "protocol": lambda connection: type(connection.engine).__name__,
    "user": lambda connection: connection.user,
    "mechanism": lambda connection: connection.peer.mechanism,
    "number": lambda connection: connection.number,
    "address": lambda connection: connection.peer.address,
    "local": lambda connection: connection.peer.ends(),
    "loopback": lambda connection: (connection.peer.loopback, connection.peer.network),
    "properties": lambda connection: (
        connection.peer.properties, connection.peer.given_name, query_of(connection.peer, "u").name,
    ),
    "capabilities": _profile,
    "rates": lambda connection: _rates(connection.peer.rates),
    "scopes": _rights,
    "served_vhosts": _rights,
    "served_tags": lambda connection: connection.access.rules.tags(),
    "served_permission": _rights,
    "expires_at": lambda connection: connection.login.expires_at(),
    "frame_max": lambda connection: connection.engine.details().get("frame_max"),
    "channel_max": lambda connection: connection.engine.details()["channel_max"],
    "heartbeat_s": lambda connection: connection.engine.details()["timeout"],
    "tls": lambda connection: (rabbitmq_fields(connection.peer.tls), connection.peer.tls_subject),
    "rest": lambda connection: connection.state,
}  # fmt: skip
"""What a connection shows of each field of its record."""


def served(driver: BrokerDriver, record: LoginRecord) -> Connection:
    """Return the connection of a record, with all of its input."""
    connection = driver.connect_logged_in(record.peer(), record.protocol, record.login(driver.broker))
    assert connection.state is ConnectionState.OPEN
    connection.receive(record.rest)
    return connection


def guest_record(rest: bytes = OPENING, **values: Any) -> LoginRecord:
    """Return the record of guest on this machine."""
    known: dict[str, Any] = {
        "protocol": "AMQP 0-9-1",
        "user": "guest",
        "mechanism": "PLAIN",
        "address": "127.0.0.1:40312",
        "local": "127.0.0.1:5672",
        "loopback": True,
        "properties": {},
        "frame_max": 131072,
        "channel_max": 2047,
    }
    return LoginRecord(**{**known, **values}, rest=rest)


class LoggedInPeer(Peer):
    """The client's end of a socket whose other end a shard serves."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.data = b""
