"""Sessions: what ends one, and dispositions of deliveries."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, data_section, performative


def with_deliveries(count: int) -> Amqp10Dialogue:
    """A peer with this many unsettled deliveries from queue q."""
    client = Amqp10Dialogue()
    client.declare("q")
    client.attach_sender("/queues/q")
    client.say(*(client.transfer(data_section(bytes([n]))) for n in range(count)))
    heard = client.attach_receiver("/queues/q", credit=count)
    assert [each.field("delivery_id") for each in heard if each.name == "transfer"] == list(range(count))
    return client


def test_range_is_settled_at_once() -> None:
    client = with_deliveries(10)
    client.settle(0, 7, accepted())
    assert client.depth("q") == 2
    client.settle(9, 9, accepted())
    assert client.depth("q") == 1


def test_released_messages_are_back_in_their_order_and_not_counted() -> None:
    client = with_deliveries(3)
    client.settle(0, 2, composite(spec.RELEASED))
    heard = client.flow(1, 3, delivery_count=3)
    bodies = [each.payload[-1] for each in heard if each.name == "transfer"]
    assert bodies == [0, 1, 2]
    queue = client.driver.broker.vhosts["/"].queues["q"]
    assert queue.messages == 3


@pytest.mark.parametrize(("failed", "count"), [(True, 1), (False, 0)])
def test_modified_counts_a_failed_delivery(failed: bool, count: int) -> None:
    client = with_deliveries(1)
    client.settle(0, 0, composite(spec.MODIFIED, delivery_failed=failed))
    (heard,) = [each for each in client.flow(1, 1, delivery_count=1) if each.name == "transfer"]
    header = heard.payload[: heard.payload.index(b"\x00\x53\x75")]
    assert (b"\x52\x01" in header) == bool(count)


def test_receiver_that_settles_second_is_told_that_we_have() -> None:
    client = with_deliveries(1)
    (settled,) = client.settle(0, 0, accepted(), settled=False)
    assert (settled.name, settled.field("role"), settled.field("settled")) == ("disposition", False, True)
    assert client.depth("q") == 0


def test_disposition_of_the_future_ends_the_session_and_one_of_the_past_is_ignored() -> None:
    client = with_deliveries(2)
    client.settle(0, 1, accepted())
    assert client.settle(0, 1, accepted()) == []
    (ended,) = client.settle(2, 2, accepted())
    assert (ended.name, condition(ended)) == ("end", "amqp:not-allowed")


def test_transfer_on_a_handle_without_a_link_ends_the_session() -> None:
    client = Amqp10Dialogue()
    (ended,) = client.say(client.transfer(data_section(b"x"), handle=9))
    assert condition(ended) == "amqp:session:unattached-handle"
    client.begin(1)
    client.declare("q")
    client.attach_receiver("/queues/q", channel=1)
    (ended,) = client.say(client.transfer(data_section(b"x"), handle=1, channel=1))
    assert condition(ended) == "amqp:session:errant-link"


def test_end_puts_unsettled_messages_back() -> None:
    client = with_deliveries(4)
    client.say(performative(spec.END))
    queue = client.driver.broker.vhosts["/"].queues["q"]
    assert queue.available() == 4
