"""Requester of AMQP 0-9-1: a channel with direct reply-to, and with confirms, which report refused calls."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.client.engine.amqp091.channel import Channel, Channels
from penstock.client.engine.messages import Message
from penstock.client.engine.requester import CALLS_MOST, Requester
from penstock.client.engine.waits import Call
from penstock.client.errors import ChannelClosed, LinkClosed
from penstock.markers import override
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp091.content_header import decode_properties, encode_header

REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""Queue of direct reply-to: the broker replaces this name by the address of the channel."""


class RequesterChannel(Channel):
    """Channel of calls."""

    def __init__(self, channels: Channels, requester: Requester091) -> None:
        super().__init__(channels)
        self.requester = requester

    @override
    def on_confirm(self, tag: i64, is_refused: bool, is_multiple: bool) -> None:
        # The answer may arrive before the confirm (section 1.8.3.13).
        requester = self.requester
        first = next(iter(requester.tags), 1) if is_multiple else int(tag)
        last = requester.published if is_multiple and tag == 0 else min(int(tag), requester.published)
        for each in range(first, last + 1):
            number = requester.tags.pop(each, None)
            if is_refused:
                requester.refused(number, "the broker refused it (basic.nack)")
        requester.write_all()

    @override
    def on_message(self, body: bytes) -> None:
        properties = decode_properties(self.head)[1]
        self.requester.answered(properties.correlation_id, body, properties)

    @override
    def on_return(self, exchange: str, key: str, body: bytes, reason: str) -> None:
        self.requester.refused(decode_properties(self.head)[1].correlation_id, reason)

    @override
    def on_flow(self, is_active: bool) -> None:
        self.requester.flow(is_active)

    @override
    def on_close(self, error: ChannelClosed) -> None:
        self.requester.fail(LinkClosed(error.code, error.text))


class Requester091(Requester):
    """Requester with a channel of its own."""

    def __init__(self, channels: Channels, exchange: str, key: str) -> None:
        super().__init__(channels.engine, exchange, key)
        self.channels = channels
        self.channel: Channel | None = None
        place = {"exchange": exchange, "routing_key": key, "mandatory": True}
        self.method: bytes = method_frame(0, spec.BASIC_PUBLISH, **place)
        """Frame of basic.publish, with the number of the channel once there is one."""
        self.is_stopped: bool = False
        """True while the broker has stopped it by channel.flow; calls wait then."""
        self.waiting: dict[str, tuple[bytes, bytes]] = {}
        """Bodies and headers of calls that are still to be written, by correlation id."""
        self.tags: dict[int, str] = {}
        """Correlation ids of calls that are not confirmed, by their number on the channel, in order."""
        self.published: int = 0
        """Number of calls written on the channel."""

    @override
    def attach(self) -> None:
        channel = self.channel = RequesterChannel(self.channels, self)
        self.method = self.method[:1] + channel.number.to_bytes(2, "big") + self.method[3:]
        self.is_stopped = False
        self.waiting.clear()
        self.tags.clear()
        self.published = 0
        channel.expect(Call("confirm.select", (spec.CONFIRM_SELECT_OK,)))
        channel.write(spec.CONFIRM_SELECT, {})
        channel.expect(Call("basic.consume", (spec.BASIC_CONSUME_OK,)))
        channel.write(spec.BASIC_CONSUME, {"queue": REPLY_TO, "no_ack": True})

    @override
    def write(self, message: Message, number: str, reply_to: str) -> None:
        properties = message.properties.copy()
        properties.correlation_id = number
        properties.reply_to = reply_to or REPLY_TO
        self.waiting[number] = (message.body, encode_header(len(message.body), properties))
        self.write_all()

    @override
    def drop(self, number: str) -> str:
        if self.waiting.pop(number, None) is None:
            return ""
        stopped = "stopped its channel by channel.flow" if self.is_stopped else "has not confirmed those before it"
        return f"; it was not sent, for the broker {stopped}"

    @override
    def detach(self) -> None:
        if self.channel is not None:
            self.channel.close()

    def flow(self, is_active: bool) -> None:
        """Stop or resume, because of channel.flow."""
        self.is_stopped = not is_active
        self.write_all()

    def write_all(self) -> None:
        """Write the calls that may be written now."""
        channel = self.channel
        assert channel is not None
        while self.waiting and not self.is_stopped and len(self.tags) < CALLS_MOST:
            number = next(iter(self.waiting))
            body, header = self.waiting.pop(number)
            self.published += 1
            self.tags[self.published] = number
            self.engine.out.write(self.method)
            channel.write_content(body, header)
