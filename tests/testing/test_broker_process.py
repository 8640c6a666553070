"""A broker in a process of its own: kills and failing disks that are real."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pika
import pytest

from penstock.errors import StartError
from penstock.testing import BrokerProcess, assert_confirmed, assert_depth_never_above, assert_held, assert_lost_nothing
from tests.support.kit_clients import CONFIRMED, LOST, REFUSED, publishing


def declare(broker: BrokerProcess, queue: str, **arguments: object) -> None:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as client:
        client.channel().queue_declare(queue, durable=True, arguments=given)


def drain(broker: BrokerProcess, queue: str) -> list[bytes]:
    found = []
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as client:
        channel = client.channel()
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(got[2])
    return found


def test_kill_loses_nothing_that_was_confirmed_and_the_port_stays(penstock_process: BrokerProcess) -> None:
    orders = penstock_process.queue("orders")
    url, pid = penstock_process.url, penstock_process.pid
    declare(penstock_process, "orders", capacity_messages=3, hold_deadline=60)
    sent = [b"1", b"2", b"3", b"4"]
    with publishing(url, "orders", *sent[:2], durable=True) as publisher:
        assert publisher.await_outcomes() == [CONFIRMED, CONFIRMED]
    assert_confirmed(orders, messages=2)
    with publishing(url, "orders", *sent[2:], durable=True) as publisher:
        assert_held(orders)
        assert_held(penstock_process.connection("shop"))
        penstock_process.restart()
        assert publisher.await_outcomes() == [LOST]
    assert penstock_process.url == url
    assert penstock_process.pid != pid
    found = drain(penstock_process, "orders")
    assert_depth_never_above(orders, 3)
    assert_lost_nothing(sent[: max(2, len(found))], found)  # The third was not confirmed, and may be on the disk.


def test_failing_disk_holds_durable_publishes_until_it_is_mended(penstock_process: BrokerProcess) -> None:
    declare(penstock_process, "orders", hold_deadline=300)
    orders = penstock_process.queue("orders")
    penstock_process.fail_disk()
    with publishing(penstock_process.url, "orders", b"1", durable=True) as publisher:
        orders.await_state(lambda view: any(not gate["open"] for gate in view["gates"]), None, "no gate closes")
        assert publisher.is_waiting()
        with pytest.raises(AssertionError, match="cannot write the store"):
            orders.await_state(lambda view: False, 0.0, "never")
        penstock_process.mend_disk()
        assert publisher.await_outcomes() == [CONFIRMED]
    assert_confirmed(orders, messages=1)
    penstock_process.restart()
    assert drain(penstock_process, "orders") == [b"1"]


def test_hold_deadline_passes_in_real_time_there(penstock_process: BrokerProcess) -> None:
    declare(penstock_process, "orders", capacity_messages=1, hold_deadline="200ms")
    with publishing(penstock_process.url, "orders", b"1", b"2") as publisher:
        assert publisher.await_outcomes() == [CONFIRMED, REFUSED]


def test_process_is_started_and_stopped_once(penstock_process: BrokerProcess) -> None:
    with pytest.raises(StartError, match=f"the broker runs already, as process {penstock_process.pid}"):
        penstock_process.start()
    assert penstock_process.stop() == 0
    with pytest.raises(StartError, match="the broker does not run: start it first"):
        penstock_process.stop()
    with pytest.raises(StartError, match="the broker does not run"):
        penstock_process.look("queue", "orders")
    penstock_process.start()
    assert "Ready" in penstock_process.log()


def test_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"the broker has not started: [\s\S]*no-such-option"):
        BrokerProcess(tmp_path, ("--no-such-option",))


def test_killed_process_leaves_no_process_and_no_thread(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    broker = BrokerProcess(tmp_path)
    pid = broker.pid
    broker.kill()
    broker.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
