"""Connections that are read on, or paused, while their publishes are held."""

from __future__ import annotations

import pytest

from penstock.connections.connection_limits import CHARGE_PER_OCTET
from penstock.connections.read_pausing import READ_LEAST_BYTES, SHARE_LEAST_BYTES
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, blocked_publisher, drain, make_driver, methods, publish


@pytest.mark.parametrize("consuming", [False, True], ids=["publishing-only", "consuming-too"])
def test_connection_asked_to_stop_is_still_read_and_the_publishes_are_held(
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


def slow_queue(confirms: bool = False, product: str | None = None) -> tuple[BrokerDriver, Dialogue, Dialogue]:
    """Return a publisher that has sent 10,000 messages to a queue of 100, and its consumer, which takes 20 a second.

    Five seconds have passed. The consumer has acknowledged each message.
    """
    driver = make_driver(now=100.0)
    peer, consumer = Dialogue(driver, product=product), Dialogue(driver)
    peer.declare("q", capacity_messages=100, hold_deadline=10)
    consumer.consume("q", prefetch=1)
    if confirms:
        peer.confirm()
    peer.say(publish("q", bytes(100)) * 10_000)
    consume(driver, consumer, 100.0, 105.0)
    return driver, peer, consumer


def consume(driver: BrokerDriver, consumer: Dialogue, start: float, end: float) -> None:
    """Acknowledge 20 messages a second."""
    for step in range(int((end - start) * 20)):
        driver.begin(start + step / 20)
        tag = step + round((start - 100.0) * 20) + 1
        consumer.say(method_frame(1, spec.BASIC_ACK, delivery_tag=tag))


def test_publisher_without_confirms_is_read_as_far_as_half_a_deadline_drains() -> None:
    driver, peer, consumer = slow_queue()
    consume(driver, consumer, 105.0, 140.0)
    pausing = peer.connection.pausing
    charge = int(pausing.budget.bytes) // int(pausing.budget.messages)
    assert peer.connection.may_pause()
    assert not peer.connection.may_pulse(140.0)
    assert abs(int(pausing.budget.share(140.0)) - 20 * 5 * charge) < 20 * charge
    assert peer.connection.readable() == READ_LEAST_BYTES


def test_share_of_a_publisher_without_confirms_has_a_least_size() -> None:
    driver, peer, consumer = slow_queue()
    assert peer.connection.may_pause()
    pausing = peer.connection.pausing
    now = 105.0
    while pausing.budget.bytes >= SHARE_LEAST_BYTES:
        assert peer.connection.may_pause()
        consume(driver, consumer, now, now + 1.0)
        now += 1.0
    assert not peer.connection.may_pause()
    assert peer.connection.readable() <= max(SHARE_LEAST_BYTES // CHARGE_PER_OCTET, READ_LEAST_BYTES)


def test_publisher_whose_unread_socket_fails_is_read_in_pulses() -> None:
    _, peer, _ = slow_queue(product="py-amqp")
    peer.connection.pausing.begin_pause(105.0)
    assert peer.connection.may_pause()
    assert peer.connection.may_pulse(105.5)


def test_publisher_with_confirms_has_the_whole_hold_budget_at_any_drain() -> None:
    driver, peer, consumer = slow_queue(confirms=True)
    consume(driver, consumer, 105.0, 109.0)
    pausing = peer.connection.pausing
    assert not pausing.has_share()
    assert pausing.budget.bytes > driver.connection_limits.hold_bytes
    assert not peer.connection.may_pause()


def test_publisher_that_also_consumes_is_read_with_any_share() -> None:
    _, peer, _ = slow_queue()
    peer.declare("other")
    peer.consume("other")
    assert not peer.connection.may_pause()
    assert peer.connection.readable() == UNLIMITED


def test_share_of_a_consuming_publisher_refuses_nothing_below_its_hold_budget() -> None:
    driver, peer, _ = slow_queue()
    peer.declare("other")
    peer.consume("other")
    pausing, hold_bytes = peer.connection.pausing, driver.connection_limits.hold_bytes
    assert pausing.has_share()
    assert pausing.budget.share(105.0) < hold_bytes
    assert pausing.budget.bound >= hold_bytes
