"""AMQP 0-9-1 engine without a broker: bytes that no broker sends, and impossible logins."""

from __future__ import annotations

import pytest

from penstock.client.engine.amqp091.connection import Engine091
from penstock.client.engine.terms import ConnectionTerms
from penstock.client.errors import ConnectError, LoginRefused
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame


def begun() -> Engine091:
    engine = Engine091(ConnectionTerms(host="h", port=5))
    engine.begin(0.0)
    assert engine.take_output() == spec.PROTOCOL_HEADER
    return engine


def start(mechanisms: bytes) -> bytes:
    return method_frame(0, spec.CONNECTION_START, version_major=0, version_minor=9, mechanisms=mechanisms, locales=b"")


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server answers there"),
        (b"SSH-2.0-OpenSSH\r\n", "no AMQP broker answers there"),
        (b"AMQP\x03\x01\x00\x00", "speaks another version of AMQP (03 01 00 00)"),
    ],
)
def test_server_of_another_protocol_is_named(octets: bytes, text: str) -> None:
    engine = begun()
    engine.receive(octets, 0.0)
    assert isinstance(engine.fault, ConnectError)
    assert text in str(engine.fault)


def test_missing_mechanism_is_a_refused_login() -> None:
    engine = begun()
    engine.receive(start(b"AMQPLAIN EXTERNAL"), 0.0)
    assert isinstance(engine.fault, LoginRefused)
    assert "offers only AMQPLAIN EXTERNAL, and PLAIN is needed" in str(engine.fault)


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\x01\x00\x00\x7f\xff\xff\xff\x00", "larger than 131072"),
        (frame(spec.FRAME_METHOD, 0, b"\x00\x0a\x00\x0a\x00")[:-1] + b"\x00", "without its end mark"),
        (frame(spec.FRAME_BODY, 0, b"x"), "a frame of kind 3 on channel 0"),
        (frame(spec.FRAME_METHOD, 0, b"\x00\x0a\x00\x0a"), "connection.start"),
    ],
)
def test_malformed_input_breaks_the_connection_off(octets: bytes, text: str) -> None:
    engine = begun()
    engine.receive(start(b"PLAIN"), 0.0)
    engine.receive(octets, 0.0)
    assert engine.fault is not None
    assert "the broker broke the protocol" in str(engine.fault)
    assert text in str(engine.fault)


def test_input_byte_by_byte_is_read_like_a_single_read() -> None:
    engine = begun()
    for octet in start(b"PLAIN"):
        engine.receive(bytes([octet]), 0.0)
    assert engine.fault is None
    assert b"\0guest\0guest" in engine.take_output()


def test_server_that_offers_scram_does_not_get_the_password() -> None:
    engine = Engine091(ConnectionTerms(host="h", port=5, mechanism="SCRAM-SHA-256", password="secret"))
    engine.begin(0.0)
    engine.receive(start(b"SCRAM-SHA-256 PLAIN"), 0.0)
    assert isinstance(engine.fault, LoginRefused)
    assert b"secret" not in engine.take_output()
