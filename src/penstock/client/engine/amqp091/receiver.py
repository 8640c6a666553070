"""Receiver of AMQP 0-9-1: a channel with one consumer, or with one for each message that is asked for."""

from __future__ import annotations

from typing import Final

from librt.strings import write_i32_be, write_i64_be
from mypy_extensions import i64

from penstock.client.engine.amqp091.channel import Channel, Channels
from penstock.client.engine.connection import Engine
from penstock.client.engine.outcomes import ConnectionLost
from penstock.client.engine.receiver import REJECTED, Delivery, ReceiverCore
from penstock.client.engine.terms import WARNING, Event, ReceiverTerms
from penstock.client.engine.waits import Call, Steps
from penstock.client.errors import ChannelClosed, ReceiverClosed
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, decode_properties

_ACK_START: Final = 0x010000_0000000D_00
"""Beginning of a method frame with 13 octets of payload, without its channel."""


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
        """Number up to which all messages are settled: an acknowledgement of many is for all of them."""
        self.ahead: set[int] = set()
        """Numbers above it that are settled."""

    @override
    def attach(self) -> None:
        """Open the channel and subscribe."""
        self.use(ReceiverChannel(self.channels, self))

    def use(self, channel: Channel) -> None:
        """Subscribe on a channel."""
        self.channel = channel
        prefetch = 1 if self.pulls else self.terms.prefetch
        channel.expect(Call("basic.qos", (spec.BASIC_QOS_OK,)))
        channel.write(spec.BASIC_QOS, {"prefetch_count": prefetch})
        self.is_attached = True
        self._check_window()
        if self.pulls or self.is_draining:
            self.ask_available().then = self.attached
            if self.line and not self.is_draining:
                self.pull()
        else:
            self._consume(self.attached)
        self.engine.wake_output()

    def _check_window(self) -> None:
        """Warn once of a window that was chosen and that nobody keeps: basic.qos of other brokers counts messages."""
        terms, engine = self.terms, self.engine
        if terms.is_window_chosen and terms.window_bytes > 0 and not engine.is_penstock() and not self.has_warned:
            self.has_warned = True
            text = (
                f"consumerWindowSize={terms.window_bytes} is not kept: over AMQP 0-9-1 {engine.broker_name()} counts "
                f"messages, and sends {terms.prefetch} of any size in advance; set prefetch, or use AMQP 1.0"
            )
            engine.events.append(Event(WARNING, terms.queue, text))

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
        """Take a message."""
        if self.pulls and self.consumer and self.channel is not None:
            self.channel.write(spec.BASIC_CANCEL, {"consumer_tag": self.consumer, "no_wait": True})
            self.consumer = ""
            self.engine.wake_output()
        self.arrived(Delivery(self, tag, self.engine.epoch, body, head, envelope))
        if self.pulls and self.line and not self.is_draining:
            self.pull()

    def cancelled(self) -> None:
        """Take the broker's cancellation: the queue was deleted, or has failed."""
        self.consumer = ""
        text = f"the broker cancelled the receiver of queue '{self.terms.queue}': it was deleted"
        self.end(ReceiverClosed(None, text))

    @override
    def extends(self, tag: i64) -> bool:
        if self.unit is not None:
            return False  # Other receivers have messages on its channel.
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
        super().lose()

    @override
    def properties_of(self, delivery: Delivery) -> Properties:
        return decode_properties(delivery.head)[1]

    @override
    def redelivered(self, delivery: Delivery) -> bool:
        envelope = delivery.envelope
        return envelope[5 + envelope[4] + 8] & 1 == 1

    @override
    def origin_of(self, delivery: Delivery) -> tuple[str, str]:
        args = decode_method(delivery.envelope).args
        return str(args["exchange"]), str(args["routing_key"])
