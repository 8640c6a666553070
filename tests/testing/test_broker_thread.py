"""The broker in a thread: calls, waiting, and an end without a trace."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pika
import pytest

import penstock.testing
from penstock.settings.config import Settings
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
    assert held_open() <= files  # Tests before may have left some that close now.
    server.stop()  # Once more does nothing.


def test_server_with_a_store_leaves_no_thread_and_no_file_behind(tmp_path: Path) -> None:
    threads, files = set(threading.enumerate()), held_open()
    with penstock.testing.server(tmp_path, Settings(heartbeat_s=0)) as server, server.virtual_host() as broker:
        broker.declare_queue("orders", durable=True)
        broker.crash()
        broker.crash()
    assert set(threading.enumerate()) - threads == set()
    assert held_open() <= files  # Tests before may have left some that close now.


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
