"""Engines of a connection at its ends: before it has a protocol, and after it is torn down."""

from __future__ import annotations

import pytest

from penstock.connections.engine import CLOSED_ENGINE, Protocol, ProtocolEngine
from penstock.connections.header_reader import HeaderReader
from penstock.errors import InternalError
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, output_of
from tests.support.logging_in import stranger


def test_engine_of_a_torn_down_connection_ignores_input_and_errors() -> None:
    driver = make_driver()
    client = Dialogue(driver, heartbeat=10)
    connection = client.connection
    driver.disconnect(connection)
    driver.run_turn()
    output_of(connection)
    assert connection.engine is CLOSED_ENGINE
    late = method_frame(1, spec.QUEUE_DECLARE, queue="late")
    assert connection.engine.read(late) == len(late)
    connection.engine.close(InternalError("too late"))
    assert output_of(connection) == b""
    assert (list(connection.engine.sessions()), connection.engine.session(1)) == ([], None)
    assert "late" not in driver.broker.vhosts["/"].queues


def test_engine_that_has_ended_has_no_timer() -> None:
    driver = make_driver()
    client = Dialogue(driver, heartbeat=10)
    engine = client.connection.engine
    assert engine.idle is not None
    assert driver.next_deadline() is not None
    driver.disconnect(client.connection)
    driver.run_turn()
    assert engine.idle is None
    assert driver.next_deadline() is None


def test_engine_without_a_protocol_has_no_sessions_and_nothing_to_send() -> None:
    connection = stranger(make_driver())
    engine = connection.engine
    assert isinstance(engine, HeaderReader)
    assert (list(engine.sessions()), engine.session(1), engine.details()) == ([], None, {})
    assert (engine.take_urgent(), engine.output_delay(0.0)) == (b"", 0.0)
    assert (engine.may_be_silent(), engine.has_sender_credit(), engine.needs_small_receive_buffer()) == (False,) * 3


def test_protocol_that_fills_in_nothing_is_an_error() -> None:
    connection = stranger(make_driver())
    assert Protocol().header() == b""
    with pytest.raises(NotImplementedError):
        Protocol().accepts(b"A")
    with pytest.raises(NotImplementedError):
        Protocol().engine(connection)
    with pytest.raises(NotImplementedError):
        ProtocolEngine(connection).read(b"A")
