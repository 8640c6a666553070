"""Receiver of AMQP 0-9-1 at a broker that counts messages only: its byte window, and its effect on a queue."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.engine.amqp091.receiver import Receiver091
from penstock.client.engine.events import WARNING
from penstock.client.engine.receiver import Delivery, ReceiverCore
from penstock.client.engine.terms import ReceiverTerms
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, frame, method_frame
from tests.client.engine.dialogues import opened_091, released
from tests.profiles import examples

HEAD = spec.CLASS_BASIC.to_bytes(2, "big") + bytes(2)
NO_PROPERTIES = bytes(2)


class CountingBroker:
    """One queue of a broker as RabbitMQ is: a prefetch is of the consumers that begin after it, and counts messages."""

    def __init__(self, sizes: list[int], prefetch: int, window: int) -> None:
        self.sizes = sizes
        self.ready = list(range(len(sizes)))
        """Numbers of messages, in order."""
        self.prefetch = 0
        self.consumers: dict[str, tuple[int, set[int]]] = {}
        """Prefetch and unsettled tags by consumer."""
        self.unsettled: dict[int, int] = {}
        """Numbers of messages by tag."""
        self.tag = 0
        self.returned: dict[int, int] = {}
        """How often each message was returned."""
        self.least_consumers = 1
        self.coming: deque[bytes] = deque()
        """What is under way to the client."""
        self.engine = opened_091()
        terms = ReceiverTerms("q", window_bytes=window, is_window_chosen=True, prefetch=prefetch)
        self.receiver: ReceiverCore = self.engine.receiver(terms)
        self.listen()

    def listen(self) -> None:
        """Read what the client has written."""
        octets = released(self.engine)
        while octets:
            size = int.from_bytes(octets[3:7], "big")
            self._hear(octets[7 : 7 + size])
            octets = octets[8 + size :]
        self._deliver()

    def _hear(self, payload: bytes) -> None:
        method = decode_method(payload)
        args = method.args
        if method.id == spec.CHANNEL_OPEN:
            self._say(spec.CHANNEL_OPEN_OK)
        elif method.id == spec.BASIC_QOS:
            self.prefetch = int(args["prefetch_count"])  # type: ignore[call-overload]
            self._say(spec.BASIC_QOS_OK)
        elif method.id == spec.BASIC_CONSUME:
            self.consumers[str(args["consumer_tag"])] = (self.prefetch, set())
            self._say(spec.BASIC_CONSUME_OK, consumer_tag=args["consumer_tag"])
        elif method.id == spec.BASIC_CANCEL:
            self.consumers.pop(str(args["consumer_tag"]))
            self.least_consumers = min(self.least_consumers, len(self.consumers))
            if not args["no_wait"]:
                self._say(spec.BASIC_CANCEL_OK, consumer_tag=args["consumer_tag"])
        else:
            assert method.id in (spec.BASIC_ACK, spec.BASIC_NACK)
            tag = int(args["delivery_tag"])  # type: ignore[call-overload]
            for each in [known for known in self.unsettled if known == tag or (args["multiple"] and known < tag)]:
                number = self.unsettled.pop(each)
                for _, tags in self.consumers.values():
                    tags.discard(each)
                if method.id == spec.BASIC_NACK:
                    assert args["requeue"]
                    self.returned[number] = self.returned.get(number, 0) + 1
                    self.ready = sorted([*self.ready, number])
        self._deliver()

    def _deliver(self) -> None:
        while self.ready:
            free = [(tag, held) for tag, (most, held) in self.consumers.items() if len(held) < most]
            if not free:
                return
            consumer, held = free[self.tag % len(free)]
            number = self.ready.pop(0)
            self.tag += 1
            held.add(self.tag)
            self.unsettled[self.tag] = number
            body = number.to_bytes(4, "big").ljust(self.sizes[number], b"x")
            self._say(spec.BASIC_DELIVER, consumer_tag=consumer, delivery_tag=self.tag, exchange="", routing_key="q")
            head = HEAD + len(body).to_bytes(8, "big") + NO_PROPERTIES
            self.coming[-1] += frame(spec.FRAME_HEADER, 1, head) + frame(spec.FRAME_BODY, 1, body)

    def _say(self, method: int, **arguments: object) -> None:
        self.coming.append(method_frame(1, method, **arguments))

    def pass_on(self, most: int) -> None:
        """Let the client read so much of what is under way, and hear what it writes then."""
        for _ in range(min(most, len(self.coming))):
            self.engine.receive(self.coming.popleft(), self.engine.now)
            assert self.engine.fault is None
            self.check()
        self.listen()

    def pass_all(self) -> None:
        """Pass on until nothing is under way."""
        self.listen()
        while self.coming:
            self.pass_on(len(self.coming))

    def check(self) -> None:
        """No more waits in the client than the window and one message."""
        bodies = [len(delivery.body) for delivery in self.receiver.ready]
        assert sum(bodies[:-1]) <= self.receiver.terms.window_bytes

    def take(self) -> Delivery | None:
        message = self.receiver.take_now()
        self.listen()
        return message


def number_of(message: Delivery) -> int:
    return int.from_bytes(message.body[:4], "big")


sizes = st.lists(st.sampled_from([4, 10, 60, 400, 3000]), min_size=1, max_size=120)


@given(sizes, st.sampled_from([1, 2, 7, 50, 0]), st.sampled_from([16, 100, 1000]), st.integers(0, 1 << 30))
@settings(max_examples=examples(400), deadline=None)
def test_window_is_kept_and_all_messages_come_once_and_in_order(
    sizes: list[int], prefetch: int, window: int, seed: int
) -> None:
    chance = Random(seed)
    broker = CountingBroker(sizes, prefetch, window)
    got: list[int] = []
    while len(got) < len(sizes):
        broker.pass_on(chance.choice([0, 1, 3, 1000]))
        for _ in range(chance.choice([0, 1, 4])):
            message = broker.take()
            if message is not None:
                got.append(number_of(message))
                message.accept()
        broker.receiver.flush()
        broker.listen()
    broker.pass_all()
    assert got == list(range(len(sizes)))
    assert broker.unsettled == {}
    assert broker.least_consumers >= 1, "a queue that is deleted with its last consumer stays"


@pytest.mark.parametrize("size", [100, 10_000])
def test_messages_of_the_same_size_are_never_returned(size: int) -> None:
    window = 100_000
    broker = CountingBroker([size] * 3000, 500, window)
    most = 0
    for number in range(3000):
        broker.pass_all()
        most = max(most, sum(len(each.body) for each in broker.receiver.ready))
        message = broker.take()
        assert message is not None
        assert number_of(message) == number
        message.accept()
    assert broker.returned == {}
    assert min(window, 500 * size) <= most <= window + size


def test_large_message_among_small_messages_returns_each_at_most_once() -> None:
    broker = CountingBroker([10] * 50 + [900] * 100 + [10] * 3000, 100, 1000)
    for number in range(3150):
        broker.pass_all()
        message = broker.take()
        assert message is not None
        assert number_of(message) == number
        message.accept()
    assert 0 < len(broker.returned) <= 100
    assert set(broker.returned.values()) == {1}
    assert next(iter(broker.consumers.values()))[0] == 100, "the prefetch grows again when the large ones are gone"


def test_drain_returns_messages_beyond_the_window_and_delivers_the_rest() -> None:
    broker = CountingBroker([10, *[400] * 30], 100, 1000)
    broker.pass_all()
    waiting = len(broker.receiver.ready)
    drain = broker.receiver.draining()
    next(drain)
    broker.listen()
    broker.pass_all()
    with pytest.raises(StopIteration):
        next(drain)
    assert len(broker.receiver.ready) == waiting
    assert sorted([*broker.ready, *broker.unsettled.values()]) == list(range(31))
    assert len(broker.unsettled) == waiting


def test_lost_connection_ends_the_return_of_messages_over_the_window() -> None:
    broker = CountingBroker([10, *[400] * 30], 100, 1000)
    broker.pass_all()
    receiver = broker.receiver
    assert isinstance(receiver, Receiver091)
    assert receiver.surplus
    assert receiver.turning is not None
    receiver.lose()
    assert (receiver.surplus, receiver.surplus_last, receiver.turning) == ([], 0, None)
    assert receiver.window is not None
    assert receiver.window.waiting == 0
    assert receiver.window.prefetch() == 2, "sizes stay known"


@pytest.mark.parametrize(
    ("terms", "what"),
    [
        ({"exclusive": True}, "an exclusive receiver"),
        ({"arguments": {"x-stream-offset": "next"}}, "a receiver with arguments"),
    ],
)
def test_receiver_with_a_permanent_consumer_warns_of_the_window(terms: dict[str, object], what: str) -> None:
    """A second exclusive consumer would be refused, and one of a stream would begin elsewhere."""
    engine = opened_091()
    engine.receiver(ReceiverTerms("q", window_bytes=1000, is_window_chosen=True, **terms))  # type: ignore[arg-type]
    (event,) = engine.events
    assert event.kind == WARNING
    assert event.reason == (
        f"consumerWindowSize=1000 is not kept: over AMQP 0-9-1 Other counts messages, and sends {what} "
        "1000 of any size in advance; set prefetch, or use AMQP 1.0"
    )
    assert method_frame(1, spec.BASIC_QOS, prefetch_count=1000) in released(engine)


def test_default_window_is_a_prefetch_of_messages() -> None:
    engine = opened_091()
    receiver = engine.receiver(ReceiverTerms("q"))
    assert method_frame(1, spec.BASIC_QOS, prefetch_count=1000) in released(engine)
    assert receiver.terms.window_bytes == 1024 * 1024
    assert list(engine.events) == []
