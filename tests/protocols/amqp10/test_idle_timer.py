"""Idle time-outs by the clock, both ways."""

from __future__ import annotations

from tests.support.amqp10_dialogue import Amqp10Dialogue, condition
from tests.support.driven_connection import make_driver


def test_empty_frame_is_sent_after_half_of_the_peers_time_out() -> None:
    driver = make_driver()
    driver.begin(100.0)
    client = Amqp10Dialogue(driver, idle_time_out=10_000)
    assert client.listen_raw(104.9) == b""
    assert client.listen_raw(105.0) == bytes((0, 0, 0, 8, 2, 0, 0, 0))


def test_silent_peer_is_closed_after_twice_what_was_announced() -> None:
    driver = make_driver()
    driver.begin(100.0)
    client = Amqp10Dialogue(driver)
    assert client.listen(219.0) == []
    (closed,) = client.listen(220.0)
    assert condition(closed) == "amqp:resource-limit-exceeded"
