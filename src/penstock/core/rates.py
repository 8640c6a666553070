"""The rate of a producer, user, connection or address as a gate: so many messages, so many bytes a second."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.limits import Limits
from penstock.flow.deadlines import NEVER, Deadlines, Party
from penstock.flow.gate import Gate, Guarded
from penstock.flow.rate import Bucket
from penstock.flow.turns import Turns


class RateGate(Party, Guarded):
    """Closes when a bucket is empty, opens when it has something again; no clock ticks meanwhile."""

    def __init__(self, name: str, turns: Turns, deadlines: Deadlines) -> None:
        super().__init__()
        self.turns = turns
        self.deadlines = deadlines
        self.gate = Gate("rate", name, turns.crossings)
        self.gate.owner = self
        self.gate.often = True
        self.messages: Bucket | None = None
        """Messages a second; None is no bound."""
        self.bytes: Bucket | None = None
        """Bytes (charges) a second; None is no bound."""

    def limit(self, limits: Limits) -> None:
        """Follow these limits from now on; a bucket whose rate stays the same keeps what is in it."""
        self.messages = _bucket(self.messages, limits.rate_messages, limits.burst_messages)
        self.bytes = _bucket(self.bytes, limits.rate_bytes, limits.burst_bytes)

    def ready_at(self, now: float) -> float:
        """Return when the next message may pass: monotonic seconds, `now` or earlier for at once."""
        ready = now
        if self.messages is not None:
            ready = self.messages.ready_at(now)
        if self.bytes is not None:
            ready = max(ready, self.bytes.ready_at(now))
        return ready

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `Guarded.admits`."""
        return self.ready_at(now) <= now

    def passed(self, charge: i64, now: float) -> None:
        """See `Guarded.passed`."""
        if self.messages is not None:
            self.messages.take(1, now)
        if self.bytes is not None:
            self.bytes.take(float(charge), now)
        self._judge(now)

    def review(self, now: float) -> None:
        """See `Guarded.review`."""
        self._judge(now)
        if self.gate.open and self.gate.waiters:
            self.turns.enlist(self.gate)

    def on_deadline(self, now: float) -> float:
        """See `Party.on_deadline`."""
        self.review(now)
        return NEVER if self.gate.open else self.ready_at(now)

    def drop(self) -> None:
        """Forget its deadline: nobody has it on the road any more."""
        self.deadlines.drop(self)

    def _judge(self, now: float) -> None:
        ready = self.ready_at(now)
        if ready > now:
            self.gate.close(0, 0, now)
            self.deadlines.add(self, ready)
        else:
            self.gate.reopen(0, 0, now)


def _bucket(before: Bucket | None, rate: float | None, burst: float) -> Bucket | None:
    if rate is None:
        return None
    if before is not None and before.rate == rate and before.burst == burst:
        return before
    return Bucket(rate, burst)


def rated(limits: Limits) -> bool:
    """Tell whether any rate is limited."""
    return limits.rate_messages is not None or limits.rate_bytes is not None
