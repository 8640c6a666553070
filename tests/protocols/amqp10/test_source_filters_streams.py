"""Receivers of a stream over AMQP 1.0: the filter with the position, offsets as annotations, and outcomes."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Described, Symbol, Typed, timestamp
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section
from tests.support.memory_store import WALL
from tests.support.stored_driver import StoredDriver

SPEC = "rabbitmq:stream-offset-spec"


class Streams:
    """A client of a driver with a store, and the stream `s` with so many messages."""

    def __init__(self, messages: int = 0) -> None:
        self.stored = StoredDriver()
        self.client = Amqp10Dialogue(self.stored.driver)
        vhost = self.client.vhost
        vhost.declare_queue("s", {"x-queue-type": "stream"}, True, False, None, None)
        self.client.attach_sender("/queues/s")
        self.put(*[b"%d" % number for number in range(messages)])

    def put(self, *bodies: bytes) -> None:
        self.stored.settle()
        self.client.listen()
        self.client.say(*(self.client.transfer(data_section(body)) for body in bodies))
        self.stored.settle()
        self.client.listen()

    def receive(self, value: object, handle: int = 1, credit: int = 100, **fields: object) -> list[Heard]:
        chosen = None if value is None else {Symbol(SPEC): value}
        source = composite(spec.SOURCE, address="/queues/s", filter=chosen)
        heard = self.client.attach_receiver(None, handle, credit=credit, source=source, **fields)
        return heard + self.listen()

    def listen(self) -> list[Heard]:
        heard: list[Heard] = []
        for _ in range(5):
            self.stored.settle()
            heard += self.client.listen()
        return heard


def found(heard: list[Heard]) -> list[tuple[int, str]]:
    """Return the offset and the body of each transfer."""
    pairs = []
    for each in heard:
        if each.name == "transfer":
            at = each.payload.index(b"x-stream-offset") + len("x-stream-offset")
            code, small = each.payload[at], each.payload[at + 1]
            assert code in (0x44, 0x53), "a ulong"
            pairs.append((0 if code == 0x44 else small, each.payload.rsplit(b"\xa0", 1)[1][1:].decode()))
    return pairs


def numbered(first: int, end: int) -> list[tuple[int, str]]:
    return [(number, str(number)) for number in range(first, end)]


def described(value: object) -> Described:
    return Described(Symbol(SPEC), value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (described("first"), numbered(0, 6)),
        ("first", numbered(0, 6)),
        (described(Typed("ulong", 4)), numbered(4, 6)),
        (described(2), numbered(2, 6)),
        (described("next"), []),
        (None, []),
        (described("1h"), numbered(0, 6)),
        (described(timestamp(int(WALL * 1000))), numbered(0, 6)),
        (described(timestamp(int(WALL * 1000) + 10**9)), []),
    ],
)
def test_receiver_begins_where_its_filter_says(value: object, expected: list[tuple[int, str]]) -> None:
    streams = Streams(6)
    heard = streams.receive(value)
    assert found(heard) == expected
    granted = heard[0].performative.inner("source").mapping("filter")
    assert list(granted) == ([] if value is None else [Symbol(SPEC)])
    streams.put(b"6")
    assert found(streams.listen()) in ([(6, "6")], []), "it came while it was put"


@pytest.mark.parametrize("value", ["frist", -1, True, 1.5, ["first"]])
def test_invalid_position_is_refused(value: object) -> None:
    (_, detached) = Streams(1).receive(described(value))
    assert condition(detached) == "amqp:invalid-field"


@pytest.mark.parametrize("state", [spec.ACCEPTED, spec.REJECTED, spec.RELEASED, spec.MODIFIED])
def test_outcome_settles_and_removes_nothing(state: int) -> None:
    streams = Streams(3)
    assert found(streams.receive(described("first"), credit=2)) == numbered(0, 2)
    fields: dict[str, object] = {}
    if state == spec.MODIFIED:
        fields = {"delivery_failed": True, "undeliverable_here": True, "message_annotations": {Symbol("x-a"): 1}}
    streams.client.settle(0, 1, composite(state, **fields))
    assert streams.listen() == []
    assert found(streams.client.flow(1, 1, delivery_count=2) + streams.listen()) == numbered(2, 3)
    assert found(streams.receive(described("first"), 2)) == numbered(0, 3)


def test_settled_receiver_gets_settled_deliveries() -> None:
    streams = Streams(3)
    heard = streams.receive(described("first"), snd_settle_mode=1)
    assert found(heard) == numbered(0, 3)
    assert {each.field("settled") for each in heard if each.name == "transfer"} == {True}


def test_browser_of_a_stream_begins_at_the_first_message() -> None:
    streams = Streams(3)
    source = composite(spec.SOURCE, address="/queues/s", distribution_mode="copy")
    heard = streams.client.attach_receiver(None, 1, credit=10, source=source) + streams.listen()
    assert found(heard) == numbered(0, 3)
    assert heard[0].field("snd_settle_mode") != 1


def test_drain_of_a_receiver_ends_behind_the_last_message() -> None:
    streams = Streams(5)
    streams.receive(described("first"), credit=0)
    heard = streams.client.flow(1, 100, drain=True) + streams.listen()
    assert found(heard) == numbered(0, 5)
    (flow,) = [each for each in heard if each.name == "flow"]
    assert (flow.field("link_credit"), flow.field("delivery_count")) == (0, 100)


def test_filter_is_left_out_for_a_queue_that_is_no_stream() -> None:
    streams = Streams()
    streams.client.declare("q")
    source = composite(spec.SOURCE, address="/queues/q", filter={Symbol(SPEC): described("frist")})
    heard = streams.client.attach_receiver(None, 3, source=source)
    assert heard[0].performative.inner("source").mapping("filter") == {}


def test_message_of_0_9_1_has_its_offset_as_an_annotation() -> None:
    from penstock.wire.amqp091 import spec as spec091
    from penstock.wire.amqp091.codec import method_frame
    from tests.support.driven_connection import Dialogue, publish

    streams = Streams()
    other = Dialogue(streams.stored.driver)
    other.say(publish("s", b"x" * 10) + method_frame(1, spec091.CHANNEL_FLOW, active=True))
    streams.stored.settle()
    heard = streams.receive(described("first"))
    assert found(heard) == [(0, "x" * 10)]
