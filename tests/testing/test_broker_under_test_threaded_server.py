"""The test server: separate virtual hosts, and settings."""

from __future__ import annotations

import threading
from pathlib import Path

import pika
import pytest

import penstock.testing
from penstock.errors import ConfigError, StartError
from penstock.settings.config import Settings
from penstock.testing import Server
from tests.support.kit_clients import CONFIRMED, publishing

DESCRIPTORS = Path("/proc/self/fd")


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
    in_use = pytest.raises(StartError, match="is in use")
    with penstock.testing.server(data=tmp_path), in_use, penstock.testing.server(data=tmp_path):
        pass
    with pytest.raises(StartError), penstock.testing.server(settings=Settings(metrics_listen="nowhere")):
        pass
    assert set(threading.enumerate()) - threads == set()
