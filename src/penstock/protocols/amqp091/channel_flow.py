"""channel.flow towards publishers: asks clients that obey it to stop and resume publishing (section 1.5.2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER, TimerHandler
from penstock.wire.amqp091 import spec

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel


class ChannelFlow(TimerHandler):
    """channel.flow state of one channel; initially active.

    Publishes that such a client delays are invisible to the broker, so no hold deadline covers them. The broker
    therefore asks it to resume at the hold deadline at the latest, even if the gate is still closed. Its publishes are
    then held and refused as usual. A client with exact flow has a deadline of its own, and is not asked.
    """

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel
        self.stopped: bool = False
        self.forbidden_from: float = NEVER
        """Time from which a publish closes the channel, because its client ignored channel.flow."""

    def stop(self, gate: Gate) -> None:
        """Send active=false because of a gate.

        A publish after the enforcement time closes the channel (Broker-J's CHN-1012).
        """
        channel = self.channel
        now = channel.broker.now
        self._set_stopped(True)
        channel.send(spec.CHANNEL_FLOW, {"active": False})
        self.forbidden_from = now + channel.connection.limits.flow_enforcement_s
        patience_s = channel.broker.defaults.hold_deadline_s
        if gate.owner is not None:
            patience_s = gate.owner.hold_deadline_s(patience_s)
        if patience_s > 0 and not channel.engine.profile.exact_flow:
            channel.broker.timers.add(self, now + patience_s)

    def go_on(self) -> None:
        """Send active=true if the client was asked to stop, also when it has since selected confirms."""
        if self.stopped:
            self._set_stopped(False)
            self.forbidden_from = NEVER
            self.channel.broker.timers.drop(self)
            if self.channel.is_open():
                self.channel.send(spec.CHANNEL_FLOW, {"active": True})

    def end(self) -> None:
        """Cancel the timer: the channel is closed."""
        self._set_stopped(False)
        self.channel.broker.timers.drop(self)

    def _set_stopped(self, stopped: bool) -> None:
        """Record whether the client was asked to stop; its connection may hold more then."""
        if stopped != self.stopped:
            self.stopped = stopped
            self.channel.connection.pausing.asked += 1 if stopped else -1
            self.channel.connection.review_hold_bound()

    @override
    def on_deadline(self, now: float) -> float:
        self.go_on()
        return NEVER
