"""AMQP 1.0 engine: headers, open, begin, end and close, and the scopes of errors."""

from __future__ import annotations

import pytest

from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.connection_state import ConnectionState
from penstock.connections.peer import Peer
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, TLS_HEADER, frame
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, login, names, performative
from tests.support.driven_connection import make_driver, output_of
from tests.support.limited_connections import limits


def test_open_has_limits_and_properties() -> None:
    client = Amqp10Dialogue(session=False)
    (opened,) = client.opened
    assert opened.name == "open"
    assert opened.field("max_frame_size") == 131072
    assert opened.field("idle_time_out") == 60_000
    assert client.connection.engine.details()["protocol"] == "AMQP 1.0"


@pytest.mark.parametrize(
    ("header", "address", "limits"),
    [
        (TLS_HEADER, "127.0.0.1", limits(sasl_mechanisms=["PLAIN", "ANONYMOUS"], insecure_mechanisms=[])),
        (AMQP_HEADER, "127.0.0.1", limits(sasl_mechanisms=["PLAIN"], insecure_mechanisms=["ANONYMOUS"])),
        (AMQP_HEADER, "10.0.0.1", limits(sasl_mechanisms=["PLAIN", "ANONYMOUS"], insecure_mechanisms=["PLAIN"])),
        (
            AMQP_HEADER,
            "10.0.0.1",
            limits(sasl_mechanisms=["PLAIN", "ANONYMOUS"], insecure_mechanisms=["PLAIN", "ANONYMOUS"]),
        ),
    ],
)
def test_connection_without_sasl_is_answered_with_the_header_and_closed(
    header: bytes, address: str, limits: ConnectionLimits
) -> None:
    connection = make_driver(limits).connect(Peer(f"{address}:1", address.startswith("127.")))
    opening = performative(spec.OPEN, container_id="c")
    connection.receive(header + opening)
    assert output_of(connection) == SASL_HEADER
    assert connection.is_closed()
    assert not connection.logged_in


@pytest.mark.parametrize("pieces", [1, 8])
def test_connection_without_sasl_is_anonymous_if_offered(pieces: int) -> None:
    connection = make_driver(limits(sasl_mechanisms=["ANONYMOUS"], insecure_mechanisms=[])).connect(
        Peer("127.0.0.1:1", True)
    )
    data = AMQP_HEADER + performative(spec.OPEN, container_id="c")
    size = len(data) // pieces
    for at in range(0, len(data), size):
        connection.receive(data[at : at + size])
    assert (connection.user, connection.peer.mechanism) == ("guest", "ANONYMOUS")
    assert connection.state is ConnectionState.RUNNING
    assert output_of(connection).startswith(AMQP_HEADER)


def test_connection_without_sasl_counts_as_a_login() -> None:
    driver = make_driver(limits(sasl_mechanisms=["ANONYMOUS"], insecure_mechanisms=[], login_rate_max=1))
    first, second = (driver.connect(Peer("127.0.0.1:1", True)) for _ in range(2))
    first.receive(AMQP_HEADER)
    second.receive(AMQP_HEADER)
    assert (output_of(first), first.logged_in) == (AMQP_HEADER, True)
    assert (output_of(second), second.logged_in, second.is_closed()) == (SASL_HEADER, False, True)


def test_connection_without_sasl_has_no_second_login() -> None:
    connection = make_driver().connect(Peer("127.0.0.1:1", True))
    connection.receive(AMQP_HEADER + SASL_HEADER)
    connection.take_output()
    assert connection.is_closing() or connection.is_closed()


def test_login_open_and_begin_may_come_in_a_single_read(driver: BrokerDriver) -> None:
    connection = driver.connect(Peer("127.0.0.1:1", True))
    begin = performative(spec.BEGIN, next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    connection.receive(login() + AMQP_HEADER + performative(spec.OPEN, container_id="c") + begin)
    assert len(connection.engine.sessions()) == 1


def test_close_is_answered() -> None:
    client = Amqp10Dialogue()
    (closed,) = client.say(performative(spec.CLOSE))
    assert closed.name == "close"
    assert closed.field("error") is None
    assert client.connection.is_closed()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (AMQP_HEADER, "amqp:connection:framing-error"),
        (SASL_HEADER, "amqp:connection:framing-error"),
        (frame(0, b"", spec.FRAME_SASL), "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x00\x00\x08\x02\x07\x00\x00", "amqp:connection:framing-error"),
        (b"\x00\x02\x00\x01\x02\x00\x00\x00", "amqp:connection:framing-error"),
        (frame(0, b"\x00\x53\x11\xc0\x20\x04"), "amqp:decode-error"),
        (performative(spec.OPEN, container_id="again"), "amqp:illegal-state"),
        (performative(spec.BEGIN, next_outgoing_id=0, incoming_window=1, outgoing_window=1), "amqp:illegal-state"),
        (performative(spec.END, 7), "amqp:illegal-state"),
        (
            performative(spec.BEGIN, 60_000, next_outgoing_id=0, incoming_window=1, outgoing_window=1),
            "amqp:connection:framing-error",
        ),
    ],
)
def test_input_that_closes_the_connection(data: bytes, expected: str) -> None:
    client = Amqp10Dialogue()
    (closed,) = client.say(data)
    assert closed.name == "close"
    assert condition(closed) == expected
    assert client.say(performative(spec.CLOSE)) == []
    assert client.connection.is_closed()


def test_end_is_answered_and_the_channel_may_be_used_again() -> None:
    client = Amqp10Dialogue()
    assert names(client.say(performative(spec.END))) == ["end"]
    assert names(client.begin(0)) == ["begin"]
