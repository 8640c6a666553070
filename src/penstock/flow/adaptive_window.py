"""An adaptive window: how many unsettled deliveries a consumer needs to be busy, and not more.

Little's law says what that is: the rate at which it settles, times how long a delivery takes that waits for no other
one. The second is the round trip and the service time. Both are measured, and never in the same round: with a full
window deliveries wait at the client, and with a narrow one the client waits for deliveries.

Theory of operation. A round is a number of settlements. The mean number in flight, integrated over the time of a round
and divided by the rate, is the mean time in flight of a delivery. In most rounds the window is full: they measure the
rate. After sixteen of them the window is halved and let run empty to that, and one round measures the time. The next
window is a quarter more than rate times time: the quarter is how a window that is too small grows. A time that was
measured too long, with deliveries that waited, is halved at least with every such cycle.

Rounds in which the window was not full say little: the consumer waited for messages, or for something else. A window
is never below what the client has settled at once, for it may wait until it has so many. If a full window is not
settled at all, it is doubled after a second, then after two more and so on: such a client is met so as well. Then
all begins again, as in TCP after a timeout.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

ROUND: Final = 8
"""Least settlements of a round."""
CYCLE: Final = 16
"""Rounds with a full window between two measurements of the time in flight."""
GAIN: Final = 1.25
"""The window in terms of what is needed: the rest is slack, by which it grows."""
FULL: Final = 0.75
"""Mean part of the window that is in flight from which a round counts as full."""
STALL_S: Final = 1.0
"""Least seconds without a settlement after which a full window is doubled."""
STALL_TIMES: Final = 4.0
"""The same as a multiple of the time in flight."""

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
        """Round trip and service time of a delivery that waits for no other one; 0 before the first measurement."""
        self.rate: float = 0.0
        """Settlements a second while the window was full: of the last two rounds the higher one; 0 before the first."""
        self.batch: i64 = 1
        """Most settlements at the same time, of this cycle and the last one."""
        self._last_rate: float = 0.0
        """The rate of the last full round alone: one round that was disturbed changes little."""
        self._phase: i64 = _MEASURING
        self._grown: bool = False
        """True once the first growth is over."""
        self._rounds: i64 = 0
        """Full rounds left in the cycle."""
        self._since: float = -1.0
        """Begin of the round; negative before the first delivery."""
        self._changed: float = 0.0
        """Time up to which `_area` counts."""
        self._area: float = 0.0
        """Deliveries in flight, integrated over the seconds of the round."""
        self._settled: i64 = 0
        self._target: i64 = ROUND
        """Settlements in the round, and those that end it."""
        self._skipped: i64 = 0
        """Settlements before the next round: of what was in flight when the window changed."""
        self._at_once: i64 = 0
        self._at: float = -1.0
        """Settlements at the same time, and when that was."""
        self._newest_batch: i64 = 1
        """Largest batch of this cycle."""
        self._stalls: i64 = 0
        """Number of times that the window was doubled since the last settlement."""
        self._quiet_s: float = 0.0
        """The longest time without a settlement before which it was doubled, since the last measurement."""

    def on_delivered(self, out: i64, now: float) -> None:
        """Count time before deliveries are sent, with the number that was in flight until now."""
        if self._since < 0.0:
            self._begin(out, now)
        self._area += float(out) * (now - self._changed)
        self._changed = now

    def on_settled(self, count: i64, out: i64, now: float) -> None:
        """Count settlements, with the number that was in flight before them; the window may change."""
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
        """Double a full window that nothing was settled of for `stall_s`."""
        self._stalls += 1
        self._set(self.window * 2)

    def last_change(self) -> float:
        """Return when deliveries were last sent or settled."""
        return self._changed

    def _count_batch(self, count: i64, now: float) -> None:
        """Count settlements that came together: a client may wait until it has so many."""
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
