"""Acknowledgement timeout: closes a channel whose deliveries stay unacknowledged for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.consume.consumer import Batch
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel


class AckTimeout(TimerHandler):
    """Timer of one channel, set when the oldest delivery may be overdue (RabbitMQ's consumer timeout)."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel

    def delivered(self, batch: Batch) -> None:
        """Record deliveries. The timeout is the one that their queue has now."""
        timeout_s = batch.consumer.queue.settings.consumer_timeout_s
        self.channel.broker.timers.add(self, batch.at + timeout_s)

    def on_deadline(self, now: float) -> float:
        """See `TimerHandler.on_deadline`."""
        channel = self.channel
        due, timeout_s = channel.unsettled.first_due()
        if due > now:
            return due
        error = PreconditionFailed(
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: "
            f"{round(timeout_s * 1000)} ms. This timeout value can be configured, see consumers doc guide to learn more"
        )
        channel.connection.driver.log(f"[{channel.producer.name}] {error.reply_text}")
        channel.connection.on_error(int(channel.number), error)
        return NEVER
