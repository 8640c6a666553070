"""Trace spans of waits: one for each traced publish that waited, with its gate and its outcome."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.management.hold_spans import READ_A_TURN, HoldSpan, HoldTracer, SpanCollector
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.block_encoder import encode_published
from tests.support.conversion_table import message
from tests.support.driven_connection import Dialogue, make_driver, publish

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
WALL = 1_000_000.0


class Spans(SpanCollector):
    """A collector that keeps them."""

    def __init__(self) -> None:
        self.found: list[HoldSpan] = []
        self.uncounted = 0

    @override
    def put(self, span: HoldSpan) -> None:
        self.found.append(span)

    @override
    def count_dropped(self, spans: int) -> None:
        self.uncounted += spans

    def outcomes(self) -> list[tuple[str, object, float, float]]:
        """Return name, outcome and times of each, in seconds of the broker's clock; forget them."""
        found = [
            (each.name, each.attributes["penstock.outcome"], each.start - WALL, each.end - WALL) for each in self.found
        ]
        self.found = []
        return found


def traced(parent: str = SAMPLED, **headers: object) -> Properties:
    return Properties(headers={"traceparent": parent, **headers})


class Traced:
    """A driver that traces, a queue with room for so many messages, and a publisher."""

    def __init__(self, room: int = 2, stop: int = 0, deadline: int = 10, confirms: bool = False) -> None:
        self.spans = Spans()
        self.driver: BrokerDriver = make_driver()
        self.driver.begin(100.0)
        self.driver.broker.wall_offset = WALL
        self.driver.tracer = HoldTracer(self.driver.broker, self.spans)
        self.user = Dialogue(self.driver)
        stops = {"stop_messages": stop, "resume_messages": 0} if stop else {}
        self.user.declare("q", capacity_messages=room, hold_deadline=deadline, **stops)
        self.client = Dialogue(self.driver)
        if confirms:
            self.client.confirm()

    def send(self, count: int, properties: Properties | None = None) -> None:
        self.client.say(publish("q", b"12345", properties=properties) * count)

    def take_one(self, now: float) -> None:
        self.driver.begin(now)
        self.user.say(method_frame(1, spec.BASIC_GET, queue="q", no_ack=True))
        self.user.listen(now)
        self.client.listen()

    def send_block(self, rows: int) -> None:
        """Publish a block whose rows have the context."""
        self.user.declare("answers")
        pairs = [("traceparent", SAMPLED)]
        data = encode_published([{"value": b"%d" % row, "headers": pairs} for row in range(rows)], {"routing_key": "q"})
        said = Properties(content_type="application/vnd.penstock.block", reply_to="answers", message_id="1")
        self.client.say(publish("publish.block", data, properties=said, exchange="penstock.control"))


def test_hold_has_one_span_with_its_times_its_gate_and_the_message() -> None:
    rig = Traced()
    rig.send(2)
    rig.driver.begin(101.0)
    rig.send(1, traced(tracestate="congo=1"))
    assert rig.spans.found == []
    rig.take_one(105.5)
    [span] = rig.spans.found
    assert (span.context.trace_id, span.context.parent_id, span.context.state) == (TRACE, PARENT, "congo=1")
    assert (span.name, span.start, span.end, span.failure) == ("hold q", WALL + 101.0, WALL + 105.5, "")
    assert span.attributes == {
        "messaging.system": "penstock",
        "messaging.operation.name": "hold",
        "messaging.destination.name": "q",
        "messaging.message.body.size": 5,
        "penstock.queues": ["q"],
        "penstock.vhost": "/",
        "penstock.producer": rig.client.connection.name() + "/ch:1",
        "penstock.gate.kind": "queue",
        "penstock.gate.name": "q",
        "penstock.outcome": "admitted",
    }


def test_publish_without_sampling_or_wait_has_no_span() -> None:
    rig = Traced(room=2)
    rig.send(2, traced())
    for properties in (None, traced(UNSAMPLED), traced("rubbish"), Properties(headers={"traceparent": 7})):
        rig.send(1, properties)
    for _ in range(6):
        rig.take_one(103.0)
    assert rig.spans.outcomes() == []


def test_publish_to_several_queues_is_named_by_its_exchange() -> None:
    rig = Traced()
    rig.user.declare("other", capacity_messages=2)
    for queue in ("q", "other"):
        rig.user.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange="amq.fanout"))
    rig.send(2)
    rig.client.say(publish("key", b"", properties=traced(), exchange="amq.fanout"))
    rig.take_one(101.0)
    [span] = rig.spans.found
    assert (span.name, span.attributes["messaging.destination.name"]) == ("hold amq.fanout:key", "amq.fanout:key")
    assert span.attributes["penstock.queues"] == ["q", "other"]


def test_hold_that_reaches_its_deadline_is_refused() -> None:
    rig = Traced(confirms=True)
    rig.send(2)
    rig.send(1, traced())
    rig.client.listen(110.5)
    [span] = rig.spans.found
    assert (span.attributes["penstock.outcome"], span.attributes["error.type"]) == ("refused", "deadline")
    assert "refused after its hold deadline of 10 s; queue 'q' holds 2 messages" in span.failure


def test_holds_behind_one_that_closes_its_channel_are_dropped() -> None:
    rig = Traced()
    rig.send(2)
    rig.send(1)
    rig.driver.begin(105.0)
    rig.send(1, traced())
    rig.client.listen(110.5)
    [span] = rig.spans.found
    assert (span.attributes["penstock.outcome"], span.attributes["error.type"]) == ("dropped", "session-closed")


def test_hold_ends_with_its_connection() -> None:
    rig = Traced()
    rig.send(2)
    rig.send(1, traced())
    rig.driver.begin(103.0)
    rig.driver.disconnect(rig.client.connection, "reset")
    rig.driver.run_turn()
    [span] = rig.spans.found
    assert (span.attributes["penstock.outcome"], span.attributes["error.type"]) == ("dropped", "reset")
    assert (span.end, span.failure) == (WALL + 103.0, "reset")


def test_publishes_of_a_held_commit_have_its_times() -> None:
    rig = Traced()
    rig.send(2)
    rig.user.say(method_frame(1, spec.TX_SELECT))
    rig.user.say(publish("q", b"a", properties=traced()) + publish("q", b"b") + publish("q", b"c", properties=traced()))
    rig.driver.begin(102.0)
    rig.user.say(method_frame(1, spec.TX_COMMIT))
    rig.driver.broker.vhosts["/"].queues["q"].purge(102.0)
    rig.user.listen(104.0)
    assert rig.spans.outcomes() == [], "three do not fit in two"
    again = Traced(room=3)
    again.send(3)
    again.user.say(method_frame(1, spec.TX_SELECT))
    again.user.say(publish("q", b"a", properties=traced()) + publish("q", b"b"))
    again.driver.begin(102.0)
    again.user.say(method_frame(1, spec.TX_COMMIT))
    assert again.spans.found == []
    again.driver.begin(104.0)
    again.driver.broker.vhosts["/"].queues["q"].purge(104.0)
    again.user.listen(104.0)
    assert again.spans.outcomes() == [("hold q", "admitted", 102.0, 104.0)]


def test_withheld_confirm_has_a_span_until_it_is_sent() -> None:
    rig = Traced(room=9, stop=2, confirms=True)
    rig.send(2)
    rig.driver.begin(101.0)
    rig.send(1, traced())
    rig.send(1, traced(UNSAMPLED))
    assert rig.spans.found == []
    for now in (102.0, 103.0, 104.0, 105.0):
        rig.take_one(now)
    [span] = rig.spans.found
    assert (span.name, span.start, span.end) == ("withhold q", WALL + 101.0, WALL + 105.0)
    assert span.attributes["messaging.operation.name"] == "withhold"
    assert (span.attributes["penstock.gate.kind"], span.attributes["penstock.gate.name"]) == ("queue", "q")
    assert span.attributes["penstock.outcome"] == "confirmed"


def test_confirms_that_are_withheld_in_one_turn_have_a_span_each() -> None:
    rig = Traced(room=9, stop=2, confirms=True)
    rig.send(6, traced())
    for _ in range(6):
        rig.take_one(105.0)
    assert {each[0] for each in rig.spans.outcomes()} == {"withhold q"}
    rig.send(1, traced())
    assert rig.spans.found == []


def test_withheld_confirm_at_its_deadline_is_late_and_of_an_ended_session_none() -> None:
    rig = Traced(room=9, stop=2, confirms=True)
    rig.send(2)
    rig.send(1, traced())
    rig.client.listen(110.5)
    assert rig.spans.outcomes() == [("withhold q", "confirmed-late", 100.0, 110.5)]
    other = Traced(room=9, stop=2, confirms=True)
    other.send(2)
    other.send(1, traced())
    other.driver.begin(103.0)
    other.driver.disconnect(other.client.connection)
    other.driver.run_turn()
    [span] = other.spans.found
    assert span.end == WALL + 103.0
    assert (span.attributes["penstock.outcome"], span.attributes["error.type"]) == ("unconfirmed", "unconfirmed")
    assert span.failure == "its session ended before the confirm"


def test_held_publish_that_passes_behind_a_closed_gate_has_both_spans() -> None:
    rig = Traced(room=3, stop=1, confirms=True)
    rig.send(3)
    rig.driver.begin(101.0)
    rig.send(3, traced())
    for now in (102.0, 103.0, 104.0):
        rig.take_one(now)
    assert rig.spans.outcomes() == [("hold q", "admitted", 101.0, 104.0)] * 2
    for now in (105.0, 106.0):
        rig.take_one(now)
    assert rig.spans.outcomes() == [("hold q", "admitted", 101.0, 106.0), ("withhold q", "confirmed", 104.0, 106.0)]


def test_row_of_a_block_that_waited_has_a_span() -> None:
    rig = Traced(room=2)
    rig.send_block(5)
    assert rig.spans.found == []
    rig.take_one(103.0)
    rig.take_one(104.0)
    assert rig.spans.outcomes() == [("hold q", "admitted", 100.0, 103.0), ("hold q", "admitted", 103.0, 104.0)]
    rig.client.listen(114.5)
    span = rig.spans.found[0]
    late = [("withhold q", "confirmed-late", start, 114.5) for start in (100.0, 103.0, 104.0)]
    assert rig.spans.outcomes() == [("hold q", "refused", 104.0, 114.5), *late]
    assert (span.start, span.end, span.context.parent_id) == (WALL + 104.0, WALL + 114.5, PARENT)
    assert (span.attributes["penstock.outcome"], span.attributes["error.type"]) == ("refused", "deadline")
    assert (span.attributes["messaging.message.body.size"], span.attributes["penstock.gate.name"]) == (1, "q")


def test_row_behind_a_closed_gate_has_a_span_until_its_block_is_confirmed() -> None:
    rig = Traced(room=5, stop=2)
    rig.send_block(4)
    assert rig.spans.found == []
    for _ in range(3):
        rig.take_one(101.0)
    assert rig.spans.found == []
    rig.take_one(102.0)
    assert rig.spans.outcomes() == [("withhold q", "confirmed", 100.0, 102.0)] * 2
    rig.send_block(4)
    rig.client.listen(112.5)
    assert rig.spans.outcomes() == [("withhold q", "confirmed-late", 102.0, 112.5)] * 2
    rig = Traced(room=5, stop=1)
    rig.send_block(2)
    rig.driver.disconnect(rig.client.connection)
    rig.driver.run_turn()
    assert rig.spans.outcomes() == [("withhold q", "unconfirmed", 100.0, 100.0)]


def test_dead_letter_that_waited_has_a_span_in_the_trace_of_its_message() -> None:
    rig = Traced(room=1)
    rig.user.declare("source", dead_letter_exchange="", dead_letter_routing_key="q")
    rig.send(1)
    for _ in range(2):
        rig.client.say(publish("source", b"letter", properties=traced()))
        rig.user.say(method_frame(1, spec.BASIC_GET, queue="source", no_ack=False))
    rig.driver.begin(101.0)
    rig.user.say(method_frame(1, spec.BASIC_REJECT, delivery_tag=1))
    rig.driver.begin(102.0)
    rig.user.say(method_frame(1, spec.BASIC_REJECT, delivery_tag=2))
    assert rig.spans.found == []
    rig.take_one(105.0)
    [span] = rig.spans.found
    assert (span.name, span.start, span.end, span.failure) == ("hold q", WALL + 101.0, WALL + 105.0, "")
    assert (span.context.trace_id, span.context.parent_id) == (TRACE, PARENT)
    assert span.attributes["penstock.producer"] == "vh(/)/qu(source)/dead-letters"
    rig.spans.found.clear()
    rig.client.listen(112.5)
    [span] = rig.spans.found
    assert (span.attributes["penstock.outcome"], span.attributes["error.type"]) == ("dropped", "deadline")
    assert span.failure.startswith("dead letter to exchange '' with routing key 'q' lost after its deadline;")


def test_publishes_of_a_commit_have_spans_while_its_confirm_is_withheld() -> None:
    rig = Traced(room=9, stop=2)
    rig.client.say(method_frame(1, spec.TX_SELECT))
    rig.send(2, traced())
    rig.send(1)
    rig.driver.begin(101.0)
    rig.client.say(method_frame(1, spec.TX_COMMIT))
    assert rig.spans.found == []
    for now in (102.0, 103.0, 104.0):
        rig.take_one(now)
    assert rig.spans.outcomes() == [("withhold q", "confirmed", 101.0, 104.0)] * 2


def test_turn_reads_so_many_messages_at_most() -> None:
    rig = Traced(room=2)
    rig.send(2)
    rig.send(READ_A_TURN + 3, traced())
    rig.driver.disconnect(rig.client.connection, "reset")
    rig.driver.run_turn()
    assert (len(rig.spans.found), rig.spans.uncounted) == (READ_A_TURN, 3)


@pytest.mark.parametrize("section", ["application", "annotations"])
def test_context_of_amqp_1_0_is_a_property_or_an_annotation(section: str) -> None:
    rig = Traced(room=9, stop=1)
    sender = Amqp10Dialogue(rig.driver)
    sender.attach_sender("/queues/q")
    trace: Any = {section: {"traceparent": SAMPLED}}
    sender.say(sender.transfer(message()), sender.transfer(message(**trace)))
    for now in (102.0, 103.0):
        rig.take_one(now)
    assert [each[:2] for each in rig.spans.outcomes()] == [("withhold q", "confirmed")]
