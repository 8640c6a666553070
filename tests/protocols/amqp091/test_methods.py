"""Every method, cut at every octet, too long, on every channel and in every state: one close with the right code."""

from __future__ import annotations

import pytest

from penstock.protocols.common.peer import Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, encode_method, frame
from penstock.wire.amqp091.spec import METHODS, MethodSpec
from tests.support.driven_connection import Dialogue, cut, make_driver

FILLED: dict[str, object] = {"shortstr": "text", "longstr": b"octets", "table": {"a": 1, "b": {"c": [None, "d"]}}}
"""A value for each type of field that has a size of its own."""


def octets_of(method: MethodSpec) -> bytes:
    """Its payload with a value in each field that may be empty."""
    return encode_method(method.id, **{name: FILLED[kind] for name, kind in method.fields if kind in FILLED})


def closes(dialogue: Dialogue, data: bytes) -> list[Method]:
    """Which closes come for these octets."""
    found = [decode_method(payload) for kind, _, payload in dialogue.say(data) if kind == spec.FRAME_METHOD]
    return [method for method in found if method.name.endswith(".close")]


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_a_method_that_is_cut_short_is_501_and_names_itself(method: MethodSpec) -> None:
    driver = make_driver()
    neighbour = Dialogue(driver)
    payload = octets_of(method)
    for size in range(4, len(payload)):
        (close,) = closes(Dialogue(driver), frame(spec.FRAME_METHOD, 1, payload[:size]))
        assert (close.name, close.args["reply_code"]) == ("connection.close", 501), payload[:size]
        assert str(close.args["reply_text"]).startswith(f"FRAME_ERROR - {method.name}: ")
        assert (int(str(close.args["class_id"])) << 16 | int(str(close.args["method_id"]))) == method.id
    assert neighbour.names(frame(spec.FRAME_METHOD, 1, encode_method(spec.BASIC_QOS))) == ["basic.qos-ok"]


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_a_method_with_an_octet_too_many_is_501(method: MethodSpec) -> None:
    (close,) = closes(Dialogue(make_driver()), frame(spec.FRAME_METHOD, 1, octets_of(method) + b"\0"))
    assert close.args["reply_code"] == 501
    assert close.args["reply_text"] == f"FRAME_ERROR - {method.name} has 1 octets too many"


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_before_the_connection_is_open_every_method_but_the_next_one_ends_it(method: MethodSpec) -> None:
    driver = make_driver()
    for channel in (0, 1):
        connection = driver.connect(Peer("127.0.0.1:1", True))
        connection.receive(b"AMQP\x00\x00\x09\x01" + frame(spec.FRAME_METHOD, channel, octets_of(method)))
        methods = [decode_method(payload) for _, _, payload in cut(connection.take_output())]
        assert methods[0].id == spec.CONNECTION_START
        said = methods[-1]
        if channel == 0 and method.id == spec.CONNECTION_CLOSE:
            assert said.id == spec.CONNECTION_CLOSE_OK
        else:
            assert (said.id, said.args["reply_code"]) == (spec.CONNECTION_CLOSE, 503)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_on_channel_0_and_on_one_that_is_not_open_nothing_is_expected_but_what_belongs_there(
    method: MethodSpec,
) -> None:
    driver = make_driver()
    answered = {spec.CONNECTION_CLOSE, spec.CONNECTION_UPDATE_SECRET}
    for channel, fine in ((0, answered), (7, {spec.CHANNEL_OPEN})):
        found = closes(Dialogue(driver), frame(spec.FRAME_METHOD, channel, octets_of(method)))
        if method.id in fine:
            assert found == []
        else:
            assert [(close.name, close.args["reply_code"]) for close in found] == [("connection.close", 504)]


def test_octets_behind_a_close_are_not_acted_on() -> None:
    dialogue = Dialogue(make_driver())
    declare = frame(spec.FRAME_METHOD, 1, encode_method(spec.QUEUE_DECLARE, queue="q"))
    said = dialogue.names(frame(spec.FRAME_METHOD, 1, b"\0\x32\0\x0a") + declare * 3)
    assert said == ["connection.close"]
    assert dialogue.driver.broker.vhosts["/"].queues == {}
