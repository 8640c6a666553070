"""Credit of a receiver: a window that settlement restores, link credit, and an adaptive window.

`Credit` is the prefetch window of a consumer or of a channel in AMQP 0-9-1; without a window it is unbounded.
`LinkCredit` is the credit of a link in AMQP 1.0. Both have the same methods. A delivery that is settled at once spends
and restores.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.flow.level import UNLIMITED

NO_WINDOW: Final = 0
"""A window of 0 messages is "no bound", as in basic.qos (AMQP 0-9-1 section 1.7.2.1)."""
UNBOUNDED: Final = -1
"""A window of -1 bytes is "no bound", as in Artemis' consumerWindowSize; a window of 0 bytes allows one message at a
time.
"""
SERIAL: Final = 1 << 32
"""Delivery counts of a link are serial numbers with 32 bits (AMQP 1.0, section 2.8.10)."""


class Credit:
    """A window in messages and one in bytes; a delivery uses both until it is settled."""

    __slots__ = ("window", "out", "window_bytes", "out_bytes")

    def __init__(self, window: i64 = NO_WINDOW, window_bytes: i64 = UNBOUNDED) -> None:
        self.window: i64 = window
        self.out: i64 = 0
        self.window_bytes: i64 = window_bytes
        self.out_bytes: i64 = 0
        """Charges of the unsettled deliveries."""

    def bounded(self) -> bool:
        """Return whether either window is bounded."""
        return self.window != NO_WINDOW or self.window_bytes >= 0

    def left(self) -> i64:
        """Return the messages that may still be sent; 0 if the window was made smaller than its use."""
        if self.window == NO_WINDOW:
            return UNLIMITED
        return self.window - self.out if self.window > self.out else 0

    def admits(self, messages: i64, bytes: i64, charge: i64) -> bool:
        """Return whether the byte window admits one more message in addition to these; a single message always fits."""
        if self.window_bytes < 0 or self.out + messages == 0:
            return True
        return self.out_bytes + bytes + charge <= self.window_bytes

    def spend(self, messages: i64, bytes: i64) -> None:
        """Count deliveries."""
        self.out += messages
        self.out_bytes += bytes

    def restore(self, messages: i64, bytes: i64) -> None:
        """Count settlements."""
        self.out -= messages
        self.out_bytes -= bytes

    def describe(self) -> str:
        """Return the reason why no messages are left, as a phrase."""
        return f"out of credit: {self.out} unacknowledged of a prefetch of {self.window}"


class LinkCredit(Credit):
    """Credit that the receiver of a link grants (AMQP 1.0, section 2.6.7), beside a window in bytes.

    A delivery spends messages and bytes. Its settlement restores only the bytes.
    """

    __slots__ = ("delivery_count", "granted", "paused")

    def __init__(self, delivery_count: i64 = 0, window_bytes: i64 = UNBOUNDED) -> None:
        super().__init__(NO_WINDOW, window_bytes)
        self.delivery_count: i64 = delivery_count
        """The sender's delivery count: it advances with each delivery and with drained credit, and wraps around."""
        self.granted: i64 = 0
        """Messages that may still be sent."""
        self.paused: bool = False
        """True while a delivery is being written; nothing else may be sent on the link before its end."""

    def grant(self, delivery_count: i64, link_credit: i64) -> None:
        """Set the credit to the receiver's grant, counted from the last delivery count that the receiver has seen."""
        unseen = (self.delivery_count - delivery_count) % SERIAL
        if unseen >= SERIAL // 2:
            unseen -= SERIAL
        granted = link_credit - unseen
        self.granted = granted if granted > 0 else 0

    def take_back(self, messages: i64) -> None:
        """Restore the credit of messages that were not delivered after all."""
        self.granted += messages
        self.delivery_count = (self.delivery_count - messages) % SERIAL

    def drain(self) -> i64:
        """Remove the credit that is left, as if it were spent; returns the number of messages."""
        drained = self.granted
        self.granted = 0
        self.delivery_count = (self.delivery_count + drained) % SERIAL
        return drained

    def bounded(self) -> bool:
        """See `Credit.bounded`: link credit is always bounded."""
        return True

    @override
    def left(self) -> i64:
        return 0 if self.paused else self.granted

    @override
    def spend(self, messages: i64, bytes: i64) -> None:
        self.out += messages
        self.out_bytes += bytes
        self.granted -= messages
        self.delivery_count = (self.delivery_count + messages) % SERIAL

    @override
    def describe(self) -> str:
        return "a large message is being sent on its link" if self.paused else "its receiver has granted no credit"


ROUND: Final = 8
"""Least settlements of a round."""
CYCLE: Final = 16
"""Rounds with a full window between two measurements of the time in flight."""
GAIN: Final = 1.25
"""Ratio of the window to the needed credit. The excess is slack that lets the window grow."""
FULL: Final = 0.75
"""Mean part of the window that is in flight from which a round counts as full."""
STALL_S: Final = 1.0
"""Least seconds without a settlement after which a full window is doubled."""
STALL_TIMES: Final = 4.0
"""The same time as a multiple of the time in flight."""

_MEASURING: Final = 0
"""A round with a narrow window measures the time in flight."""
_GROWING: Final = 1
"""The window is doubled as long as the rate grows with it."""
_STEADY: Final = 2


class AdaptiveWindow:
    """The window of one consumer, in messages, within bounds. Times are monotonic seconds."""

    def __init__(self, least: i64, most: i64) -> None:
        self.least: i64 = least
        self.most: i64 = most
        self.window: i64 = least
        """Most unsettled deliveries now."""
        self.time_s: float = 0.0
        """Round trip and service time, in seconds, of a delivery that waits for no other delivery; 0 before the first
        measurement.
        """
        self.rate: float = 0.0
        """Settlements a second while the window was full: the higher rate of the last two rounds; 0 before the first
        round.
        """
        self.batch: i64 = 1
        """Most settlements at the same time in this cycle and the last cycle."""
        self._last_rate: float = 0.0
        """Rate of the last full round alone; the higher of two rounds hides one disturbed round."""
        self._phase: i64 = _MEASURING
        self._grown: bool = False
        """True after the first phase of growth."""
        self._rounds: i64 = 0
        """Number of full rounds left in the cycle."""
        self._since: float = -1.0
        """Start of the round; negative before the first delivery."""
        self._changed: float = 0.0
        """Time up to which `_area` counts."""
        self._area: float = 0.0
        """Deliveries in flight, integrated over the seconds of the round."""
        self._settled: i64 = 0
        self._target: i64 = ROUND
        """Settlements in the round, and the number of settlements that ends the round."""
        self._skipped: i64 = 0
        """Settlements to ignore before the next round: settlements of deliveries that were in flight when the window
        changed.
        """
        self._at_once: i64 = 0
        self._at: float = -1.0
        """Number of settlements at the same time, and that time."""
        self._newest_batch: i64 = 1
        """Largest batch of this cycle."""
        self._stalls: i64 = 0
        """Number of times that the window was doubled since the last settlement."""
        self._quiet_s: float = 0.0
        """Longest time without a settlement after which the window was doubled, since the last measurement."""

    def on_delivered(self, out: i64, now: float) -> None:
        """Add the time before new deliveries to the round; `out` is the number in flight until now."""
        if self._since < 0.0:
            self._begin(out, now)
        self._area += float(out) * (now - self._changed)
        self._changed = now

    def on_settled(self, count: i64, out: i64, now: float) -> None:
        """Count settlements; `out` is the number in flight before them. The window may change."""
        if self._since < 0.0:
            self._begin(out, now)
        self._area += float(out) * (now - self._changed)
        quiet_s = now - self._changed
        self._changed = now
        self._count_batch(count, now)
        left = out - count
        if self._stalls > 0:
            self._stalls = 0
            self._set(1)
            self._phase = _MEASURING
            self._grown = False
            self._skipped = left
            if quiet_s > self._quiet_s:
                self._quiet_s = quiet_s
        if self._skipped > 0:
            self._skipped -= count
            if self._skipped <= 0:
                self._begin(left, now)
            return
        self._settled += count
        if self._settled >= self._target and now > self._since:
            before = self.window
            self._finish(now)
            self._begin(left, now)
            if self.window != before:
                self._skipped = left

    def stall_s(self) -> float:
        """Return the seconds after the last settlement, or doubling, at which a full window is doubled."""
        seconds = STALL_TIMES * self.time_s
        if seconds < 2.0 * self._quiet_s:
            seconds = 2.0 * self._quiet_s
        if seconds < STALL_S:
            seconds = STALL_S
        return seconds * float(1 << (self._stalls if self._stalls < 20 else 20))

    def on_stalled(self) -> None:
        """Double a full window after `stall_s` without a settlement."""
        self._stalls += 1
        self._set(self.window * 2)

    def last_change(self) -> float:
        """Return when deliveries were last sent or settled."""
        return self._changed

    def _count_batch(self, count: i64, now: float) -> None:
        """Count settlements that came together: a client may collect that many before it settles."""
        if now == self._at:
            count += self._at_once
        self._at = now
        self._at_once = count
        if count > self._newest_batch:
            self._newest_batch = count
        if count > self.batch:
            self.batch = count
            if self.window < count:
                self._set(count)

    def _begin(self, out: i64, now: float) -> None:
        self._since = now
        self._changed = now
        self._area = 0.0
        self._settled = 0
        self._target = out if out > ROUND else ROUND

    def _finish(self, now: float) -> None:
        """Evaluate a round."""
        seconds = now - self._since
        rate = float(self._settled) / seconds
        time_s = self._area / float(self._settled)
        if self._phase == _MEASURING:
            self.time_s = time_s
            self._quiet_s = 0.0
            self._rounds = CYCLE
            self.batch = self._newest_batch
            self._newest_batch = 1
            if self._grown:
                self._phase = _STEADY
                self._fit()
            else:
                self.rate = rate
                self._last_rate = rate
                self._phase = _GROWING
                self._set(self.window * 2)
            return
        if self._area / seconds < FULL * float(self.window):
            if time_s < self.time_s:
                self.time_s = time_s
            return
        faster = rate >= GAIN * self.rate
        self.rate = rate if rate > self._last_rate else self._last_rate
        self._last_rate = rate
        if self._phase == _GROWING and faster:
            self._set(self.window * 2)
            return
        self._grown = True
        self._phase = _STEADY
        self._fit()
        self._rounds -= 1
        if self._rounds <= 0:
            self._phase = _MEASURING
            self._set(self.window // 2)

    def _fit(self) -> None:
        """Fit the window to rate and time."""
        needed = GAIN * self.rate * self.time_s
        widest = self.window * 2
        whole: i64 = widest
        if needed < float(widest):
            whole = i64(needed)
            if float(whole) < needed:
                whole += 1
        self._set(whole)

    def _set(self, window: i64) -> None:
        """Set the window, within the bounds and not below the batch."""
        if window < self.batch:
            window = self.batch
        if window > self.most:
            window = self.most
        if window < self.least:
            window = self.least
        self.window = window
