"""The test server: start, isolation of virtual hosts, waiting, and an end that leaves nothing behind."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pika
import pytest

import penstock.testing
from penstock.config import Settings
from penstock.errors import ConfigError, StartError
from penstock.testing import LoopStuck, Server, assert_confirmed
from tests.support.kit_clients import CONFIRMED, publishing

DESCRIPTORS = Path("/proc/self/fd")


def held_open() -> int:
    gc.collect()
    return len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.exists() else 0


def test_server_leaves_no_thread_and_no_socket_behind() -> None:
    with penstock.testing.server():
        pass  # What is made once for the process is there now.
    threads, files = set(threading.enumerate()), held_open()
    with penstock.testing.server() as server, server.virtual_host() as broker:
        orders = broker.declare_queue("orders")
        with publishing(broker.url, "orders", b"1") as publisher:
            assert publisher.await_outcomes() == [CONFIRMED]
        assert_confirmed(orders, messages=1)
        assert set(threading.enumerate()) - threads
    assert set(threading.enumerate()) - threads == set()
    assert held_open() == files
    server.stop()  # Once more does nothing.


def test_server_with_a_store_leaves_no_thread_and_no_file_behind(tmp_path: Path) -> None:
    threads, files = set(threading.enumerate()), held_open()
    with penstock.testing.server(data=tmp_path) as server, server.virtual_host() as broker:
        broker.declare_queue("orders", durable=True)
        broker.crash()
    assert set(threading.enumerate()) - threads == set()
    assert held_open() == files


def test_virtual_hosts_see_nothing_of_each_other(penstock_server: Server) -> None:
    with penstock_server.virtual_host() as one, penstock_server.virtual_host() as other:
        one.declare_queue("orders", capacity_messages=2)
        one.publish("orders", b"1")
        one.close_gate("orders", "stocktaking")
        one.refuse_next(5, "orders")
        assert other.look("queue", "orders") is None
        other.declare_queue("orders")
        with publishing(other.url, "orders", b"1") as publisher:
            assert publisher.await_outcomes() == [CONFIRMED]
        assert one.drop_connection() == 0


def test_virtual_host_is_gone_with_its_gates_after_the_test(penstock_server: Server) -> None:
    with penstock_server.virtual_host("once") as broker:
        broker.declare_queue("orders")
        broker.close_gate("orders")
        url = broker.url
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(url))
    with penstock_server.virtual_host("once") as broker:
        orders = broker.declare_queue("orders")
        with publishing(broker.url, "orders", b"1") as publisher:
            assert publisher.await_outcomes() == [CONFIRMED]
        assert all(gate["kind"] != "operator" for gate in orders.view["gates"])


def test_clients_are_offered_no_heartbeats(penstock_server: Server) -> None:
    """An hour's jump would end the connection of a client whose heartbeats live by the real clock."""
    with penstock_server.virtual_host() as broker:
        plain = pika.URLParameters(broker.url.partition("?")[0])
        assert plain.heartbeat is None
        connection = pika.BlockingConnection(plain)
        penstock_server.clock.advance(3600)
        connection.channel().queue_declare("orders")
        connection.close()


def test_wait_ends_when_the_state_is_there_and_gives_up_when_it_is_not(penstock_server: Server) -> None:
    states = iter([0, 0, 7])
    assert penstock_server.wait_for(lambda: next(states)) is True
    assert penstock_server.wait_for(lambda: False, within_s=0.01) is False
    with pytest.raises(ZeroDivisionError):
        penstock_server.wait_for(lambda: 1 // 0)
    with pytest.raises(LoopStuck):
        penstock_server.call(lambda: penstock_server.wait_for(lambda: True))


def test_settings_are_those_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[broker]\nhold-deadline = "7s"\n')
    with penstock.testing.server(settings=file) as server:
        assert server.core.defaults.hold_deadline_s == 7.0
    file.write_text("[broker]\nhold-dedline = 7\n")
    with pytest.raises(ConfigError, match="hold-dedline"), penstock.testing.server(settings=file):
        pass


def test_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with penstock.testing.server(data=tmp_path):
        with pytest.raises(StartError, match="is in use"), penstock.testing.server(data=tmp_path):
            pass
    with pytest.raises(StartError), penstock.testing.server(settings=Settings(metrics_listen="nowhere")):
        pass
    assert set(threading.enumerate()) - threads == set()
