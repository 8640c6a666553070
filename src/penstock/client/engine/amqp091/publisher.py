"""Publisher of AMQP 0-9-1: a channel with confirms."""

from __future__ import annotations

from typing import Final

from librt.strings import write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from penstock.client.engine.amqp091.channel import Channel, Channels
from penstock.client.engine.connection import OPEN, Engine
from penstock.client.engine.events import WARNING, Event
from penstock.client.engine.messages import Forwarded, Message
from penstock.client.engine.outcomes import CONFIRMED, REFUSED, Blocked, MessageRefused, Receipt, amounts_of
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.terms import PublisherTerms
from penstock.client.engine.waits import Call
from penstock.client.engine.window import UNLIMITED
from penstock.client.errors import (
    ChannelClosed,
    ClientError,
    ControlError,
    LinkClosed,
    MessageTooLarge,
    without_name,
)
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame
from penstock.wire.amqp091.content_header import encode_header

EXACT_FLOW: Final = "penstock.exact-flow"
"""Capability of both sides: channel.flow with immediate confirms for accepted messages, and `publish.withdraw` for held
ones.
"""
FENCED: Final = 409
"""Code of the refusal of a lane whose next session has begun in another process."""
PRODUCER_LANES: Final = "penstock.producer-lanes"
"""Capability of a broker that knows `producer.begin`."""
PLACE_CODES: Final = frozenset(
    {
        int(spec.ReplyCode.NO_ROUTE),
        int(spec.ReplyCode.NO_CONSUMERS),
        int(spec.ReplyCode.INVALID_PATH),
        int(spec.ReplyCode.ACCESS_REFUSED),
        int(spec.ReplyCode.NOT_FOUND),
        int(spec.ReplyCode.RESOURCE_LOCKED),
    }
)
"""Codes of a publish that is refused because of its exchange or queue."""


def refusal_of(error: ChannelClosed, by_publish: bool) -> ClientError | None:
    """Return the error of a message because of which the broker closed the channel, at its publish or later.

    None for a code that leaves open whether the broker has accepted the message.
    """
    text = without_name(error.text)
    if error.code == spec.ReplyCode.CONTENT_TOO_LARGE:
        return MessageTooLarge(text)
    if not by_publish:
        return None
    if error.code == spec.ReplyCode.PRECONDITION_FAILED:
        return MessageRefused(text)
    return LinkClosed(error.code, error.text) if error.code in PLACE_CODES else None


_SIZE_AT: Final = 11
"""Bytes of a header frame before the size of the body: frame header, class and weight."""


class PublisherChannel(Channel):
    """Channel of a publisher."""

    def __init__(self, channels: Channels, publisher: Publisher091) -> None:
        super().__init__(channels, is_strict=True)
        self.publisher = publisher

    @override
    def on_confirm(self, tag: i64, is_refused: bool, is_multiple: bool) -> None:
        publisher, last = self.publisher, tag
        if is_multiple and tag == 0:  # The number 0 means all of them (section 1.8.3.13).
            last = publisher.base + len(publisher.pending) - 1
        publisher.settle(publisher.base if is_multiple else tag, last, REFUSED if is_refused else CONFIRMED)

    @override
    def on_return(self, exchange: str, key: str, body: bytes, reason: str) -> None:
        self.publisher.returned(exchange, key, body, reason)

    @override
    def on_flow(self, is_active: bool) -> None:
        self.publisher.flow(is_active)

    @override
    def on_close(self, error: ChannelClosed) -> None:
        self.publisher.closed(error, self.closed_for == spec.BASIC_PUBLISH)


def with_confirms(channel: Channel) -> Channel:
    """Return a new channel that has requested confirms."""
    channel.write(spec.CONFIRM_SELECT, {})
    channel.expect(Call("confirm.select", (spec.CONFIRM_SELECT_OK,)))
    return channel


class Closing:
    """The broker's close of a publisher's channel."""

    def __init__(self, error: ChannelClosed, by_publish: bool) -> None:
        self.end = LinkClosed(error.code, error.text)
        self.reason: str = without_name(error.text)
        self.refusal: ClientError | None = refusal_of(error, by_publish)
        """Error of the message refused by the close; None if the close may have another cause."""


class Publisher091(PublisherCore):
    """Publisher with a channel of its own."""

    def __init__(self, engine: Engine, channels: Channels, terms: PublisherTerms) -> None:
        super().__init__(engine, terms)
        self.channels = channels
        self.channel: Channel | None = None
        self.before_size: bytes = b""
        """Bytes of a message without own properties before the size of its body: basic.publish and the header frame's
        start.
        """
        self.after_size: bytes = b""
        """Bytes between the size of the body and the size of the body frame."""
        self.body_max: i64 = 0
        """Most bytes of body in a frame."""
        self.method_exchange: str = ""
        self.method_key: str = ""
        self.method: bytes = b""
        """Frame of basic.publish of the last message with own properties, and its target; empty before the first."""
        self.beginning: Begin | None = None
        """Unanswered request for the lane."""
        self.closing_of: Closing | None = None
        """The broker's close of the channel, while the mark of the lane is requested; None otherwise."""
        self.asked: Why | None = None
        """Unanswered question to the broker."""

    @override
    def attach(self) -> None:
        """Open the channel; messages may follow at once."""
        engine = self.engine
        channel = with_confirms(PublisherChannel(self.channels, self))
        self.use(channel)
        engine.wake_output()
        if self.lane is None or not engine.offers(PRODUCER_LANES):
            self.go_on()
            return
        self.beginning = Begin(self)
        wanted = {"channel": channel.number, **self.lane.request(self.terms.window)}
        engine.ask("producer.begin", wanted, self.beginning)

    def use(self, channel: Channel) -> None:
        """Publish on a channel."""
        self.channel = channel
        self.body_max = self.channels.frame_max - spec.FRAME_OVERHEAD
        mode = 2 if self.terms.durable else None
        head = frame(spec.FRAME_HEADER, channel.number, encode_header(0, Properties(delivery_mode=mode)))
        self.method = b""
        self.before_size = self._method(self.terms.exchange, self.terms.key) + head[:_SIZE_AT]
        self.after_size = head[_SIZE_AT + 8 :] + bytes((spec.FRAME_BODY,)) + channel.number.to_bytes(2, "big")

    def _method(self, exchange: str, key: str) -> bytes:
        number = 0 if self.channel is None else self.channel.number
        return method_frame(
            number, spec.BASIC_PUBLISH, exchange=exchange, routing_key=key, mandatory=self.terms.mandatory
        )

    @override
    def write(self, body: bytes) -> None:
        size: i64 = len(body)
        out = self.engine.out
        out.write(self.before_size)
        write_i64_be(out, size)
        if size == 0 or size > self.body_max:
            out.write(self.after_size[:-3])
            self._write_body(body)
            return
        out.write(self.after_size)
        write_i32_be(out, i32(size))
        out.write(body)
        out.append(spec.FRAME_END)

    def _write_body(self, body: bytes) -> None:
        """Write an empty body, which has no frame, or one of several frames."""
        out = self.engine.out
        start = self.after_size[-3:]
        at: i64 = 0
        n: i64 = len(body)
        while at < n:
            size = min(self.body_max, n - at)
            out.write(start)
            write_i32_be(out, i32(size))
            out.write(body[at : at + size])
            out.append(spec.FRAME_END)
            at += size

    @override
    def write_message(self, message: Message) -> None:
        terms, channel = self.terms, self.channel
        assert channel is not None
        if isinstance(message, Forwarded):
            self._write_forwarded(message, channel)
            return
        properties = message.properties
        if message.delay is not None:
            raise ValueError(
                "a message with a delay needs AMQP 1.0; over AMQP 0-9-1 publish to an exchange of type "
                "x-delayed-message, with the milliseconds in the header x-delay"
            )
        if properties.delivery_mode is None and terms.durable:
            properties = properties.copy()
            properties.delivery_mode = 2
        self._write_parts(
            message, frame(spec.FRAME_HEADER, channel.number, encode_header(len(message.body), properties))
        )

    def _write_parts(self, message: Message, head: bytes) -> None:
        """Write a message with its header frame."""
        exchange, key = self._place(message)
        if not self.method or exchange != self.method_exchange or key != self.method_key:
            self.method = self._method(exchange, key)
            self.method_exchange, self.method_key = exchange, key
        out = self.engine.out
        out.write(self.method)
        out.write(head)
        self._write_body(message.body)

    def _write_forwarded(self, message: Forwarded, channel: Channel) -> None:
        """Write a received message: its head as it came if it came over AMQP 0-9-1."""
        head = message.head_for(self.engine.protocol)
        if head is None:
            head = encode_header(len(message.body), message.sent_by(self.engine.terms.user))
        self._write_parts(message, frame(spec.FRAME_HEADER, channel.number, head))

    @override
    def detach(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None and self.unit is None:
            channel.close()

    @override
    def end(self, error: Exception, text: str) -> None:
        self.beginning = None
        super().end(error, text)

    @override
    def lose(self) -> None:
        self.channel = None
        self.beginning = None
        if self.closing_of is not None:
            self.end_closed()
            return
        super().lose()

    # Input from the broker

    def closed(self, error: ChannelClosed, by_publish: bool) -> None:
        """Handle the broker's close of the channel, at a publish or not.

        A message that the close refuses has no outcome yet, and no message after it was accepted. So the last message
        is in no queue. For the others the mark of the lane decides, if there is one.
        """
        self.channel = None
        self.closing_of = Closing(error, by_publish)
        closing, count = self.closing_of, self.unsettled_count
        self.stop(closing.end, closing.reason)
        engine, lane = self.engine, self.lane
        is_sure = count == 0 or (count == 1 and closing.refusal is not None)
        if is_sure or lane is None or not lane.is_begun or self.beginning is not None or engine.phase != OPEN:
            self.end_closed()
            return
        channel = self.channel = with_confirms(Channel(self.channels))
        wanted = {"channel": channel.number, **lane.request(self.terms.window)}
        self.beginning = Begin(self)
        engine.ask("producer.begin", wanted, self.beginning)

    def end_closed(self) -> None:
        """End after the broker's close of the channel: no mark tells which messages were accepted."""
        closing, self.closing_of = self.closing_of, None
        assert closing is not None
        if closing.refusal is not None and self.unsettled_count > 0:
            cause = closing.refusal if self.unsettled_count == 1 else closing.end
            self.refuse_from(self.base + len(self.pending) - 1, cause, closing.end, closing.reason)
        self.detach()
        self.end(closing.end, closing.reason)

    def end_by_mark(self, taken: i64, refused: list[int]) -> None:
        """End after the broker's close of the channel: messages beyond the mark are in no queue."""
        closing, lane, self.closing_of = self.closing_of, self.lane, None
        assert closing is not None and lane is not None
        self.settle_by_mark(lane, taken, refused)
        self.refuse_from(self.base, closing.refusal or closing.end, closing.end, closing.reason)
        self.detach()
        self.end(closing.end, closing.reason)

    def returned(self, exchange: str, key: str, body: bytes, reason: str) -> bool:
        """Handle a returned message: its confirm or refusal follows, without a reason.

        The returned message is the oldest with this target and this body that was not returned yet: the broker returns
        in the order of the publishes. Returns whether there is one.
        """
        number = int(self.base)
        for item in self.pending:
            message = item.message if isinstance(item, Receipt) else item
            octets = message.body if isinstance(message, Message) else message
            if octets == body and number not in self.reasons and self._place(message) == (exchange, key):
                self.reasons[number] = reason
                self.returned_count += 1
                return True
            number += 1
        return False

    def _place(self, message: object) -> tuple[str, str]:
        """Return the exchange and the routing key of a message."""
        terms = self.terms
        if not isinstance(message, Message):
            return terms.exchange, terms.key
        exchange = terms.exchange if message.exchange is None else message.exchange
        return exchange, terms.key if message.routing_key is None else message.routing_key

    def flow(self, is_active: bool) -> None:
        """Stop or resume, because of channel.flow (section 1.5.2.3)."""
        if is_active == self.is_stopped:
            self.is_stopped = not is_active
            if is_active:
                self.info = None
            else:
                self.stopped_at = self.engine.now
            self.note_blocked(self.is_stopped)
            self.review()

    @override
    def block(self, is_blocked: bool) -> None:
        self.careful = 1 if is_blocked else UNLIMITED
        if not is_blocked:
            self.info = None
            self.review()

    @override
    def withdraw(self, number: int) -> Call | None:
        engine, channel = self.engine, self.channel
        if channel is None or not engine.offers(EXACT_FLOW) or engine.phase != OPEN:
            return None
        return engine.ask("publish.withdraw", {"channel": channel.number, "number": number}, Call("publish.withdraw"))

    @override
    def ask_why(self) -> None:
        engine = self.engine
        queue = self._queue()
        if queue is None or self.asked is not None or not engine.is_penstock() or engine.phase != OPEN:
            return
        if self.is_stopped or engine.blocked_reason or self.pending:
            call = Why(self)
            engine.ask("why", {"queue": queue}, call)


class Begin(Call):
    """Request for the next session of a publisher's lane. Without a lane in the answer, the publisher continues without
    one.

    If the broker has closed the publisher's channel, the answer has the last outcomes.
    """

    def __init__(self, publisher: Publisher091) -> None:
        super().__init__("producer.begin")
        self.publisher = publisher

    @override
    def release(self) -> None:
        publisher = self.publisher
        if publisher.beginning is not self:
            return  # The request belongs to an earlier transport, or the publisher has ended.
        publisher.beginning = None
        error, mark = self.error, mark_of(self.value)
        if publisher.closing_of is not None:
            if mark is not None and mark.is_known:
                publisher.end_by_mark(mark.taken, mark.refused)
            else:
                publisher.end_closed()
        elif mark is not None:
            publisher.go_on_from(mark.is_known, mark.taken, mark.refused)
        elif isinstance(error, ControlError) and error.code == FENCED:
            publisher.detach()
            publisher.end(LinkClosed(error.code, error.text), error.text)
        else:  # The publisher continues without marks.
            text = f"a lost connection may double messages: {error or 'the answer has no mark'}"
            publisher.engine.events.append(Event(WARNING, publisher.target(), text))
            publisher.go_on()


class Mark:
    """Mark of a lane: the number up to which its publishes are decided, and the refused numbers among them."""

    def __init__(self, is_known: bool, taken: int, refused: list[int]) -> None:
        self.is_known = is_known
        self.taken = taken
        self.refused = refused


COUNT_MAX: Final = 1 << 62
"""Number that no publisher reaches."""


def mark_of(answer: object) -> Mark | None:
    """Return the mark of the answer to `producer.begin`; None for another answer, or without one."""
    if not isinstance(answer, dict):
        return None
    taken, refused = answer.get("taken"), answer.get("refused")
    if not isinstance(taken, int) or not 0 <= taken < COUNT_MAX or not isinstance(refused, list):
        return None
    numbers = [number for number in refused if isinstance(number, int) and 0 <= number < COUNT_MAX]
    return Mark(answer.get("known") is True, taken, numbers)


class Why(Call):
    """Question to Penstock about the reason why a publisher is blocked."""

    def __init__(self, publisher: Publisher091) -> None:
        super().__init__("why")
        self.publisher = publisher
        publisher.asked = self

    @override
    def release(self) -> None:
        publisher = self.publisher
        publisher.asked = None
        row = self.value
        if self.error is None and isinstance(row, dict):
            gate = row.get("gate")
            sentences = row.get("sentences")
            is_open = not isinstance(gate, dict) or gate.get("open") is True
            publisher.info = Blocked(
                "",
                str(sentences[0]) if isinstance(sentences, list) and sentences and not is_open else "",
                0.0,
                str(row.get("queue")),
                amounts_of(row.get("depth")),
                amounts_of(row.get("stop")),
                amounts_of(row.get("resume")),
                amounts_of(row.get("capacity")),
            )
