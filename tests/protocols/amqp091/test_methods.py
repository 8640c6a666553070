"""Methods: each one cut short, too long, and in each state; their audit records and handlers.

Methods that change the topology are recorded in the audit log, and others are not.
"""

from __future__ import annotations

import json

import pytest

from penstock.connections.peer import Peer
from penstock.protocols.amqp091.methods import Malformed
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, decode_method, encode_method, frame, method_frame
from penstock.wire.amqp091.spec import METHODS, MethodSpec, ReplyCode
from tests.support.amqp091_frames import closes
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of, refused

FILLED: dict[str, object] = {"shortstr": "text", "longstr": b"octets", "table": {"a": 1, "b": {"c": [None, "d"]}}}
"""A value for each type of field that has a size of its own."""


def octets_of(method: MethodSpec) -> bytes:
    """Its payload with a value in each field that may be empty."""
    return encode_method(method.id, **{name: FILLED[kind] for name, kind in method.fields if kind in FILLED})


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_truncated_method_is_501_and_named(method: MethodSpec) -> None:
    driver = make_driver()
    neighbour = Dialogue(driver)
    payload = octets_of(method)
    for size in range(4, len(payload)):
        (close,) = closes(Dialogue(driver).say(frame(spec.FRAME_METHOD, 1, payload[:size])))
        assert (close.name, close.args["reply_code"]) == ("connection.close", 501), payload[:size]
        assert str(close.args["reply_text"]).startswith(f"FRAME_ERROR - {method.name}: ")
        assert (int(str(close.args["class_id"])) << 16 | int(str(close.args["method_id"]))) == method.id
    assert neighbour.names(frame(spec.FRAME_METHOD, 1, encode_method(spec.BASIC_QOS))) == ["basic.qos-ok"]


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_method_with_a_byte_too_many_is_501(method: MethodSpec) -> None:
    (close,) = closes(Dialogue(make_driver()).say(frame(spec.FRAME_METHOD, 1, octets_of(method) + b"\0")))
    assert close.args["reply_code"] == 501
    assert close.args["reply_text"] == f"FRAME_ERROR - {method.name} has 1 bytes too many"


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_method_out_of_turn_before_the_connection_is_open_ends_the_connection(method: MethodSpec) -> None:
    driver = make_driver()
    for channel in (0, 1):
        connection = driver.connect(Peer("127.0.0.1:1", True))
        connection.receive(b"AMQP\x00\x00\x09\x01" + frame(spec.FRAME_METHOD, channel, octets_of(method)))
        methods = [decode_method(payload) for _, _, payload in cut(output_of(connection))]
        assert methods[0].id == spec.CONNECTION_START
        said = methods[-1]
        if channel == 0 and method.id == spec.CONNECTION_CLOSE:
            assert said.id == spec.CONNECTION_CLOSE_OK
        else:
            assert (said.id, said.args["reply_code"]) == (spec.CONNECTION_CLOSE, 503)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_method_on_the_wrong_channel_is_504(
    method: MethodSpec,
) -> None:
    driver = make_driver()
    answered = {spec.CONNECTION_CLOSE, spec.CONNECTION_UPDATE_SECRET}
    for channel, fine in ((0, answered), (7, {spec.CHANNEL_OPEN})):
        found = closes(Dialogue(driver).say(frame(spec.FRAME_METHOD, channel, octets_of(method))))
        if method.id in fine:
            assert found == []
        else:
            assert [(close.name, close.args["reply_code"]) for close in found] == [("connection.close", 504)]


def test_bytes_behind_a_close_are_ignored() -> None:
    dialogue = Dialogue(make_driver())
    declare = frame(spec.FRAME_METHOD, 1, encode_method(spec.QUEUE_DECLARE, queue="q"))
    said = dialogue.names(frame(spec.FRAME_METHOD, 1, b"\0\x32\0\x0a") + declare * 3)
    assert said == ["connection.close"]
    assert dialogue.vhost.queues == {}


def test_malformed_bytes_close_the_connection_with_code_and_reason_of_the_codec() -> None:
    error = Malformed(CodecError("a table is cut short", ReplyCode.SYNTAX_ERROR))
    assert (error.code, error.closes, error.reply_text) == (502, "connection", "SYNTAX_ERROR - a table is cut short")


@pytest.fixture
def driver():
    driver = make_driver()
    driver.audit.enabled = True
    return driver


@pytest.fixture
def dialogue(driver):
    dialogue = Dialogue(driver)
    driver.audit.take()
    return dialogue


def call(dialogue, method, **args):
    dialogue.names(method_frame(1, method, **args))


def changes(driver):
    return [(r["operation"], r["subject"]) for r in driver.audit.take() if r["event"] == "change"]


def test_method_that_changes_the_topology_is_recorded_once(driver, dialogue):
    bound = {"queue": "q", "exchange": "e", "routing_key": "k"}
    joined = {"source": "e", "destination": "amq.fanout", "routing_key": "k"}
    for method, args, subject in (
        (spec.QUEUE_DECLARE, {"queue": "q", "durable": True}, "q"),
        (spec.EXCHANGE_DECLARE, {"exchange": "e", "type": "direct"}, "e"),
        (spec.QUEUE_BIND, bound, "q"),
        (spec.EXCHANGE_BIND, joined, "amq.fanout"),
    ):
        for expected in ([(spec.METHODS[method].name, subject)], []):  # The second time nothing changes.
            call(dialogue, method, **args)
            assert changes(driver) == expected
    for method, args, subject in (
        (spec.EXCHANGE_UNBIND, joined, "amq.fanout"),
        (spec.QUEUE_UNBIND, bound, "q"),
        (spec.EXCHANGE_DELETE, {"exchange": "e"}, "e"),
        (spec.QUEUE_DELETE, {"queue": "q"}, "q"),
    ):
        for expected in ([(spec.METHODS[method].name, subject)], []):
            call(dialogue, method, **args)
            assert changes(driver) == expected


def test_deleted_queue_is_recorded_with_the_last_state(driver, dialogue):
    call(dialogue, spec.QUEUE_DECLARE, queue="q", durable=True, arguments={"x-max-length": 5})
    call(dialogue, spec.QUEUE_DELETE, queue="q")
    deleted = driver.audit.take()[-1]
    assert json.loads(deleted["before"]) == {"durable": True, "arguments": {"x-max-length": 5}}


def test_queue_without_a_name_is_recorded_with_the_assigned_name(driver, dialogue):
    call(dialogue, spec.QUEUE_DECLARE, queue="")
    ((operation, subject),) = changes(driver)
    assert operation == "queue.declare"
    assert subject.startswith("amq.gen-")


def test_purge_is_recorded_and_reading_is_not(driver, dialogue):
    call(dialogue, spec.QUEUE_DECLARE, queue="q")
    driver.audit.take()
    call(dialogue, spec.QUEUE_PURGE, queue="q")
    assert changes(driver) == [("queue.purge", "q")]
    call(dialogue, spec.QUEUE_DECLARE, queue="q", passive=True)
    call(dialogue, spec.BASIC_GET, queue="q")
    assert changes(driver) == []


def test_dispatch_opens_and_closes_a_channel() -> None:
    client = Dialogue(make_driver())
    assert client.names(method_frame(7, spec.CHANNEL_OPEN)) == ["channel.open-ok"]
    close = method_frame(7, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert client.names(close) == ["channel.close-ok"]
    assert client.names(method_frame(7, spec.CHANNEL_OPEN)) == ["channel.open-ok"]


def test_dispatch_ends_the_connection_for_an_already_open_channel() -> None:
    name, code, _ = refused(Dialogue(make_driver()), method_frame(1, spec.CHANNEL_OPEN))
    assert (name, code) == ("connection.close", 504)


def test_dispatch_closes_only_the_channel_of_an_error_that_names_a_method() -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    (frame,) = client.say(method_frame(1, spec.BASIC_CONSUME, queue="none"))
    close = decode_method(frame[2])
    assert (close.name, close.args["reply_code"]) == ("channel.close", 404)
    assert (close.args["class_id"], close.args["method_id"]) == (spec.BASIC_CONSUME >> 16, spec.BASIC_CONSUME & 0xFFFF)
    assert client.names(method_frame(2, spec.QUEUE_DECLARE, queue="q")) == ["queue.declare-ok"]
