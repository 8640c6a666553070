"""Connection: what a lost one keeps, and the stages of a close."""

from __future__ import annotations

import gc

from penstock.errors import ConnectionForced
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState, TeardownState
from penstock.protocols.common.engine import CLOSED_ENGINE
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.logging_in import GREETING, start_ok, stranger

CLOSE = method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="bye", class_id=0, method_id=0)


def test_a_connection_that_is_lost_keeps_nothing_of_its_input() -> None:
    driver = make_driver()
    connection = stranger(driver)
    connection.receive(GREETING + start_ok("guest", product="x" * 2000)[:-20])
    engine = connection.engine
    assert len(engine.reader.unparsed) > 2000
    driver.disconnect(connection)
    assert engine.reader.unparsed == b""
    assert connection.engine is CLOSED_ENGINE
    assert len(connection.output.buffer) == 0


def test_a_close_by_the_client_is_answered_after_the_teardown_and_leaves_the_socket_to_it_first() -> None:
    client = Dialogue(make_driver())
    assert client.names(CLOSE) == ["connection.close-ok"]
    assert client.connection.state is ConnectionState.CLOSED_BY_CLIENT
    assert client.connection.teardown is TeardownState.DONE
    client.driver.disconnect(client.connection)
    assert client.connection.state is ConnectionState.GONE
    assert client.connection.origin is None


def test_a_close_by_the_client_that_crosses_ours_is_answered_too() -> None:
    client = Dialogue(make_driver())
    client.connection.close(ConnectionForced("enough"))
    assert client.connection.state is ConnectionState.CLOSE_SENT
    assert client.names(CLOSE) == ["connection.close", "connection.close-ok"]
    assert client.connection.state is ConnectionState.CLOSED_BY_CLIENT


def test_a_close_after_the_answer_to_ours_changes_nothing() -> None:
    client = Dialogue(make_driver())
    client.connection.close(ConnectionForced("enough"))
    assert client.names(method_frame(0, spec.CONNECTION_CLOSE_OK) + CLOSE) == ["connection.close"]
    assert client.connection.state is ConnectionState.CLOSED


def test_an_open_connection_without_channels_that_is_lost_is_freed_without_the_collector() -> None:
    driver = make_driver()
    gc.collect()
    gc.disable()
    try:
        connection = stranger(driver, "127.0.0.1")
        connection.receive(GREETING + start_ok("guest"))
        connection.receive(method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=9, frame_max=131072, heartbeat=0))
        connection.receive(method_frame(0, spec.CONNECTION_OPEN, virtual_host="/"))
        assert connection.state is ConnectionState.RUNNING
        driver.disconnect(connection)
        while driver.run_turn():
            pass
        driver.take_pending_output()
        del connection
        assert [
            each for each in gc.get_objects() if isinstance(each, Connection) and each.broker is driver.broker
        ] == []
    finally:
        gc.enable()
