"""Times of a connection."""

from __future__ import annotations

from penstock.protocols.common.connection_times import ConnectionTimes
from tests.support.driven_connection import Dialogue, make_driver


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
