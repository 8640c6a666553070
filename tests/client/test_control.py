"""Control operations: the client's part against a scripted peer, the whole against Penstock."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client import (
    ChannelClosed,
    ClientError,
    Connection,
    ControlClient,
    ControlError,
    Properties,
    Publisher,
    Timeout,
)
from penstock.client.control import BLOCK_TYPE, CONTROL_REPLIES, ERROR_TYPE, JSON_TYPE, OUTSTANDING_MAX
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_properties
from tests.support.scripted_server import PATIENCE, Peer, played


class ControlPeer(Peer):
    """A peer with a control exchange."""

    def open_control(self) -> None:
        self.open_channel()
        declared = self.expect(spec.QUEUE_DECLARE).args
        assert (declared["queue"], declared["exclusive"]) == (CONTROL_REPLIES, True)
        self.say(spec.QUEUE_DECLARE_OK, queue="replies")
        consumed = self.expect(spec.BASIC_CONSUME).args
        assert (consumed["queue"], consumed["no_ack"]) == ("replies", True)
        self.say(spec.BASIC_CONSUME_OK, consumer_tag="c")

    def expect_request(self) -> tuple[str, dict[str, Any], str]:
        """The next request: operation, arguments and correlation id."""
        method = self.expect(spec.BASIC_PUBLISH)
        assert method.args["exchange"] == "penstock.control"
        _, properties = decode_properties(self.frame()[2])
        assert (properties.reply_to, properties.content_type) == ("replies", JSON_TYPE)
        assert properties.correlation_id is not None
        return str(method.args["routing_key"]), json.loads(self.frame()[2]), properties.correlation_id

    def answer(self, correlation_id: str, body: object, content_type: str = JSON_TYPE) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.deliver(data, Properties(content_type=content_type, correlation_id=correlation_id))


def asking(script: Callable[[ControlPeer], None], use: Callable[[ControlClient], None]) -> None:
    def whole(peer: Peer) -> None:
        control = ControlPeer(peer.socket)
        control.open_control()
        script(control)
        control.hear_goodbye()

    with played(whole) as where, Connection(where) as connection:
        use(ControlClient(connection, timeout=PATIENCE))


def test_request_is_json_and_so_is_its_answer() -> None:
    def script(peer: ControlPeer) -> None:
        operation, arguments, correlation_id = peer.expect_request()
        assert (operation, arguments) == ("why", {"queue": "größe"})
        peer.answer(correlation_id, {"sentences": ["…"]})

    asking(script, lambda control: _equal(control.why("größe"), {"sentences": ["…"]}))


def _equal(found: object, expected: object) -> None:
    assert found == expected


def test_answers_find_their_questions_in_any_order() -> None:
    def script(peer: ControlPeer) -> None:
        ids = [peer.expect_request()[2] for _ in range(3)]
        for correlation_id in reversed(ids):
            peer.answer(correlation_id, {"to": correlation_id})

    def use(control: ControlClient) -> None:
        ids = [control.send("status", {}) for _ in range(3)]
        assert [control.receive(each) for each in ids] == [{"to": each} for each in ids]

    asking(script, use)


def test_refusal_is_an_error_with_its_code_name_and_text() -> None:
    def script(peer: ControlPeer) -> None:
        refusal = {"code": 409, "name": "fenced", "text": "A newer holder took over."}
        peer.answer(peer.expect_request()[2], refusal, ERROR_TYPE)

    def use(control: ControlClient) -> None:
        with pytest.raises(ControlError) as caught:
            control.settle("c", 1, {"q": 5})
        assert (caught.value.code, caught.value.name) == (409, "fenced")
        assert str(caught.value) == "A newer holder took over. (409 fenced)"

    asking(script, use)


def test_block_comes_as_a_view_and_several_may_be_on_their_way() -> None:
    def script(peer: ControlPeer) -> None:
        first, second = peer.expect_request(), peer.expect_request()
        assert first[:2] == (
            "cursor.range",
            {"cursor": "c", "token": 7, "queue": "q", "lo": 0, "hi": 10, "rows": 5, "bytes": 100},
        )
        peer.answer(first[2], b"PSB1 one", BLOCK_TYPE)
        peer.answer(second[2], b"PSB1 two", BLOCK_TYPE)

    def use(control: ControlClient) -> None:
        first = control.send_range("c", 7, "q", 0, 10, rows=5, bytes=100)
        second = control.send_range("c", 7, "q", 5, 10, rows=5, bytes=100)
        assert bytes(control.receive_block(first)) == b"PSB1 one"
        assert bytes(control.receive_block(second)) == b"PSB1 two"

    asking(script, use)


def test_plan_may_take_as_long_as_it_was_told_to_wait() -> None:
    def script(peer: ControlPeer) -> None:
        operation, arguments, correlation_id = peer.expect_request()
        assert (operation, arguments["wait_ms"], arguments["rows"], arguments["settle"]) == (
            "cursor.plan",
            1500,
            None,
            {"q": 1},
        )
        peer.answer(correlation_id, {"end": {"q": 5}, "tail": {"q": 9}, "rows": 4, "bytes": 400, "later": "field"})

    def use(control: ControlClient) -> None:
        plan = control.plan("c", 7, {"q": 1}, settle={"q": 1}, wait_ms=1500)
        assert plan == ({"q": 5}, {"q": 9}, 4, 400)

    asking(script, use)


def test_after_a_time_out_the_answer_may_be_waited_for_again_or_forgotten() -> None:
    def script(peer: ControlPeer) -> None:
        ids = [peer.expect_request()[2] for _ in range(3)]
        for correlation_id in ids:
            peer.answer(correlation_id, {"to": correlation_id})

    def use(control: ControlClient) -> None:
        first, second = control.send("status", {}), control.send("status", {})
        with pytest.raises(Timeout, match=f"no answer to control request {first}"):
            control.receive(first, 0)
        control.forget(second)
        assert control.status() == {"to": "3"}
        assert control.receive(first) == {"to": first}
        with pytest.raises(ClientError, match="no control request 2"):
            control.receive(second)

    asking(script, use)


def test_requests_without_an_answer_are_bounded() -> None:
    def use(control: ControlClient) -> None:
        for _ in range(OUTSTANDING_MAX):
            control.send("status", {})
        with pytest.raises(ClientError, match="64 control requests"):
            control.send("status", {})

    asking(lambda peer: None, use)


def test_broker_without_the_control_exchange_is_told_at_once() -> None:
    def script(peer: ControlPeer) -> None:
        peer.expect_request()
        peer.say(spec.CHANNEL_CLOSE, reply_code=404, reply_text="NOT_FOUND - no exchange 'penstock.control'")

    def use(control: ControlClient) -> None:
        with pytest.raises(ChannelClosed, match=r"penstock\.control"):
            control.status()

    asking(script, use)


def test_reply_queue_that_is_gone_is_told_at_once() -> None:
    def script(peer: ControlPeer) -> None:
        peer.expect_request()
        peer.say(spec.BASIC_CANCEL, consumer_tag="c")

    def use(control: ControlClient) -> None:
        with pytest.raises(ChannelClosed, match="the reply queue replies was deleted"):
            control.status()

    asking(script, use)


@pytest.mark.parametrize(
    ("content_type", "what"), [("text/html", "text/html"), (BLOCK_TYPE, "a block where an object")]
)
def test_answer_of_the_wrong_kind_is_refused(content_type: str, what: str) -> None:
    def script(peer: ControlPeer) -> None:
        peer.answer(peer.expect_request()[2], b"<html>", content_type)

    def use(control: ControlClient) -> None:
        with pytest.raises(ClientError, match=what):
            control.status()

    asking(script, use)


# -- Penstock ------------------------------------------------------------------------------------------------------


def header_of(block: memoryview) -> dict[str, Any]:
    assert bytes(block[:4]) == b"PSB1"
    size = int.from_bytes(block[4:8], "little")
    found: dict[str, Any] = json.loads(bytes(block[8 : 8 + size]))
    return found


def test_cursor_is_attached_planned_read_settled_and_deleted(penstock_connection: Connection) -> None:
    channel = penstock_connection.channel()
    queue, _, _ = channel.queue_declare("test.client.cursor")
    publisher = Publisher(penstock_connection, "", queue)
    publisher.publish(b"%d" % number for number in range(100))
    assert publisher.wait(PATIENCE).done
    control = ControlClient(penstock_connection)
    try:
        attached = control.attach("test.client", [queue])
        assert (attached.created, attached.initial, attached.tail) == (True, {queue: 0}, {queue: 100})
        plan = control.plan("test.client", attached.token, attached.initial, rows=60)
        assert (plan.end, plan.rows) == ({queue: 60}, 60)
        first = control.send_range("test.client", attached.token, queue, 0, 60, rows=40, bytes=1 << 20)
        second = control.send_range("test.client", attached.token, queue, 40, 60, rows=40, bytes=1 << 20)
        headers = [header_of(control.receive_block(each)) for each in (first, second)]
        assert [(each["rows"], each["first"], each["last"]) for each in headers] == [(40, 1, 40), (20, 41, 60)]
        assert control.settle("test.client", attached.token, plan.end) == {queue: 60}
        newer = control.attach("test.client", [queue])
        assert (newer.created, newer.initial, newer.settled) == (False, {queue: 0}, {queue: 60})
        with pytest.raises(ControlError) as caught:
            control.settle("test.client", attached.token, {queue: 70})
        assert (caught.value.code, caught.value.name) == (409, "fenced")
        control.delete_cursor("test.client")
    finally:
        penstock_connection.channel().queue_delete(queue)


def test_why_and_status_answer_for_a_real_queue(penstock_connection: Connection) -> None:
    channel = penstock_connection.channel()
    queue, _, _ = channel.queue_declare(exclusive=True)
    with ControlClient(penstock_connection) as control:
        why = control.why(queue)
        assert why["queue"] == queue
        assert why["sentences"]
        assert control.status()


def test_queue_that_is_none_is_not_found(penstock_connection: Connection) -> None:
    with ControlClient(penstock_connection) as control:
        with pytest.raises(ControlError) as caught:
            control.why("test.client.no-such-queue")
        assert (caught.value.code, caught.value.name) == (404, "not-found")


def test_operation_that_is_none_is_refused(penstock_connection: Connection) -> None:
    with ControlClient(penstock_connection) as control, pytest.raises(ControlError, match=r"no\.such\.operation"):
        control.request("no.such.operation", {})
