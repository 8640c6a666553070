"""AMQP 1.0 engine without a broker: bytes that no broker sends, and impossible logins."""

from __future__ import annotations

import pytest

from penstock.client.engine.amqp10.connection import Engine10
from penstock.client.engine.terms import ConnectionTerms
from penstock.client.errors import ConnectError, LoginRefused, WrongProtocol
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.frames import SASL_HEADER, frame


def begun() -> Engine10:
    engine = Engine10(ConnectionTerms(host="h", port=5))
    engine.begin(0.0)
    assert engine.take_output() == SASL_HEADER
    return engine


def mechanisms(*names: str) -> bytes:
    return SASL_HEADER + frame(0, encode(spec.SASL_MECHANISMS, sasl_server_mechanisms=list(names)), spec.FRAME_SASL)


@pytest.mark.parametrize(
    ("octets", "kind", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", ConnectError, "an HTTP server answers there"),
        (b"SSH-2.0-OpenSSH\r\n", ConnectError, "no AMQP broker answers there"),
        (b"AMQP\x00\x00\x09\x01", WrongProtocol, "speaks another version of AMQP (00 00 09 01)"),
    ],
)
def test_server_of_another_protocol_is_named(octets: bytes, kind: type[Exception], text: str) -> None:
    engine = begun()
    engine.receive(octets, 0.0)
    assert type(engine.fault) is kind
    assert text in str(engine.fault)


def test_missing_mechanism_is_a_refused_login() -> None:
    engine = begun()
    engine.receive(mechanisms("EXTERNAL"), 0.0)
    assert isinstance(engine.fault, LoginRefused)
    assert "offers only EXTERNAL" in str(engine.fault)


@pytest.mark.parametrize(("code", "kind"), [(1, LoginRefused), (2, ConnectError), (4, ConnectError)])
def test_outcome_of_the_login_shows_whether_another_attempt_helps(code: int, kind: type[Exception]) -> None:
    engine = begun()
    engine.receive(mechanisms("PLAIN"), 0.0)
    assert b"\0guest\0guest" in engine.take_output()
    engine.receive(frame(0, encode(spec.SASL_OUTCOME, code=code), spec.FRAME_SASL), 0.0)
    assert type(engine.fault) is kind


def test_malformed_frame_breaks_the_connection_off() -> None:
    engine = begun()
    engine.receive(SASL_HEADER + b"\x00\x00\x00\x07\x02\x01\x00\x00", 0.0)
    assert engine.fault is not None
    assert "the broker broke the protocol: a frame of 7 bytes" in str(engine.fault)
