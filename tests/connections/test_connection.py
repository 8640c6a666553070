"""Connections: stages of a close, lost connections, their log lines, and teardown in slices.

Deleted exclusive queues are forgotten before their connection ends.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.connections.connection import DELETED_KEPT, GIVEN_UP, Connection, ConnectionTimes, ExclusiveQueues
from penstock.connections.connection_state import ConnectionState, TeardownState
from penstock.connections.engine import CLOSED_ENGINE
from penstock.core.publish.held import ENDED, RESET
from penstock.driver.driver import BrokerDriver
from penstock.errors import ConnectionForced, FrameError
from penstock.flow.work import UNITS_A_TURN
from penstock.logs.ids import LINES
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.handshakes import connect
from tests.support.logging_in import GREETING, start_ok, stranger
from tests.support.long_teardown import CONNECTION_CLOSE, MANY, consume, heard, turns_until_over, with_many_unsettled

CLOSE = method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="bye", class_id=0, method_id=0)


def test_lost_connection_keeps_no_input(driver: BrokerDriver) -> None:
    connection = stranger(driver)
    connection.receive(GREETING + start_ok("guest", product="x" * 2000)[:-20])
    assert len(connection.unparsed) > 2000
    driver.disconnect(connection)
    assert connection.unparsed == b""
    assert connection.engine is CLOSED_ENGINE
    assert len(connection.output.buffer) == 0


def test_connection_closed_by_the_client_is_answered_after_the_teardown() -> None:
    client = Dialogue(make_driver())
    assert client.names(CLOSE) == ["connection.close-ok"]
    assert client.connection.state is ConnectionState.CLOSED_BY_CLIENT
    assert client.connection.teardown is TeardownState.DONE
    client.driver.disconnect(client.connection)
    assert client.connection.state is ConnectionState.GONE
    assert client.connection.origin is None


def test_close_of_the_client_that_crosses_ours_is_answered() -> None:
    client = Dialogue(make_driver())
    client.connection.close(ConnectionForced("enough"))
    assert client.connection.state is ConnectionState.CLOSE_SENT
    assert client.names(CLOSE) == ["connection.close", "connection.close-ok"]
    assert client.connection.state is ConnectionState.CLOSED_BY_CLIENT


def test_close_after_the_close_ok_of_the_client_changes_nothing() -> None:
    client = Dialogue(make_driver())
    client.connection.close(ConnectionForced("enough"))
    assert client.names(method_frame(0, spec.CONNECTION_CLOSE_OK) + CLOSE) == ["connection.close"]
    assert client.connection.state is ConnectionState.CLOSED


def test_lost_connection_without_channels_is_freed_without_the_collector(driver: BrokerDriver) -> None:
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


def test_connection_end_is_logged_with_the_reason() -> None:
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


def test_errors_of_a_client_alone_are_logged_as_such() -> None:
    """PST-2001 advises to correct the client: nothing is wrong with one that an operator or a stop closes."""
    for error, ids in ((ConnectionForced("enough"), []), (FrameError("odd"), ["PST-2001"])):
        driver = make_driver()
        client = Dialogue(driver)
        driver.log_queue.take()
        client.connection.close(error)
        assert [line.fields["id"] for line in driver.log_queue.take()] == ids


def test_flood_of_connections_does_not_flood_the_log(driver: BrokerDriver) -> None:
    for _ in range(500):
        driver.disconnect(Dialogue(driver).connection)
    assert len(driver.log_queue.take()) == 2 * LINES
    driver.begin(driver.broker.now + 1.0)
    driver.tick()
    assert [(line.fields["id"], line.fields["more"]) for line in driver.log_queue.take()] == [
        ("CON-1001", 479),
        ("CON-1004", 479),
    ]


def test_refused_requests_of_a_connection_are_logged_once_and_then_counted(driver: BrokerDriver) -> None:
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


def test_input_waits_for_as_many_releases_as_holds() -> None:
    client = Dialogue(make_driver()).declare("q")
    connection, scheduler = client.connection, client.driver.scheduler
    connection.hold_input()
    connection.hold_input()
    scheduler.receive(connection, publish("q", b"x"))
    for resumes in (True, False):
        assert (connection.input_paused, client.vhost.queues["q"].messages) == (True, 0)
        connection.release_input(resumes)
        client.driver.serve(client.driver.broker.now)
    assert client.vhost.queues["q"].messages == 0, "the last one left it to its caller to resume"
    connection.services.resume_input(connection)
    client.driver.serve(client.driver.broker.now)
    assert client.vhost.queues["q"].messages == 1


def test_connection_times_begin_when_the_connection_does() -> None:
    times = ConnectionTimes(7.0)
    assert (times.opened, times.received, times.sent, times.closed) == (7.0, 7.0, 7.0, 0.0)


def test_connection_times_follow_input_output_and_close() -> None:
    client = Dialogue(make_driver())
    client.driver.begin(50.0)
    client.declare("q")
    times = client.connection.times
    assert (times.received, times.sent, times.closed) == (50.0, 50.0, 0.0)
    times.left_unread(51.0)
    assert times.received == 51.0
    client.driver.begin(60.0)
    client.connection.shut_down()
    assert times.closed == 60.0


def test_deleted_queues_are_dropped_while_present_queues_stay() -> None:
    client = Dialogue(make_driver())
    connection, broker = client.connection, client.driver.broker
    exclusive = ExclusiveQueues()
    for number in range(3 * DELETED_KEPT):
        queue = broker.vhosts["/"].declare_queue(f"own{number}", {}, False, False, connection, connection)
        exclusive.add(queue)
        if number % 3:
            broker.delete_queue(queue)
    assert len(exclusive) <= 3 * DELETED_KEPT - DELETED_KEPT // 2
    left = [queue for queue in iter(exclusive.take, None) if not queue.deleted]
    assert len(left) == DELETED_KEPT
    assert exclusive.take() is None


def test_removed_queue_is_not_taken() -> None:
    client = Dialogue(make_driver())
    connection = client.connection
    exclusive = ExclusiveQueues()
    exclusive.add(client.vhost.declare_queue("own", {}, False, False, connection, connection))
    exclusive.remove("own")
    exclusive.remove("another")
    assert exclusive.take() is None


def test_socket_lost_during_a_close_does_not_change_the_teardown() -> None:
    client, _ = with_many_unsettled()
    client.connection.receive(CONNECTION_CLOSE)
    client.driver.disconnect(client.connection)
    turns_until_over(client)
    queue = client.vhost.queues["q"]
    assert (queue.unacked_messages, queue.available()) == (0, MANY)
    assert client.connection.origin is None


@pytest.mark.once
def test_lost_connection_with_many_channels_ends_over_turns(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    channels, each = 90, 150
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="own", exclusive=True))
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="passing", auto_delete=True))
    for channel in range(2, channels + 2):
        client.say(method_frame(channel, spec.CHANNEL_OPEN))
        client.say(b"".join(consume("passing", channel, f"c{number}") for number in range(each)))
        client.say(consume("own", channel, "own"))
    vhost = driver.broker.vhosts["/"]
    passing = vhost.queues["passing"]
    assert len(passing.consumers) == channels * each
    driver.disconnect(client.connection)
    left, newcomers = [len(passing.consumers)], 0
    while driver.broker.turns.chores.pending():
        newcomer, answer = connect(driver)
        driver.disconnect(newcomer)
        newcomers += answer.name == "connection.open-ok"
        driver.run_turn()
        left.append(len(passing.consumers))
    assert newcomers >= 3, "others log in meanwhile"
    assert max(before - after for before, after in pairwise(left)) <= UNITS_A_TURN
    assert "own" not in vhost.queues
    assert "passing" not in vhost.queues
    assert not client.connection.engine.sessions()


def test_messages_of_a_lost_connection_are_redelivered_before_younger_messages() -> None:
    driver = make_driver()
    client, other = Dialogue(driver), Dialogue(driver)
    other.declare("q")
    for channel in (1, 2, 3):
        if channel > 1:
            client.say(method_frame(channel, spec.CHANNEL_OPEN))
        client.say(consume("q", channel))
    for start in range(0, MANY, 1000):
        other.say(b"".join(publish("q", b"%d" % number) for number in range(start, start + 1000)))
        client.connection.output.drained()
        client.listen()
    queue = driver.broker.vhosts["/"].queues["q"]
    assert queue.unacked_messages == MANY
    driver.disconnect(client.connection)
    assert queue.returning is not None
    assert len(queue.returning) >= 2, "every channel's, from the start"
    frames = other.say(publish("q", b"%d" % MANY) + consume("q", no_ack=True))
    while not other.connection.output.writable:
        other.connection.output.drained()
        frames += other.listen()
    got = [int(payload) for kind, _, payload in frames if kind == spec.FRAME_BODY]
    assert got == [*range(MANY + 1)]


def test_shutdown_closes_connections_at_once_despite_many_deliveries_to_requeue() -> None:
    client, other = with_many_unsettled()
    for each in (client, other):
        each.connection.shut_down()
        assert heard(each) == ["connection.close"]
    turns_until_over(client)
    assert not client.vhost.queues["q"].unacked_messages
