"""Cursors, over both protocols."""

from __future__ import annotations

import pytest

import penstock
import penstock.sync


def test_cursor_is_read_to_the_end(client: penstock.sync.Connection, client_queue: str) -> None:
    assert client.create_cursor("reader", [client_queue]) == {client_queue: 0}
    client.publisher(client_queue).send_many([b"one", b"two", b"three"])
    held = client.attach_cursor("reader", [client_queue])
    plan = client.plan_batch("reader", held.token, held.settled, rows=2, wait=0.1)
    assert (plan.rows, plan.end, plan.tail) == (2, {client_queue: 2}, {client_queue: 3})
    block = client.read_range("reader", held.token, client_queue, 0, 2, rows=10, bytes=1_000_000, columns=["value"])
    assert b"onetwo" in bytes(block)
    assert client.settle_cursor("reader", held.token, plan.end) == {client_queue: 2}
    assert client.show_cursor("reader")["queues"][0]["settled"] == 2
    moved = client.move_cursor("reader", "latest", force=True)
    assert moved["queues"][0]["to"] == 3
    with pytest.raises(penstock.ControlError) as fenced:
        client.settle_cursor("reader", held.token, plan.tail)
    assert fenced.value.name == "fenced"
    with pytest.raises(penstock.ControlError):
        client.release_cursor("reader", [client_queue])
    client.delete_cursor("reader")
