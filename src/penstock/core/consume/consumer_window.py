"""The adaptive window of a consumer: how many deliveries it may have unsettled below its credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer_lists import ALONE
from penstock.core.consume.rotation import wake
from penstock.flow.adaptive_window import AdaptiveWindow
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.core.consume.consumer import Consumer
    from penstock.core.consume.context import ConsumeContext


class ConsumerWindow(TimerHandler):
    """An adaptive window (see flow/adaptive_window.py), and the timer of a full one that nothing is settled of."""

    def __init__(self, broker: ConsumeContext, consumer: Consumer, least: i64, most: i64) -> None:
        super().__init__()
        self.broker = broker
        self.consumer = consumer
        self.adaptive = AdaptiveWindow(least, most)
        self.is_lifted: bool = False
        """True while its receiver drains: it asks for all that its credit allows."""

    def left(self) -> i64:
        """Return the deliveries that the window still admits."""
        if self.is_lifted:
            return UNLIMITED
        out, window = self.consumer.credit.out, self.adaptive.window
        return window - out if window > out else 0

    def took(self, messages: i64, now: float) -> None:
        """Count messages that were handed out."""
        self.adaptive.on_delivered(self.consumer.credit.out - messages, now)

    def settled(self, messages: i64) -> None:
        """Count messages that are settled, released ones too."""
        self.adaptive.on_settled(messages, self.consumer.credit.out + messages, self.broker.now)

    def lift(self, lifted: bool) -> None:
        """Stop applying the window, or begin again."""
        self.is_lifted = lifted
        if lifted and self.consumer.state == ALONE:
            wake(self.consumer)

    def wait(self, now: float) -> None:
        """Set the timer of a full window."""
        due = self._stalled_at()
        self.broker.timers.add(self, due if due > now else now)

    @override
    def on_deadline(self, now: float) -> float:
        adaptive, consumer = self.adaptive, self.consumer
        if consumer.state != ALONE or self.left() > 0 or adaptive.window >= adaptive.most:
            return NEVER
        if consumer.credit.left() == 0:
            return NEVER  # It waits for that; when it has some, the timer begins again.
        due = self._stalled_at()
        if now < due:
            return due
        adaptive.on_stalled()
        wake(consumer)
        return NEVER

    def _stalled_at(self) -> float:
        return self.adaptive.last_change() + self.adaptive.stall_s()

    def describe(self) -> str:
        """Return why no delivery is left, as a phrase."""
        adaptive = self.adaptive
        measured = ""
        if adaptive.time_s > 0.0:
            measured = f", for {adaptive.rate:,.4g} messages/s of {adaptive.time_s * 1000:,.4g} ms each"
        return (
            f"out of its adaptive window: {int(self.consumer.credit.out):,} unacknowledged of "
            f"{int(adaptive.window):,}{measured}"
        )
