"""Receiver of AMQP 0-9-1: a channel with one consumer, or with a consumer for each requested message.

Theory of operation. A prefetch applies to consumers that begin after it. So a receiver that keeps a window by itself
(`BodyWindow`) changes its prefetch with another consumer: the new consumer begins before the old one is cancelled,
because a queue that is deleted with its last consumer must always have one. Bodies of messages over the window are
dropped here, and the messages stay unsettled (`surplus`). The new consumer then has a prefetch of one, and one message
in `surplus`, so no more messages arrive. When the program has taken all waiting messages, the surplus returns to its
queue, in order, and is delivered again.
"""

from __future__ import annotations

from typing import Final

from librt.strings import write_i32_be, write_i64_be
from mypy_extensions import i64

from penstock.client.engine.amqp091.body_window import BodyWindow
from penstock.client.engine.amqp091.channel import Channel, Channels
from penstock.client.engine.connection import Engine
from penstock.client.engine.events import WARNING, Event
from penstock.client.engine.outcomes import ConnectionLost
from penstock.client.engine.receiver import ACKS, REJECTED, Delivery, ReceiverCore
from penstock.client.engine.terms import ReceiverTerms
from penstock.client.engine.waits import Call, Steps
from penstock.client.errors import ChannelClosed, ReceiverClosed
from penstock.content.properties import COPIES, Properties
from penstock.markers import override
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method
from penstock.wire.amqp091.content_header import FIXED_OCTETS, HEADERS_FLAG, USER_ID, decode_properties

_ACK_START: Final = 0x010000_0000000D_00
"""Beginning of a method frame with 13 bytes of payload, without its channel."""
_USER_ID_FLAG: Final = 1 << (15 - USER_ID)
_COPIES: Final = tuple(bytes((len(name),)) + name.encode() for name in COPIES)
"""Names of headers by which a broker routes copies, as in a table."""


class ReceiverChannel(Channel):
    """Channel of a receiver."""

    def __init__(self, channels: Channels, receiver: Receiver091) -> None:
        super().__init__(channels, is_strict=True)
        self.receiver = receiver

    @override
    def on_message(self, body: bytes) -> None:
        self.receiver.delivered(self.tag, body, self.head, self.envelope)

    @override
    def on_cancel(self, tag: str) -> None:
        self.receiver.cancelled()

    @override
    def on_answer(self, method: Method) -> None:
        if method.id == spec.BASIC_CANCEL_OK:
            self.receiver.cancel_answered()
        elif method.id == spec.BASIC_QOS_OK:
            self.receiver.review_surplus()

    @override
    def on_close(self, error: ChannelClosed) -> None:
        self.receiver.end(ReceiverClosed(error.code, error.text))


class Receiver091(ReceiverCore):
    """Receiver with a channel of its own."""

    def __init__(self, engine: Engine, channels: Channels, terms: ReceiverTerms) -> None:
        super().__init__(engine, terms)
        if terms.selector or terms.browses:
            raise ValueError(f"a {'selector' if terms.selector else 'browser'} needs AMQP 1.0: basic.consume has none")
        self.channels = channels
        self.channel: Channel | None = None
        self.consumer: str = ""
        """Tag of the consumer; empty without one."""
        self.consumers: int = 0
        self.has_warned: bool = False
        self.floor: i64 = 0
        """Number up to which all messages are settled: a multiple acknowledgement covers all of them."""
        self.ahead: set[int] = set()
        """Settled numbers above `floor`."""
        self.window: BodyWindow | None = None
        """Window that the receiver keeps; None if the broker keeps one, or there is none."""
        self.prefetch: i64 = 1
        """Most unsettled messages of the consumer."""
        self.surplus: list[int] = []
        """Numbers of messages over the window, which return to their queue; at most as many as the prefetch."""
        self.surplus_last: i64 = 0
        """Number of the surplus message of the present consumer, which therefore gets no other; 0 for none.

        This message returns after the others. The next message then shows that all have returned: RabbitMQ handles
        acknowledgements before returned messages, and would send later messages first.
        """
        self.turning: Call | None = None
        """Request whose answer arrives after the last message of the consumer that sent more than the window.

        None while all messages are accepted.
        """

    @override
    def attach(self) -> None:
        """Open the channel and subscribe."""
        self.use(ReceiverChannel(self.channels, self))

    def use(self, channel: Channel) -> None:
        """Subscribe on a channel."""
        self.channel = channel
        self._choose_window()
        window = self.window
        self._write_prefetch(1 if self.pulls else self.terms.prefetch if window is None else window.prefetch())
        self.is_attached = True
        if self.pulls or self.is_draining:
            self.ask_available().then = self.attached
            if self.line and not self.is_draining:
                self.pull()
        else:
            self._consume(self.attached)
        self.engine.wake_output()

    def _choose_window(self) -> None:
        """Keep a requested window, if the broker does not; warn once if this is impossible."""
        terms, engine = self.terms, self.engine
        if not terms.is_window_chosen or terms.window_bytes <= 0 or engine.is_penstock():
            self.window = None
            return
        obstacle = self._window_obstacle()
        if not obstacle:
            if self.window is None:
                self.window = BodyWindow(terms.window_bytes, terms.prefetch)
        elif not self.has_warned:
            self.has_warned = True
            text = (
                f"consumerWindowSize={terms.window_bytes} is not kept: over AMQP 0-9-1 {engine.broker_name()} counts "
                f"messages, and sends {obstacle} {terms.prefetch} of any size in advance; set prefetch, or use AMQP 1.0"
            )
            engine.events.append(Event(WARNING, terms.queue, text))

    def _window_obstacle(self) -> str:
        """Return the kind of a receiver that cannot change its consumer; empty if it can.

        A return in a transaction waits for the commit. A second exclusive consumer is refused, and a consumer with
        arguments, such as an offset of a stream, may begin elsewhere.
        """
        if self.unit is not None:
            return "a receiver in a transaction"
        if self.terms.exclusive:
            return "an exclusive receiver"
        return "a receiver with arguments" if self.terms.arguments else ""

    def _write_prefetch(self, prefetch: i64) -> None:
        channel = self.channel
        assert channel is not None
        self.prefetch = prefetch
        if self.window is not None:
            self.threshold = max(1, min(ACKS, prefetch // 2))
        channel.expect(Call("basic.qos", (spec.BASIC_QOS_OK,)))
        channel.write(spec.BASIC_QOS, {"prefetch_count": int(prefetch)})

    def _consume(self, then: Call | None) -> None:
        channel = self.channel
        assert channel is not None
        self.consumers += 1
        self.consumer = f"{self.terms.name or 'receiver'}-{self.consumers}"
        arguments = dict(self.terms.arguments)
        if self.terms.window_bytes > 0 and self.engine.is_penstock():
            arguments["consumerWindowSize"] = self.terms.window_bytes
        call = Call("basic.consume", (spec.BASIC_CONSUME_OK,))
        call.then = then
        channel.expect(call)
        channel.write(
            spec.BASIC_CONSUME,
            {
                "queue": self.terms.queue,
                "consumer_tag": self.consumer,
                "exclusive": self.terms.exclusive,
                "arguments": arguments,
            },
        )

    @override
    def pull(self) -> None:
        if not self.consumer and self.channel is not None:
            self._consume(None)
            self.engine.wake_output()

    @override
    def stop(self) -> Call:
        call = Call("basic.cancel", (spec.BASIC_CANCEL_OK,))
        channel = self.channel
        if channel is None or not self.consumer:
            call.done = True
            return call
        channel.write(spec.BASIC_CANCEL, {"consumer_tag": self.consumer})
        self.consumer = ""
        self.engine.wake_output()
        return channel.expect(call)

    @override
    def ask_available(self) -> Call:
        call = Call("queue.declare", (spec.QUEUE_DECLARE_OK,))
        channel = self.channel
        if channel is None:
            self.engine.finish(call, ConnectionLost(None, self.engine.lost_reason))
            return call
        channel.write(spec.QUEUE_DECLARE, {"queue": self.terms.queue, "passive": True})
        self.engine.wake_output()
        return channel.expect(call)

    @override
    def getting(self) -> Steps[Delivery | None]:
        channel = self.channel
        if self.error is None and channel is not None and not self.ready:
            channel.write(spec.BASIC_GET, {"queue": self.terms.queue})
            call = channel.expect(Call("basic.get", (spec.BASIC_GET_OK, spec.BASIC_GET_EMPTY)))
            yield from self._asking(call)
        return self.take_now()

    def delivered(self, tag: i64, body: bytes, head: bytes, envelope: bytes) -> None:
        """Handle a message."""
        if self.pulls and self.consumer and self.channel is not None:
            self.channel.write(spec.BASIC_CANCEL, {"consumer_tag": self.consumer, "no_wait": True})
            self.consumer = ""
            self.engine.wake_output()
        window = self.window
        if window is not None:
            size: i64 = len(body)
            window.observe(size)
            if self.turning is not None or not window.takes(size):
                self._turn_back(tag, envelope)
                return
        self.arrived(Delivery(self, tag, self.engine.epoch, body, head, envelope))
        if window is not None:
            self._widen(window.prefetch())
        if self.pulls and self.line and not self.is_draining:
            self.pull()

    # Window kept by the receiver

    def _widen(self, prefetch: i64) -> None:
        """Begin a consumer with a prefetch at least twice as large, in place of the present consumer."""
        channel = self.channel
        if prefetch >= 2 * self.prefetch and self.consumer and channel is not None and self.turning is None:
            self._replace(channel, prefetch, True)

    def _replace(self, channel: Channel, prefetch: i64, without_answer: bool) -> None:
        """Begin another consumer, then cancel the present consumer."""
        old = self.consumer
        self._write_prefetch(prefetch)
        self._consume(None)
        channel.write(spec.BASIC_CANCEL, {"consumer_tag": old, "no_wait": without_answer})
        self.engine.wake_output()

    def _turn_back(self, tag: i64, envelope: bytes) -> None:
        """Drop the body of a message over the window, and stop deliveries after one more."""
        channel = self.channel
        if self.turning is not None and envelope[5 : 5 + envelope[4]] == self.consumer.encode():
            self.surplus_last = tag
        else:
            self.surplus.append(int(tag))
        if self.turning is None and channel is not None:
            self.turning = Call("basic.qos", (spec.BASIC_QOS_OK,))
            if self.consumer:
                self._replace(channel, 1, False)
                channel.expect(Call("basic.cancel", (spec.BASIC_CANCEL_OK,)))
            else:
                self.turning.done = True  # A drain has cancelled the consumer.

    def cancel_answered(self) -> None:
        """Request another answer: RabbitMQ may send messages that were under way to the channel after this answer."""
        turning, channel = self.turning, self.channel
        if turning is not None and channel is not None and not turning.done and turning not in channel.calls:
            channel.expect(turning)
            channel.write(spec.BASIC_QOS, {"prefetch_count": 1})
            self.engine.wake_output()
        self.review_surplus()

    def review_surplus(self) -> None:
        """Return the messages over the window, if no more arrive and the program has taken all waiting messages."""
        turning, channel, window = self.turning, self.channel, self.window
        if turning is None or channel is None or window is None:
            return
        if not turning.done or (self.ready and self.consumer):
            return
        self.turning = None
        tags, self.surplus = self.surplus, []
        if self.surplus_last > 0:
            tags.append(int(self.surplus_last))
            self.surplus_last = 0
        for tag in tags:
            channel.write(spec.BASIC_NACK, {"delivery_tag": tag, "requeue": True})
            self._note_settled(tag)
        if self.consumer:
            self._widen(window.prefetch())
        self.engine.wake_output()

    @override
    def handed_over(self, delivery: Delivery) -> None:
        window = self.window
        if window is not None:
            window.handed_over(len(delivery.body))
            if self.turning is not None:
                self.review_surplus()

    def cancelled(self) -> None:
        """Handle the broker's cancellation: the queue was deleted, or has failed."""
        self.consumer = ""
        text = f"the broker cancelled the receiver of queue '{self.terms.queue}': it was deleted"
        self.end(ReceiverClosed(None, text))

    @override
    def extends(self, tag: i64) -> bool:
        if self.unit is not None:
            return False  # Other receivers have messages on the channel.
        is_next = tag == self.floor + 1
        self._note_settled(tag)
        return is_next

    def _note_settled(self, tag: i64) -> None:
        if tag != self.floor + 1:
            self.ahead.add(int(tag))
            return
        self.floor = tag
        while self.ahead and int(self.floor) + 1 in self.ahead:
            self.floor += 1
            self.ahead.remove(int(self.floor))

    @override
    def _write_range(self) -> None:
        channel = self.channel
        if channel is not None:
            self._write_ack(channel, self.last_accepted, self.to_acknowledge > 1)

    def _write_ack(self, channel: Channel, tag: i64, is_multiple: bool) -> None:
        out = self.engine.out
        number: i64 = channel.number
        write_i64_be(out, _ACK_START | number << 40)
        write_i32_be(out, 0x3C0050_00)
        write_i64_be(out, tag << 8 | (1 if is_multiple else 0))
        out.append(spec.FRAME_END)

    @override
    def write_outcome(self, tag: i64, outcome: i64, reason: str, annotations: dict[str, object] | None) -> None:
        channel = self.channel
        if channel is None:
            return
        if outcome == 0:
            self._write_ack(channel, tag, False)
        else:
            requeue = outcome != REJECTED and reason != "undeliverable-here"
            channel.write(spec.BASIC_NACK, {"delivery_tag": int(tag), "requeue": requeue})
            self._note_settled(tag)

    @override
    def detach(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None and self.unit is None:
            channel.close()

    @override
    def lose(self) -> None:
        self.channel = None
        self.consumer = ""
        self.floor = 0
        self.ahead.clear()
        self.surplus = []
        self.surplus_last = 0
        self.turning = None
        if self.window is not None:
            self.window.reset()
        super().lose()

    @override
    def properties_of(self, delivery: Delivery) -> Properties:
        return decode_properties(delivery.head)[1]

    @override
    def passed_head(self, delivery: Delivery) -> bytes | None:
        head = delivery.head
        flags = (head[FIXED_OCTETS] << 8) | head[FIXED_OCTETS + 1]
        if flags & _USER_ID_FLAG or (flags & HEADERS_FLAG and any(name in head for name in _COPIES)):
            return None
        return head

    @override
    def redelivered(self, delivery: Delivery) -> bool:
        envelope = delivery.envelope
        return envelope[5 + envelope[4] + 8] & 1 == 1

    @override
    def origin_of(self, delivery: Delivery) -> tuple[str, str]:
        args = decode_method(delivery.envelope).args
        return str(args["exchange"]), str(args["routing_key"])
