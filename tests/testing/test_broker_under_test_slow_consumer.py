"""A consumer at a set rate, by the virtual clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import NotFound
from penstock.testing import (
    BrokerUnderTest,
    SlowConsumer,
    VirtualClock,
    assert_confirmed,
    assert_depth,
    assert_depth_never_above,
    assert_held,
)
from tests.support.kit_clients import CONFIRMED, publishing

Consume = Callable[..., SlowConsumer]


def test_consumer_gets_so_many_a_virtual_second(
    penstock_broker: BrokerUnderTest, penstock_clock: VirtualClock, penstock_slow_consumer: Consume
) -> None:
    orders = penstock_broker.declare_queue("orders")
    penstock_broker.publish("orders", *[b"%d" % number for number in range(100)])
    consumer = penstock_slow_consumer("orders", rate=2)
    penstock_clock.advance(20)
    assert 38 <= consumer.count < 100  # Real seconds pass as well.
    assert list(consumer.bodies) == [b"%d" % number for number in range(consumer.count)]
    assert_depth(orders, 100 - consumer.count)
    penstock_clock.advance(40)
    assert consumer.count == 100
    assert_depth(orders, 0)


def test_publisher_goes_at_the_pace_of_the_consumer(
    penstock_broker: BrokerUnderTest, penstock_clock: VirtualClock, penstock_slow_consumer: Consume
) -> None:
    orders = penstock_broker.declare_queue("orders", capacity_messages=5)
    with publishing(penstock_broker.url, "orders", *[b"%d" % number for number in range(30)]) as publisher:
        assert_held(orders)
        consumer = penstock_slow_consumer("orders", rate=1)
        while publisher.is_waiting():
            penstock_clock.advance(1)
        assert publisher.await_outcomes() == [CONFIRMED] * 30
    assert_confirmed(orders, messages=30)
    assert_depth_never_above(orders, 5)
    penstock_clock.advance(10)
    assert list(consumer.bodies) == [b"%d" % number for number in range(30)]


def test_consumer_is_seen_by_name_and_stops(
    penstock_broker: BrokerUnderTest, penstock_clock: VirtualClock, penstock_slow_consumer: Consume
) -> None:
    orders = penstock_broker.declare_queue("orders")
    consumer = penstock_slow_consumer("orders", rate=1)
    assert [each["consumer"] for each in orders.view["waits_for"]] == ["slow-consumer-1"]
    consumer.stop()
    consumer.stop()
    assert orders.view["waits_for"] == []
    penstock_broker.publish("orders", b"1")
    penstock_clock.advance(10)
    assert (consumer.count, orders.depth) == (0, 1)


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_rate_that_gets_nothing_is_refused(penstock_broker: BrokerUnderTest, rate: float) -> None:
    penstock_broker.declare_queue("orders")
    with pytest.raises(ValueError, match=r"a consumer of \S+ messages a second gets none: give a rate above 0"):
        penstock_broker.slow_consumer("orders", rate)


def test_queue_that_is_not_there_is_named(penstock_broker: BrokerUnderTest) -> None:
    with pytest.raises(NotFound, match="no queue 'orders'"):
        penstock_broker.slow_consumer("orders", 1)
