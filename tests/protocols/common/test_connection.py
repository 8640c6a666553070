"""A connection that is lost keeps nothing."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.engine import CLOSED_ENGINE
from penstock.protocols.common.peer import Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import make_driver

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


def test_a_connection_that_is_lost_keeps_nothing_of_its_input() -> None:
    driver = make_driver()
    connection = stranger(driver)
    connection.receive(GREETING + start_ok("guest", product="x" * 2000)[:-20])
    engine = connection.engine
    assert len(engine.reader.unparsed) > 2000
    driver.disconnect(connection)
    assert engine.reader.unparsed == b""
    assert connection.engine is CLOSED_ENGINE
    assert len(connection.out) == 0
