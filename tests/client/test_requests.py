"""Calls with answers, over both protocols."""

from __future__ import annotations

import pytest

import penstock.sync
from penstock.client.errors import Timeout


def test_call_to_a_queue_without_a_service_times_out(client: penstock.sync.Connection, client_queue: str) -> None:
    with pytest.raises(Timeout):
        client.call(client_queue, b"question", timeout=0.1)


def test_call_names_one_target(client: penstock.sync.Connection) -> None:
    for more in ({"exchange": "amq.topic"}, {"routing_key": "key"}):
        with pytest.raises(ValueError, match="a call goes to a queue, or to an exchange with a routing key"):
            client.call("queue", b"question", **more)


def test_drain_waits_for_all_outcomes(client: penstock.sync.Connection, client_queue: str) -> None:
    publisher = client.publisher(routing_key=client_queue)
    receipts = [publisher.publish(b"x") for _ in range(5)]
    client.drain()
    assert all(receipt.done for receipt in receipts)
