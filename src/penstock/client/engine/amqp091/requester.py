"""Requester of AMQP 0-9-1: a channel with direct reply-to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.client.engine.amqp091.channel import Channel
from penstock.client.engine.messages import Message
from penstock.client.engine.requester import Requester
from penstock.client.engine.waits import Call
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.wire.amqp091 import spec

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
        self.is_stopped: bool = False
        """True while the broker has stopped it by channel.flow; calls wait then."""
        self.waiting: dict[str, Message] = {}
        """Calls that are not written yet, by correlation id."""

    @override
    def attach(self) -> None:
        channel = self.connection.channel()
        channel.requester = self
        self.channel = channel
        self.is_stopped = False
        self.waiting.clear()
        channel.expect(Call("basic.consume", (spec.BASIC_CONSUME_OK,)))
        channel.write(spec.BASIC_CONSUME, {"queue": REPLY_TO, "no_ack": True})

    @override
    def write(self, message: Message, number: str) -> None:
        self.waiting[number] = message
        self._write_all()

    @override
    def drop(self, number: str) -> str:
        if self.waiting.pop(number, None) is None:
            return ""
        return "; it was not sent, for the broker stopped its channel by channel.flow"

    @override
    def detach(self) -> None:
        if self.channel is not None:
            self.channel.close()

    def flow(self, is_active: bool) -> None:
        """Stop or go on, as channel.flow says."""
        self.is_stopped = not is_active
        self._write_all()

    def _write_all(self) -> None:
        channel = self.channel
        assert channel is not None
        while self.waiting and not self.is_stopped:
            number = next(iter(self.waiting))
            self._write(channel, self.waiting.pop(number), number)

    def _write(self, channel: Channel, message: Message, number: str) -> None:
        properties = Properties(**message.properties.as_dict())  # type: ignore[arg-type]  # They come from there.
        properties.correlation_id = number
        properties.reply_to = REPLY_TO
        channel.write(spec.BASIC_PUBLISH, {"exchange": self.exchange, "routing_key": self.key, "mandatory": True})
        channel.write_content(message.body, properties)
