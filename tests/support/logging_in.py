"""Connections that log in, or have not yet."""

from __future__ import annotations

from penstock.connections.connection import Connection
from penstock.connections.peer import Peer
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response

GREETING = b"AMQP\x00\x00\x09\x01"
CLOSES = {"authentication_failure_close": True}


def peer_at(address: str = "10.0.0.1", subject: str = "", securing: bool = False) -> Peer:
    """Return the peer at an address, with the subject of its certificate."""
    found = Peer(f"{address}:1", address.startswith("127."), securing=securing)
    found.tls_subject = subject
    return found


def stranger(driver: BrokerDriver, address: str = "10.0.0.1") -> Connection:
    return driver.connect(peer_at(address))


def start_ok(password: str, **properties: object) -> bytes:
    return method_frame(
        0,
        spec.CONNECTION_START_OK,
        client_properties={"capabilities": CLOSES, **properties},
        mechanism="PLAIN",
        response=plain_response("guest", password),
    )


def log_in(driver: BrokerDriver, password: str, address: str = "127.0.0.1") -> Connection:
    connection = stranger(driver, address)
    login = plain_response("guest", password)
    connection.receive(GREETING + method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=login))
    return connection
