"""Teardown of a channel that ends before its connection, in bounded steps per turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.teardown import CHANNEL_COST, SessionTeardown
from penstock.wire.amqp091 import spec

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel


class ChannelTeardown(SessionTeardown):
    """Teardown of one channel. A client that closed it is answered at the end."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel.broker, channel)
        self.channel = channel
        self._answered: bool = False

    @override
    def work(self, most: i64, now: float) -> i64:
        done = super().work(most, now)
        if super().is_over() and not self._answered:
            self._answered = True
            channel = self.channel
            if channel.leaving and channel.engine.channels.get(int(channel.number)) is channel:
                del channel.engine.channels[int(channel.number)]
                channel.send(spec.CHANNEL_CLOSE_OK, {})
        return done + CHANNEL_COST

    @override
    def is_over(self) -> bool:
        return self._answered
