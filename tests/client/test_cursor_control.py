"""Cursors by the client's functions for operators."""

from __future__ import annotations

import pytest

from penstock.client import Connection, ControlClient, ControlError, Publisher
from penstock.client.cursor_control import move_cursor, show_cursor


def test_cursor_is_shown_and_moved(broker_url: str, connection: Connection) -> None:
    name = "shown-and-moved"
    with ControlClient(connection) as control:
        connection.channel().queue_declare(name)
        with Connection(broker_url) as other, Publisher(other, routing_key=name) as publisher:
            publisher.publish([b"x"] * 3)
        control.attach(name, [name])
        assert show_cursor(control, name)["lag"]["messages"] == 3
        assert move_cursor(control, name, {name: 2}, dry_run=True)["queues"][0]["messages"] == 2
        with pytest.raises(ControlError, match="is in use by"):
            move_cursor(control, name, "latest")
        move_cursor(control, name, {name: 2}, force=True)
        assert show_cursor(control, name)["lag"]["messages"] == 1
        with pytest.raises(ControlError, match="no cursor"):
            show_cursor(control, f"{name}-x")
