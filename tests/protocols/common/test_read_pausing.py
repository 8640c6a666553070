"""Connections that are read on, or paused, while their publishes are held."""

from __future__ import annotations

import pytest

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import blocked_publisher, drain, methods, publish


@pytest.mark.parametrize("consuming", [False, True], ids=["publishing-only", "consuming-too"])
def test_what_was_under_way_when_a_client_was_asked_to_stop_is_held_and_its_connection_is_read_on(
    consuming: bool,
) -> None:
    driver, peer, _ = blocked_publisher(obeys=True)
    if consuming:
        peer.declare("other")
        peer.say(method_frame(1, spec.BASIC_CONSUME, queue="other", consumer_tag="c"))
    under_way = b"".join(publish("q", bytes(100_000)) for _ in range(100))
    assert methods(peer.say(under_way)) == []
    assert peer.connection.pausing.budget.bytes > 8 * driver.connection_limits.hold_bytes
    assert not peer.connection.may_pause()
    for _ in range(100):
        drain(driver, "q")
        peer.listen(101.0)
    assert peer.connection.pausing.budget.bytes == 0
    assert peer.connection.pausing.asked == 0
    limits, deadline_s = driver.connection_limits, driver.broker.defaults.hold_deadline_s
    assert peer.connection.pausing.budget.bound == (
        limits.hold_bytes if consuming else limits.hold_bytes_most(deadline_s)
    )
