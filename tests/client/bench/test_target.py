"""Broker of a run: addresses of this machine, and queues that a run declares."""

from __future__ import annotations

import pytest

from penstock import sync
from penstock.client.bench.target import BenchError, Target, is_loopback, strangers, with_options


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_host_of_this_machine_is_none_of_a_stranger(host: str) -> None:
    assert is_loopback(host)


def test_hosts_of_other_machines_are_listed() -> None:
    assert strangers("amqp://guest:guest@127.0.0.1,broker.example,[::1]:5673/") == ["broker.example"]
    assert strangers("amqp://10.0.0.1") == ["10.0.0.1"]
    with pytest.raises(BenchError, match="--url: a broker's URL starts with amqp:// or amqps://, not with http://"):
        strangers("http://127.0.0.1")


def test_url_gets_more_options() -> None:
    assert with_options("amqp://h/", window=5, name=None) == "amqp://h/?window=5"
    assert with_options("amqp://h/?a=1", b="x y") == "amqp://h/?a=1&b=x+y"
    assert with_options("amqp://h/") == "amqp://h/"


def test_broker_is_recognised_by_the_announced_properties(target: Target) -> None:
    assert target.is_penstock
    assert target.describe()["product"] == "Penstock"
    assert target.protocol in ("amqp091", "amqp10")


def test_queue_of_a_run_is_deleted_afterwards_and_an_existing_queue_stays(target: Target) -> None:
    with target.queue(capacity_messages=3) as name, sync.connect(target.url) as connection:
        assert connection.why(name).raw["gate"]["crossings"] == 0
        with target.queue(name) as same:
            assert same == name
        assert connection.why(name).raw["gate"]["crossings"] == 0
    with sync.connect(target.url) as connection, pytest.raises(Exception, match="no queue"):
        connection.why(name)
