"""Requester of AMQP 0-9-1: a channel with direct reply-to, and with confirms, which tell of a call that is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.client.engine.amqp091.channel import Channel
from penstock.client.engine.messages import Message
from penstock.client.engine.requester import CALLS_MOST, Requester
from penstock.client.engine.waits import Call
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import encode_header, method_frame

if TYPE_CHECKING:
    from penstock.client.engine.amqp091.connection import Engine091

REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""Queue of direct reply-to: the broker replaces it by the address of the channel."""


class Requester091(Requester):
    """Requester with a channel of its own."""

    def __init__(self, engine: Engine091, exchange: str, key: str) -> None:
        super().__init__(engine, exchange, key)
        self.connection = engine
        self.channel: Channel | None = None
        place = {"exchange": exchange, "routing_key": key, "mandatory": True}
        self.method: bytes = method_frame(0, spec.BASIC_PUBLISH, **place)
        """Frame of basic.publish, with the number of its channel once there is one."""
        self.is_stopped: bool = False
        """True while the broker has stopped it by channel.flow; calls wait then."""
        self.waiting: dict[str, tuple[bytes, bytes]] = {}
        """Bodies and headers of the calls that are not written yet, by correlation id."""
        self.tags: dict[int, str] = {}
        """Correlation ids of calls that are not confirmed, by their number on the channel, in order."""
        self.published: int = 0
        """Calls that were written on the channel."""

    @override
    def attach(self) -> None:
        channel = self.connection.channel()
        channel.requester = self
        self.channel = channel
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
        properties = Properties(**message.properties.as_dict())  # type: ignore[arg-type]  # They come from there.
        properties.correlation_id = number
        properties.reply_to = reply_to or REPLY_TO
        self.waiting[number] = (message.body, encode_header(len(message.body), properties))
        self._write_all()

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
        """Stop or go on, as channel.flow says."""
        self.is_stopped = not is_active
        self._write_all()

    def settled(self, tag: i64, is_refused: bool, is_multiple: bool) -> None:
        """Take a confirm or a refusal (section 1.8.3.13); the answer may come before the confirm."""
        first = next(iter(self.tags), 1) if is_multiple else int(tag)
        last = self.published if is_multiple and tag == 0 else min(int(tag), self.published)
        for each in range(first, last + 1):
            number = self.tags.pop(each, None)
            if is_refused:
                self.refused(number, "the broker refused it (basic.nack)")
        self._write_all()

    def _write_all(self) -> None:
        channel = self.channel
        assert channel is not None
        while self.waiting and not self.is_stopped and len(self.tags) < CALLS_MOST:
            number = next(iter(self.waiting))
            body, header = self.waiting.pop(number)
            self.published += 1
            self.tags[self.published] = number
            self.engine.out.write(self.method)
            channel.write_content(body, header)
