"""A client that obeys channel.flow is asked to stop publishing on a channel, and to go on (section 1.5.2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER, TimerHandler
from penstock.wire.amqp091 import spec

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel


class ChannelFlow(TimerHandler):
    """What a channel's client has been asked; it begins with not having been asked to stop.

    What such a client does not publish it holds itself, and nobody would ever tell its caller. So it is asked to go on
    at the hold deadline at the latest, be the gate closed still: what it publishes then is held and refused as ever.
    """

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel
        self.stopped: bool = False

    def stop(self, gate: Gate) -> None:
        """Ask it to stop, because of a gate. Who goes on past the enforcement time is closed (Broker-J's CHN-1012)."""
        channel = self.channel
        now = channel.broker.now
        self._log(True)
        channel.send(spec.CHANNEL_FLOW, {"active": False})
        channel.producer.forbidden_from = now + channel.connection.limits.flow_enforcement_s
        patience_s = channel.broker.defaults.hold_deadline_s
        if gate.owner is not None:
            patience_s = gate.owner.hold_deadline_s(patience_s)
        if patience_s > 0:
            channel.broker.timers.add(self, now + patience_s)

    def go_on(self) -> None:
        """Ask it to go on, if it was asked to stop: also when it has since chosen to have confirms."""
        if self.stopped:
            self._log(False)
            self.channel.producer.forbidden_from = NEVER
            self.channel.broker.timers.drop(self)
            if self.channel.is_open():
                self.channel.send(spec.CHANNEL_FLOW, {"active": True})

    def end(self) -> None:
        """The channel is gone."""
        self._log(False)
        self.channel.broker.timers.drop(self)

    def _log(self, stopped: bool) -> None:
        if stopped != self.stopped:
            self.stopped = stopped
            self.channel.connection.asked += 1 if stopped else -1
            self.channel.connection.review_hold_bound()

    def on_deadline(self, now: float) -> float:
        """See `TimerHandler.on_deadline`."""
        self.go_on()
        return NEVER
