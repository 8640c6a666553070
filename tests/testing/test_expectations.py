"""Assertions: their conditions, and the sentences of their failures."""

from __future__ import annotations

import pytest

from penstock.testing import (
    BrokerUnderTest,
    Subject,
    assert_confirmed,
    assert_depth,
    assert_depth_never_above,
    assert_held,
    assert_lost_nothing,
)
from tests.support.kit_clients import LOST, publishing

SOON = 0.05


def fails(message: str) -> pytest.RaisesExc[AssertionError]:
    return pytest.raises(AssertionError, match=message)


def test_queue_without_held_publishes_is_reported_with_its_state(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.declare_queue("orders")
    with fails(
        r"^no publish is held by queue 'orders' within 0.05 s: queue orders: the gate is open; .*blocks no producer"
    ):
        assert_held(orders, within=SOON)


def test_missing_queue_is_reported(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.queue("orders")
    with fails(r"^no publish is held by queue 'orders' within 0.05 s: there is no queue 'orders'$"):
        assert_held(orders, within=SOON)
    with fails("^there is no queue 'orders'$"):
        assert_depth_never_above(orders, 1)


def test_connection_without_a_held_publish_is_reported(penstock_broker: BrokerUnderTest) -> None:
    with fails(r"^no publish is held by connection 'shop' within 0.05 s: there is no connection 'shop'$"):
        assert_held(penstock_broker.connection("shop"), within=SOON)


def test_held_publish_is_not_confirmed(penstock_full_queue: Subject, penstock_broker: BrokerUnderTest) -> None:
    with publishing(penstock_broker.url, "full", b"3") as publisher:
        assert_held(penstock_full_queue)
        with fails(r"^queue 'full' has not confirmed all publishes within 0.05 s: .*1 publish is held"):
            assert_confirmed(penstock_full_queue, within=SOON)
        with fails(r"^connection 'shop' has not confirmed all publishes within 0.05 s"):
            assert_confirmed(penstock_broker.connection("shop"), within=SOON)
        penstock_broker.drop_connection()
        assert publisher.await_outcomes() == [LOST]
    assert_confirmed(penstock_full_queue)


def test_confirmed_messages_are_counted(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.declare_queue("orders")
    penstock_broker.publish("orders", b"1", b"2")
    assert_confirmed(orders, messages=2)
    with fails(r"^queue 'orders' has not confirmed 3 publishes within 0.05 s"):
        assert_confirmed(orders, messages=3, within=SOON)
    with pytest.raises(TypeError, match="connection 'shop' does not count messages: name a queue"):
        assert_confirmed(penstock_broker.connection("shop"), messages=1)


def test_depth_is_awaited_and_the_high_water_mark_stays(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.declare_queue("orders")
    penstock_broker.publish("orders", b"1", b"2", b"3")
    assert_depth(orders, 3)
    penstock_broker.slow_consumer("orders", rate=1000)
    assert_depth(orders, 0)
    with fails(r"^queue 'orders' has not 3 messages within 0.05 s"):
        assert_depth(orders, 3, within=SOON)
    assert_depth_never_above(orders, 3)
    with fails("^queue 'orders' has held 3 messages at once, more than 2$"):
        assert_depth_never_above(orders, 2)
    with pytest.raises(TypeError, match="connection 'shop' has no depth: name a queue"):
        assert_depth_never_above(penstock_broker.connection("shop"), 1)


def test_assertion_of_no_loss_allows_any_order_and_repetitions() -> None:
    assert_lost_nothing([1, 2, 3], [3, 1, 2])
    assert_lost_nothing(iter([1, 2, 2]), iter([2, 1, 2, 1]))
    assert_lost_nothing([], [])


@pytest.mark.parametrize(
    ("sent", "got", "doubles", "sentence"),
    [
        ([1, 2, 3], [1], True, "^2 of 3 messages are lost: 2, 3$"),
        (range(10), [], True, "^10 of 10 messages are lost: 0, 1, 2, 3, 4 and 5 more$"),
        ([1, 1], [1], True, "^1 of 2 messages are lost: 1$"),
        ([b"a"], [b"a", b"b"], True, "^1 messages were received that nobody has sent: b'b'$"),
        ([1], [1, 1], False, "^1 messages were received more often than sent: 1$"),
        ([1, 2], [2, 2, 7], False, "^1 of 2 messages are lost: 1; 1 messages .* nobody has sent: 7; 1 .* often.*: 2$"),
    ],
)
def test_lost_and_strange_messages_are_named(
    sent: list[object], got: list[object], doubles: bool, sentence: str
) -> None:
    with fails(sentence):
        assert_lost_nothing(sent, got, doubles)
