"""Connection: what a lost one keeps, and the stages of a close."""

from __future__ import annotations

import gc
from collections.abc import Callable

from penstock.core.publish.closed_sessions import ENDED, RESET
from penstock.driver.services import LIMITED_A_SECOND
from penstock.errors import ConnectionForced, FrameError
from penstock.protocols.common.connection import GIVEN_UP, Connection
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


def ends_logged(end: Callable[[Dialogue], object], cause: str = ENDED) -> tuple[str, str]:
    """Open a connection, end it, and return the id and the reason of its last record."""
    driver = make_driver()
    client = Dialogue(driver)
    opened = driver.log_queue.take()[0]
    assert (opened.fields["id"], opened.fields["user"], opened.fields["address"]) == (
        "CON-1001",
        "guest",
        "127.0.0.1:1",
    )
    end(client)
    driver.disconnect(client.connection, cause)
    driver.tick()
    last = driver.log_queue.take()[-1]
    assert last.text.startswith("[con:1(guest@127.0.0.1:1/)] CON-100")
    return str(last.fields["id"]), str(last.fields["reason"])


def give_up(client: Dialogue) -> None:
    client.connection.times.ending = GIVEN_UP


def test_the_end_of_a_connection_is_logged_with_its_reason() -> None:
    assert ends_logged(lambda client: client.say(CLOSE)) == ("CON-1002", "by its client")
    forced = ConnectionForced("enough")
    assert ends_logged(lambda client: client.connection.close(forced)) == (
        "CON-1002",
        "by the broker: 320 CONNECTION_FORCED - enough",
    )
    assert ends_logged(lambda client: client.connection.hung_up()) == ("CON-1004", "its peer closed the socket")
    assert ends_logged(lambda client: None, RESET) == ("CON-1004", "its peer reset the socket")
    assert ends_logged(lambda client: None) == ("CON-1004", "the broker closed the socket")
    assert ends_logged(give_up) == ("CON-1003", GIVEN_UP)


def test_only_errors_of_a_client_are_logged_as_such() -> None:
    """PST-2001 advises to correct the client: nothing is wrong with one that an operator or a stop closes."""
    for error, ids in ((ConnectionForced("enough"), []), (FrameError("odd"), ["PST-2001"])):
        driver = make_driver()
        client = Dialogue(driver)
        driver.log_queue.take()
        client.connection.close(error)
        assert [line.fields["id"] for line in driver.log_queue.take()] == ids


def test_a_flood_of_connections_does_not_flood_the_log() -> None:
    driver = make_driver()
    for _ in range(500):
        driver.disconnect(Dialogue(driver).connection)
    assert len(driver.log_queue.take()) == 2 * LIMITED_A_SECOND
    driver.begin(driver.broker.now + 1.0)
    driver.tick()
    assert [(line.fields["id"], line.fields["more"]) for line in driver.log_queue.take()] == [
        ("CON-1001", 479),
        ("CON-1004", 479),
    ]


def test_refused_requests_of_a_connection_are_logged_once_and_then_counted() -> None:
    driver = make_driver()
    client = Dialogue(driver)
    driver.log_queue.take()
    declare = method_frame(1, spec.QUEUE_DECLARE, queue="missing", passive=True)
    for _ in range(5):
        assert client.names(declare) == ["channel.close"]
        client.say(method_frame(1, spec.CHANNEL_CLOSE_OK) + method_frame(1, spec.CHANNEL_OPEN))
    (line,) = driver.log_queue.take()
    assert line.fields["error"] == "NOT_FOUND"
    driver.disconnect(client.connection)
    (counted,) = [line for line in driver.log_queue.take() if line.fields["id"] == "PST-2006"]
    assert counted.fields["count"] == 4
