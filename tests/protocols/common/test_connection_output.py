"""Output of a connection: its bounds, and what wakes at room in it."""

from __future__ import annotations

from penstock.protocols.common.connection_output import OUTPUT_FULL, OUTPUT_LEFT_UNREAD, ConnectionOutput


def test_connection_output_takes_no_deliveries_from_its_bound_until_the_peer_has_taken_it() -> None:
    output = ConnectionOutput()
    output.buffer.write(bytes(OUTPUT_FULL - 1))
    output.bound()
    assert output.is_open()
    output.buffer.write(b"x")
    output.bound()
    assert not output.is_open()
    assert len(output.take()) == OUTPUT_FULL
    assert not output.is_open(), "taken is not yet read"
    output.drained()
    assert output.is_open()


def test_connection_output_is_left_unread_beyond_its_second_bound() -> None:
    output = ConnectionOutput()
    output.buffer.write(bytes(OUTPUT_LEFT_UNREAD))
    assert not output.is_left_unread()
    output.buffer.write(b"x")
    assert output.is_left_unread()


def test_connection_output_waits_for_no_disk_before_its_connection_is_open() -> None:
    output = ConnectionOutput()
    output.await_change(0)
    output.await_deliveries()
    assert not output.waits_for_disk()
