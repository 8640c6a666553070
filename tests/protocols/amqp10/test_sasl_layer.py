"""SASL layer: login with PLAIN, and refusals."""

from __future__ import annotations

from penstock.protocols.common.peer import Peer
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, decode_performative, encode_composite
from penstock.wire.amqp10.frames import SASL_HEADER, FrameSplitter, frame
from tests.support.amqp10_dialogue import login
from tests.support.driven_connection import make_driver


def outcome(data: bytes) -> int:
    """Send what a client says at the beginning, and return the code of the SASL outcome."""
    driver = make_driver()
    connection = driver.connect(Peer("127.0.0.1:1", True))
    connection.receive(data)
    driver.begin(driver.broker.now + 10)
    driver.run_turn()
    said = connection.take_output()
    assert said.startswith(SASL_HEADER)
    frames = FrameSplitter(512).feed(said[8:])
    assert connection.is_closed() == (len(frames) == 2 and decode_performative(frames[1].body)[0].number("code") != 0)
    return decode_performative(frames[-1].body)[0].number("code")


def test_right_password() -> None:
    assert outcome(login()) == 0


def test_wrong_password_is_refused() -> None:
    assert outcome(login("guest", "wrong")) == 1


def test_unknown_mechanism_is_refused() -> None:
    init = composite(spec.SASL_INIT, mechanism="GSSAPI", initial_response=b"")
    assert outcome(SASL_HEADER + frame(0, encode_composite(init), spec.FRAME_SASL)) == 1
