"""Blocks that clients publish: accepted rows, the time of the answer, and bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.connections.control_request import BLOCK_OCTETS
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import SHARE
from penstock.protocols.amqp091.content_frames import body_of, properties_of
from penstock.ranges.blocks import CONTENT_TYPE
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.block_encoder import encode_published
from tests.support.control_requests import answers, request
from tests.support.driven_connection import Dialogue, drain, make_driver, methods, publish
from tests.support.setting_values import in_bytes

MOST_A_STEP = 300
"""Units by which the last step of a turn may pass the share."""


def block(data: bytes, number: str = "1") -> bytes:
    """Return the request with a block."""
    properties = Properties(
        content_type="application/vnd.penstock.block", reply_to="answers", correlation_id=number, message_id=number
    )
    return publish("publish.block", data, properties=properties, exchange="penstock.control")


def bodies(first: int, last: int) -> list[dict[str, object]]:
    return [{"value": b"%d" % number} for number in range(first, last)]


class Sink:
    """A driver with a queue and one client that publishes blocks."""

    def __init__(self, **arguments: object) -> None:
        self.driver: BrokerDriver = make_driver()
        self.vhost = self.driver.broker.vhosts["/"]
        self.client = Dialogue(self.driver)
        self.client.declare("answers")
        self.client.declare("q", **arguments)
        self.read = 0

    def send(self, rows: list[dict[str, object]], queue: str = "q", **fields: object) -> list[Any]:
        """Publish rows to a queue; return the answers that came at once."""
        self.client.say(block(encode_published(rows, {"routing_key": queue}, **fields)))
        return self.heard()

    def heard(self) -> list[Any]:
        found = answers(self.driver)[self.read :]
        self.read += len(found)
        return found

    def later(self, seconds: float) -> list[Any]:
        self.client.listen(self.driver.broker.now + seconds)
        return self.heard()

    def take(self, count: int, queue: str = "q") -> list[bytes]:
        """Consume messages from a queue."""
        session = self.client.connection.engine.channels[1]
        found = []
        for _ in range(count):
            got = session.get(self.vhost.queues[queue], True, self.driver.broker.now)
            found += [body_of(message.content) for message in got.messages if message is not None]
        self.client.listen()
        return found

    def held(self, queue: str = "q") -> list[bytes]:
        return [body_of(message.content) for message in self.vhost.queues[queue].ready_queue.messages()]


@pytest.fixture
def sink() -> Sink:
    return Sink()


def test_rows_of_a_block_are_messages_with_properties(sink: Sink) -> None:
    rows: list[dict[str, object]] = [
        {"value": b"one", "message_id": "a", "priority": 3, "headers": [("x", b"y"), ("n", None), ("o", b"\xff")]},
        {"value": b"", "message_timestamp": -1, "type": "t", "headers_json": '{"n":1}', "headers": [("x", b"y")]},
        {"value": b"three", "delivery_mode": 2, "expiration": "60000", "app_id": "é", "content_encoding": "gzip"},
    ]
    assert sink.send(rows) == [{"rows": 3, "taken": 3}]
    assert sink.held() == [b"one", b"", b"three"]
    found = [properties_of(message.content) for message in sink.vhost.queues["q"].ready_queue.messages()]
    assert found == [
        Properties(message_id="a", priority=3, headers={"x": "y", "n": None, "o": b"\xff"}),
        Properties(timestamp=(1 << 64) - 1, type="t", headers={"n": 1}),
        Properties(delivery_mode=2, expiration="60000", app_id="é", content_encoding="gzip"),
    ]
    last = list(sink.vhost.queues["q"].ready_queue.messages())[2]
    assert last.envelope.ttl_s == 60


def test_answer_has_the_correlation_of_the_request(sink: Sink) -> None:
    sink.client.say(block(encode_published(bodies(0, 2), {"routing_key": "q"}), "seven"))
    (message,) = sink.vhost.queues["answers"].ready_queue.messages()
    assert properties_of(message.content) == Properties(content_type="application/json", correlation_id="seven")


def test_rows_go_where_single_publishes_go(sink: Sink) -> None:
    sink.client.declare("other")
    for exchange, kind in (("t", "topic"), ("h", "headers")):
        sink.client.say(method_frame(1, spec.EXCHANGE_DECLARE, exchange=exchange, type=kind))
    bind = {"queue": "q", "exchange": "t", "routing_key": "a.*"}
    sink.client.say(method_frame(1, spec.QUEUE_BIND, **bind))
    sink.client.say(method_frame(1, spec.QUEUE_BIND, **{**bind, "queue": "other", "routing_key": "*.b"}))
    by_headers = {"queue": "q", "exchange": "h", "routing_key": "", "arguments": {"kind": "x"}}
    sink.client.say(method_frame(1, spec.QUEUE_BIND, **by_headers))
    rows: list[dict[str, object]] = [
        {"value": b"both", "exchange": "t", "routing_key": "a.b"},
        {"value": b"one", "exchange": "t", "routing_key": "a.c"},
        {"value": b"default", "routing_key": "other"},
        {"value": b"headers", "exchange": "h", "headers": [("kind", b"x")]},
        {"value": b"copied", "routing_key": "q", "headers_json": '{"CC":["other"],"x":1}'},
        {"value": b"blind", "routing_key": "q", "headers_json": '{"BCC":["other"],"x":1}'},
    ]
    sink.client.say(block(encode_published(rows)))
    assert sink.heard() == [{"rows": 6, "taken": 6}]
    assert sink.held("q") == [b"both", b"one", b"headers", b"copied", b"blind"]
    assert sink.held("other") == [b"both", b"default", b"copied", b"blind"]
    blind = list(sink.vhost.queues["q"].ready_queue.messages())[4]
    assert properties_of(blind.content).headers == {"x": 1}, "BCC is removed"


def test_blocks_that_wait_for_the_memory_limit_do_not_fill_the_limit() -> None:
    """A block of more octets than the limit passes as its rows are consumed, though no other client makes room."""
    sink = Sink(**{"hold-deadline": 0})
    limit = in_bytes(20_000, 16_000, 14_000)
    sink.driver.broker.gates.set_memory_capacity(limit, 0)
    rows: list[dict[str, object]] = [{"value": bytes(1_000)}] * 40
    assert sink.send(rows) == []
    memory = sink.driver.broker.gates.memory
    assert not memory.gate.open
    taken = 0
    while not (answer := sink.heard()):
        assert memory.bytes <= limit.capacity.bytes
        assert sink.held(), "nothing is in the queue, and nothing comes"
        taken += len(sink.take(len(sink.held())))
    assert answer == [{"rows": 40, "taken": 40}]
    assert taken + len(sink.held()) == 40


def test_row_that_reaches_no_queue_ends_the_block_after_earlier_rows(sink: Sink) -> None:
    rows = [{"value": b"1", "routing_key": "q"}, {"value": b"2", "routing_key": "none"}, {"value": b"3"}]
    sink.client.say(block(encode_published(rows)))
    (answer,) = sink.heard()
    assert answer["taken"] == 1
    assert answer["cause"] == "unroutable"
    assert answer["retriable"] is False
    assert answer["text"] == "exchange '' with routing key 'none' reaches no queue"
    assert sink.held() == [b"1"]


@pytest.mark.parametrize(
    ("row", "code", "text"),
    [
        ({"value": None}, 406, "column value: row 1 is null"),
        ({"value": b"", "message_id": "x" * 256}, 406, "column message_id: row 1 has 256 bytes; the most is 255"),
        ({"value": b"", "priority": 256}, 406, "column priority: row 1 has 256; it must be 0 to 255"),
        ({"value": b"", "expiration": "soon"}, 406, "invalid expiration 'soon'"),
        ({"value": b"", "user_id": "mallory"}, 406, "row 1: user_id property set to 'mallory' but authenticated user"),
        ({"value": b"", "reply_to": "amq.rabbitmq.reply-to"}, 406, "row 1: fast reply consumer does not exist"),
        ({"value": b"", "exchange": "none"}, 404, "no exchange 'none'"),
        ({"value": b"", "exchange": "penstock.control"}, 403, "row 1 is a control operation"),
        ({"value": b"", "headers_json": "[1]"}, 406, "column headers_json: row 1 is not a JSON object"),
        ({"value": b"", "headers_json": '{"a":99999999999999999999}'}, 406, "row 1 has headers that cannot be sent"),
        ({"value": b"", "headers": [(None, b"")]}, 406, "column headers: row 1 has a header without a name"),
        ({"value": bytes(200_000)}, 311, "can never fit into queue 'q'"),
    ],
)
def test_row_that_cannot_be_a_message_ends_the_block(row: dict[str, object], code: int, text: str) -> None:
    sink = Sink(capacity_bytes=100_000)
    first = {"value": b"0", "routing_key": "q"}
    sink.client.say(block(encode_published([first, {"routing_key": "q", **row}, first])))
    (answer,) = sink.heard()
    assert (answer["taken"], answer["code"], answer["retriable"]) == (1, code, False)
    assert text in answer["text"]
    assert sink.held() == [b"0"]


def test_own_user_id_is_taken(sink: Sink) -> None:
    assert sink.send([{"value": b"", "user_id": "guest"}]) == [{"rows": 1, "taken": 1}]


def test_full_queue_holds_the_block_and_takes_the_rows_singly() -> None:
    sink = Sink(capacity_messages=5, stop_messages=4, resume_messages=2)
    assert sink.send(bodies(0, 8)) == []
    assert sink.held() == [b"0", b"1", b"2", b"3", b"4"]
    assert sink.take(2) == [b"0", b"1"]
    assert sink.heard() == []
    assert len(sink.held()) <= 5
    assert sink.take(1) == [b"2"], "the depth is at the resume threshold"
    assert len(sink.held()) == 5
    assert sink.heard() == [], "the gate is closed again behind the last row"
    assert sink.take(5) == [b"3", b"4", b"5", b"6", b"7"]
    assert sink.heard() == [{"rows": 8, "taken": 8}]


def test_answer_is_withheld_while_a_gate_behind_the_rows_is_closed() -> None:
    sink = Sink(capacity_messages=5, stop_messages=2, resume_messages=1)
    assert sink.send(bodies(0, 3)) == []
    assert len(sink.held()) == 3
    sink.take(1)
    assert sink.heard() == []
    sink.take(1)
    assert sink.heard() == [{"rows": 3, "taken": 3}]


def test_withheld_answer_comes_at_the_hold_deadline() -> None:
    sink = Sink(capacity_messages=5, stop_messages=2, resume_messages=1, hold_deadline=10)
    assert sink.send(bodies(0, 3)) == []
    assert sink.later(9.9) == []
    assert sink.later(0.2) == [{"rows": 3, "taken": 3}]


def test_hold_deadline_ends_the_block_at_the_row_that_waited() -> None:
    sink = Sink(capacity_messages=5, hold_deadline=10)
    assert sink.send(bodies(0, 8)) == []
    assert sink.later(9.9) == []
    (answer,) = sink.later(0.2)
    assert (answer["rows"], answer["taken"], answer["cause"], answer["retriable"]) == (8, 5, "deadline", True)
    assert "refused after its hold deadline of 10 s; queue 'q'" in answer["text"]
    assert sink.held() == [b"0", b"1", b"2", b"3", b"4"]
    drain(sink.driver, "q")
    assert sink.later(0) == []
    assert sink.send(bodies(5, 8)) == [{"rows": 3, "taken": 3}]


def test_answer_is_delivered_in_the_turns_of_the_confirm() -> None:
    sink = Sink(capacity_messages=5, stop_messages=2, resume_messages=1, hold_deadline=10)
    sink.client.say(method_frame(1, spec.BASIC_CONSUME, queue="answers", no_ack=True))
    sink.send(bodies(0, 3))
    frames = sink.client.listen(sink.driver.broker.now + 10.1)
    assert [payload for kind, _, payload in frames if kind == spec.FRAME_BODY] == [b'{"rows": 3, "taken": 3}']


def test_reject_policy_ends_the_block_after_the_rows_that_fit() -> None:
    sink = Sink(capacity_messages=5, overflow="reject")
    (answer,) = sink.send(bodies(0, 8))
    assert (answer["taken"], answer["cause"], answer["retriable"]) == (5, "reject", True)
    assert sink.held() == [b"0", b"1", b"2", b"3", b"4"]


def test_row_for_several_queues_enters_all_or_none() -> None:
    sink = Sink(capacity_messages=9)
    sink.client.declare("small", capacity_messages=2, overflow="reject")
    for queue in ("q", "small"):
        sink.client.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange="amq.fanout", routing_key=""))
    sink.client.say(block(encode_published(bodies(0, 4), {"exchange": "amq.fanout"})))
    (answer,) = sink.heard()
    assert (answer["taken"], answer["cause"]) == (2, "reject")
    assert sink.held() == sink.held("small") == [b"0", b"1"]


def test_blocks_of_a_connection_follow_each_other() -> None:
    sink = Sink(capacity_messages=3)
    for first in (0, 4, 8):
        assert sink.send(bodies(first, first + 4)) == []
    taken: list[bytes] = []
    while len(taken) < 12:
        taken += sink.take(1)
    assert taken == [b"%d" % number for number in range(12)]
    assert sink.heard() == [{"rows": 4, "taken": 4}] * 3


def test_block_and_channel_share_a_full_queue() -> None:
    sink = Sink(capacity_messages=2)
    other = Dialogue(sink.driver)
    other.confirm()
    sink.send(bodies(0, 50))
    for number in range(50):
        other.say(publish("q", b"c%d" % number))
    taken: list[bytes] = []
    for _ in range(40):
        assert len(sink.held()) <= 2
        taken += sink.take(1)
    of_channel = sum(body.startswith(b"c") for body in taken)
    assert 16 <= of_channel <= 22, "turns are shared by bytes"
    assert [body for body in taken if not body.startswith(b"c")] == [b"%d" % n for n in range(40 - of_channel)]


def test_block_is_taken_a_share_a_turn(sink: Sink) -> None:
    data = block(encode_published(bodies(0, 20_000), {"routing_key": "q"}))
    sink.driver.scheduler.begin_turn()
    sink.client.connection.receive(data)
    assert 0 < len(sink.held()) < 20_000
    turns = 0
    while not answers(sink.driver):
        before = int(sink.driver.broker.work.done)
        sink.driver.run_turn()
        assert int(sink.driver.broker.work.done) - before <= 2 * SHARE + MOST_A_STEP
        turns += 1
    assert turns >= 4
    assert len(sink.held()) == 20_000


@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_block_that_came_in_many_frames_is_read_as_a_whole(frame_max: int, sink: Sink) -> None:
    rows = [{"value": b"%06d" % number * 50} for number in range(2_000)]
    properties = Properties(content_type=CONTENT_TYPE, reply_to="answers")
    data = encode_published(rows, {"routing_key": "q"})
    exchange = "penstock.control"
    sink.client.say(publish("publish.block", data, properties=properties, exchange=exchange, frame_max=frame_max))
    assert sink.heard() == [{"rows": 2_000, "taken": 2_000}]
    assert sink.held() == [row["value"] for row in rows]


def test_progress_of_a_block_is_reported_if_requested() -> None:
    sink = Sink(capacity_messages=3)
    assert sink.send(bodies(0, 6), progress_ms=1000) == []
    sink.take(1)
    assert sink.heard() == [], "a second has not passed"
    sink.client.listen(sink.driver.broker.now + 1)
    sink.take(1)
    assert sink.heard() == [{"rows": 6, "taken": 5}]
    note = list(sink.vhost.queues["answers"].ready_queue.messages())[-1]
    assert properties_of(note.content).content_type == "application/vnd.penstock.progress+json"
    sink.take(3)
    assert sink.heard() == [{"rows": 6, "taken": 6}]


@pytest.mark.parametrize("goodbye", [True, False])
def test_end_of_the_connection_drops_rows_not_taken(goodbye: bool) -> None:
    sink = Sink(capacity_messages=3)
    publisher = Dialogue(sink.driver)
    publisher.say(block(encode_published(bodies(0, 6), {"routing_key": "q"})))
    publisher.say(block(encode_published(bodies(6, 9), {"routing_key": "q"})))
    assert sink.vhost.queues["q"].gate.blocked
    if goodbye:
        publisher.say(method_frame(0, spec.CONNECTION_CLOSE))
    else:
        sink.driver.disconnect(publisher.connection)
    sink.client.listen()
    assert not sink.vhost.queues["q"].gate.blocked
    assert sink.take(3) == [b"0", b"1", b"2"]
    assert sink.held() == []
    assert sink.heard() == []


def test_connection_with_too_many_bytes_of_blocks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(capacity_messages=2)
    big = [{"value": bytes(5_000_000)} for _ in range(3)]
    assert sink.send(big) == []
    assert sink.send(big) == []
    (answer,) = sink.send(big)
    assert answer["code"] == 506
    assert "hold 30,0" in answer["text"]
    assert "wait for an answer" in answer["text"]


def test_why_names_the_block_that_waits() -> None:
    sink = Sink(capacity_messages=3)
    sink.send(bodies(0, 6))
    sink.client.say(request("why", queue="q"))
    (answer,) = sink.heard()
    (blocked,) = answer["blocked"]
    assert "/blocks" in json.dumps(blocked)


def test_blocked_block_is_explained_to_the_connection_and_by_why() -> None:
    sink = Sink(capacity_messages=3, hold_deadline=20)
    publisher = Dialogue(sink.driver)
    frames = publisher.say(block(encode_published(bodies(0, 6), {"routing_key": "q"})))
    (notice,) = [method for method in methods(frames) if method.name == "connection.blocked"]
    assert "queue q: 3 messages > stop 2" in str(notice.args["reason"])
    sink.client.say(request("why", connection=str(publisher.connection.number)))
    (answer,) = sink.heard()
    assert "/blocks is blocked" in answer["sentences"][0]
    sink.take(3)
    sink.take(3)
    assert "connection.unblocked" in [method.name for method in methods(publisher.listen())]


@pytest.mark.parametrize(
    ("data", "properties", "code", "text"),
    [
        (b"", {}, 406, "a block begins with PSB1"),
        (b"PSB1\xff\xff\xff\xff", {}, 406, "the header of the block has 4,294,967,295 bytes"),
        (encode_published(bodies(0, 1), {}), {"content_type": "text/plain"}, 406, "a block has the content type"),
        (encode_published(bodies(0, 1), {}, mood="good"), {}, 406, "the block's header has a field 'mood'"),
        (bytes(BLOCK_OCTETS + 1), {}, 311, "the most is"),
    ],
)
def test_malformed_block_is_refused_and_closes_no_channel(
    data: bytes, properties: dict[str, Any], code: int, text: str, sink: Sink
) -> None:
    said = Properties(reply_to="answers", content_type=CONTENT_TYPE)
    for name, value in properties.items():
        setattr(said, name, value)
    sink.client.say(publish("publish.block", data, properties=said, exchange="penstock.control"))
    (answer,) = sink.heard()
    assert answer["code"] == code
    assert text in answer["text"]
    assert sink.send(bodies(0, 1)) == [{"rows": 1, "taken": 1}]
