"""Connections that have not logged in."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.peer import Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response

GREETING = b"AMQP\x00\x00\x09\x01"
CLOSES = {"authentication_failure_close": True}


def stranger(driver: BrokerDriver, address: str = "10.0.0.1") -> Connection:
    return driver.connect(Peer(f"{address}:1", address.startswith("127.")))


def start_ok(password: str, **properties: object) -> bytes:
    return method_frame(
        0,
        spec.CONNECTION_START_OK,
        client_properties={"capabilities": CLOSES, **properties},
        mechanism="PLAIN",
        response=plain_response("guest", password),
    )
