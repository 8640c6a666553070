"""A broker that crashes, with a store: confirmed messages are there afterwards."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pika
import pytest

import penstock.testing
from penstock.logs.ids import LATE_LOOP
from penstock.testing import Server, assert_confirmed, assert_depth, assert_held
from tests.support.kit_clients import CONFIRMED, LOST, publishing


def test_crash_with_a_store_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    with penstock.testing.server(data=tmp_path, within_s=60.0) as server, server.virtual_host() as broker:
        orders = broker.declare_queue("orders", durable=True, capacity_messages=3)
        with publishing(broker.url, "orders", b"1", b"2", durable=True) as publisher:
            assert publisher.await_outcomes() == [CONFIRMED, CONFIRMED]
        assert_confirmed(orders, messages=2)
        with publishing(broker.url, "orders", b"3", b"4", durable=True) as publisher:
            assert_held(orders)
            broker.crash()
            assert publisher.await_outcomes() == [LOST]
        assert_depth(orders, 3)
        with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as client:
            channel = client.channel()
            assert [channel.basic_get("orders", auto_ack=True)[2] for _ in range(3)] == [b"1", b"2", b"3"]


def test_crash_keeps_the_virtual_time_and_the_clock_works_after_it(tmp_path: Path) -> None:
    with penstock.testing.server(data=tmp_path, within_s=60.0) as server, server.virtual_host() as broker:
        full = broker.full_queue("full", hold_deadline=60)
        server.clock.advance(1000)
        before = server.clock.now
        broker.crash()
        assert server.clock.now >= before
        full = broker.full_queue("full", hold_deadline=60)
        with publishing(broker.url, "full", b"3", durable=True) as publisher:
            assert_held(full)
            server.clock.advance(61)
            assert publisher.await_outcomes() != [CONFIRMED]


def test_durable_publishes_are_confirmed_while_the_clock_is_advanced(tmp_path: Path) -> None:
    """The clock stands still while the store is being written, so no disk seems to hang."""
    with penstock.testing.server(data=tmp_path, within_s=60.0) as server, server.virtual_host() as broker:
        orders = broker.declare_queue("orders", durable=True)
        bodies = [b"%d" % number for number in range(50)]
        with publishing(broker.url, "orders", *bodies, durable=True) as publisher:
            while publisher.is_waiting():
                server.clock.advance(60)
            assert publisher.await_outcomes() == [CONFIRMED] * 50
        assert_confirmed(orders, messages=50)
        assert orders.view["gate"]["crossings"] == 0
        assert all(gate["crossings"] == 0 for gate in orders.view["gates"])


def test_log_has_no_word_of_a_loop_that_was_late_by_a_jump(
    penstock_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with penstock_server.virtual_host() as broker:
        broker.full_queue()
        penstock_server.clock.advance(3600)
        penstock_server.clock.advance(0.5)
    late = [record.__dict__["ms"] for record in caplog.records if record.__dict__.get("id") == LATE_LOOP]
    assert [ms for ms in late if ms > 60_000] == []  # A busy machine may stop the loop for a moment.
