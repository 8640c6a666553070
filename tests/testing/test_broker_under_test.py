"""Injected faults of the test broker, each seen by a real client."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import aio_pika
import aio_pika.exceptions
import pika
import pika.exceptions
import pytest

from penstock.errors import NotFound, PreconditionFailed
from penstock.testing import (
    BrokerUnderTest,
    Subject,
    VirtualClock,
    aio,
    assert_confirmed,
    assert_depth,
    assert_depth_never_above,
    assert_held,
)
from tests.support.brokers import eventually
from tests.support.kit_clients import CONFIRMED, LOST, REFUSED, publishing


def test_full_queue_holds_the_next_publish_until_a_consumer_makes_room(
    penstock_full_queue: Subject, penstock_broker: BrokerUnderTest
) -> None:
    assert penstock_full_queue.depth == 2
    with publishing(penstock_broker.url, penstock_full_queue.name, b"3") as publisher:
        assert_held(penstock_full_queue)
        assert_held(penstock_broker.connection("shop"))
        assert publisher.is_waiting()
        assert "1 publish is held" in penstock_full_queue.reason
        with contextlib.closing(pika.BlockingConnection(pika.URLParameters(penstock_broker.url))) as consumer:
            channel = consumer.channel()
            for body in (b"filling 0", b"filling 1"):
                method, _, got = channel.basic_get("full")
                assert method is not None
                assert got == body
                channel.basic_ack(method.delivery_tag)
        assert publisher.await_outcomes() == [CONFIRMED]
    assert_confirmed(penstock_full_queue, messages=3)
    assert_depth(penstock_full_queue, 1)
    assert_depth_never_above(penstock_full_queue, 2)


def test_hold_deadline_of_a_minute_passes_on_the_virtual_clock(
    penstock_full_queue: Subject, penstock_broker: BrokerUnderTest, penstock_clock: VirtualClock
) -> None:
    with publishing(penstock_broker.url, "full", b"3") as publisher:
        assert_held(penstock_full_queue)
        penstock_clock.advance(20)
        assert_held(penstock_full_queue)
        assert publisher.is_waiting()
        penstock_clock.advance(41)
        assert publisher.await_outcomes() == [REFUSED]


def test_closed_gate_holds_publishes_with_the_reason(
    penstock_broker: BrokerUnderTest, penstock_clock: VirtualClock
) -> None:
    orders = penstock_broker.declare_queue("orders")
    penstock_broker.close_gate("orders", "stocktaking")
    with publishing(penstock_broker.url, "orders", b"1") as publisher:
        assert_held(orders)
        assert publisher.is_waiting()
        assert "stocktaking" in orders.reason
        penstock_clock.advance(0.2)  # A client is told after 100 ms at the latest.
        penstock_broker.open_gate("orders")
        assert publisher.await_outcomes() == [CONFIRMED]
        assert "stocktaking" in publisher.reasons[0]
    assert_confirmed(orders, messages=1)


def test_gate_of_a_queue_that_is_not_there_cannot_be_closed(penstock_broker: BrokerUnderTest) -> None:
    with pytest.raises(NotFound, match=f"no queue 'ordres' in vhost '{penstock_broker.vhost}'"):
        penstock_broker.close_gate("ordres")
    penstock_broker.declare_queue("orders")
    with pytest.raises(NotFound, match="queue 'orders' is not blocked by the operator"):
        penstock_broker.open_gate("orders")


def test_declaration_with_a_misspelt_argument_is_refused(penstock_broker: BrokerUnderTest) -> None:
    with pytest.raises(PreconditionFailed, match="capacity-mesages"):
        penstock_broker.declare_queue("orders", capacity_mesages=2)


def test_next_publishes_are_refused_and_the_one_after_is_not(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.declare_queue("orders")
    penstock_broker.refuse_next(2)
    with publishing(penstock_broker.url, "orders", b"1", b"2", b"3", b"4") as publisher:
        assert publisher.await_outcomes() == [REFUSED, REFUSED, CONFIRMED, CONFIRMED]
    assert_depth(orders, 2)


async def test_next_publishes_are_refused_exactly_in_a_pipeline(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.declare_queue("orders")
    penstock_broker.refuse_next(3, "orders")
    async with await aio_pika.connect(penstock_broker.url) as connection:
        channel = await connection.channel(publisher_confirms=True)
        sends = [channel.default_exchange.publish(aio_pika.Message(b"%d" % number), "orders") for number in range(10)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    refused = [isinstance(each, aio_pika.exceptions.DeliveryError) for each in outcomes]
    assert refused == [True] * 3 + [False] * 7
    await aio.assert_depth(orders, 7)


def test_order_to_refuse_is_for_one_queue_and_can_be_taken_back(penstock_broker: BrokerUnderTest) -> None:
    penstock_broker.declare_queue("orders")
    penstock_broker.declare_queue("bills")
    penstock_broker.refuse_next(5, "orders")
    with publishing(penstock_broker.url, "bills", b"1") as publisher:
        assert publisher.await_outcomes() == [CONFIRMED]
    with publishing(penstock_broker.url, "orders", b"1") as publisher:
        assert publisher.await_outcomes() == [REFUSED]
    penstock_broker.refuse_next(0)
    with publishing(penstock_broker.url, "orders", b"1") as publisher:
        assert publisher.await_outcomes() == [CONFIRMED]


def test_order_to_refuse_needs_a_number_and_a_queue(penstock_broker: BrokerUnderTest) -> None:
    with pytest.raises(ValueError, match="-1 publishes cannot be refused"):
        penstock_broker.refuse_next(-1)
    with pytest.raises(NotFound, match="declare one first"):
        penstock_broker.refuse_next(1)


def test_dropped_connection_ends_without_a_close_and_others_stay(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.full_queue("orders")
    with (
        publishing(penstock_broker.url, "orders", b"1", name="one") as one,
        publishing(penstock_broker.url, "orders", b"2", name="two") as two,
    ):
        assert_held(penstock_broker.connection("one"))
        assert_held(penstock_broker.connection("two"))
        assert penstock_broker.drop_connection("one") == 1
        assert one.await_outcomes() == [LOST]
        assert two.is_waiting()
        assert_held(orders)
        assert penstock_broker.drop_connection() == 1
        assert two.await_outcomes() == [LOST]
    assert_confirmed(orders)


def test_connection_that_is_not_there_is_named_with_those_that_are(penstock_broker: BrokerUnderTest) -> None:
    penstock_broker.full_queue("orders")
    with publishing(penstock_broker.url, "orders", b"1") as publisher:
        with pytest.raises(NotFound, match=r"no connection 'shops'; the first of 1 are shop \(con:\d+\)"):
            penstock_broker.drop_connection("shops")
        penstock_broker.drop_connection("shop")
        assert publisher.await_outcomes() == [LOST]


def test_connection_that_is_not_read_fills_its_peers_socket(penstock_broker: BrokerUnderTest) -> None:
    cut = contextlib.suppress(pika.exceptions.AMQPError)
    with cut, contextlib.closing(pika.BlockingConnection(pika.URLParameters(penstock_broker.url))) as client:
        client.channel()
        assert penstock_broker.stop_reading() == 1
        sock: socket.socket = client._impl._transport._sock  # type: ignore[attr-defined]  # pika has no public one.
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 64 * 1024 * 1024:
                sent += sock.send(b"\x08\x00\x00\x00\x00\x00\x00\xce" * 8192)  # Heartbeats.
        assert sent < 64 * 1024 * 1024
        assert penstock_broker.drop_connection() == 1


def test_connection_that_is_read_again_goes_on(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.declare_queue("orders")
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(penstock_broker.url))) as client:
        channel = client.channel()
        penstock_broker.stop_reading()
        for number in range(20):
            channel.basic_publish("", "orders", b"%d" % number)
        penstock_broker.server.clock.advance(10)
        assert orders.depth == 0
        penstock_broker.start_reading()
        assert_depth(orders, 20)


def test_crash_in_memory_loses_everything_and_the_port_stays(penstock_broker: BrokerUnderTest) -> None:
    orders = penstock_broker.full_queue("orders")
    with publishing(penstock_broker.url, "orders", b"1") as publisher:
        assert_held(orders)
        url = penstock_broker.url
        penstock_broker.crash()
        assert publisher.await_outcomes() == [LOST]
    assert penstock_broker.url == url
    assert penstock_broker.look("queue", "orders") is None
    penstock_broker.declare_queue("orders")
    with publishing(url, "orders", b"1") as publisher:
        assert publisher.await_outcomes() == [CONFIRMED]


def test_clients_left_open_do_not_hold_up_the_end_of_a_test(penstock_broker: BrokerUnderTest) -> None:
    server = penstock_broker.server
    with server.virtual_host() as other:
        left = pika.BlockingConnection(pika.URLParameters(other.url))
        left.channel().queue_declare("orders")
        vhost = other.vhost
    assert server.call(lambda: vhost in server.core.vhosts) is False
    eventually(lambda: server.call(lambda: len(server.broker.transports(vhost)) == 0), "its connection is gone")
    with pytest.raises(pika.exceptions.AMQPError):
        left.channel()
