"""The choice of the protocol by the first bytes."""

from __future__ import annotations

from penstock.connections.connection_state import ConnectionState
from penstock.wire.amqp091 import spec
from tests.support.driven_connection import cut, make_driver, output_of
from tests.support.logging_in import stranger

HEADER = b"AMQP\x00\x00\x09\x01"


def test_protocol_header_may_come_byte_by_byte() -> None:
    found = stranger(make_driver(), "127.0.0.1")
    for octet in HEADER[:-1]:
        found.receive(bytes([octet]))
        assert output_of(found) == b""
        assert found.state is ConnectionState.HEADER
    found.receive(HEADER[-1:])
    assert found.state is ConnectionState.START
    assert cut(output_of(found))[0][0] == spec.FRAME_METHOD


def test_unknown_protocol_header_is_answered_at_the_first_wrong_byte() -> None:
    for start in (b"G", b"AMQP\x07", b"HTTP/1.1"):
        found = stranger(make_driver(), "127.0.0.1")
        found.receive(start)
        assert output_of(found) == HEADER
        assert found.state is ConnectionState.CLOSED


def test_header_is_awaited_whole_unless_its_first_bytes_are_of_no_protocol() -> None:
    engine = stranger(make_driver(), "127.0.0.1").engine
    for count in range(9):
        assert engine.next_unit(HEADER[:count]) == len(HEADER)
    assert engine.next_unit(b"GET /") == 5
