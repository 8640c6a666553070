"""Rate limits of producers, users, connections and addresses as gates: messages and bytes a second."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.settings.limits import Limits
from penstock.flow.gate import Gate, GateOwner
from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.flow.token_bucket import TokenBucket
from penstock.flow.turns import Turns


class RateGate(TimerHandler, GateOwner):
    """A gate that closes when a token bucket is empty and opens by a timer when it has tokens again."""

    def __init__(self, name: str, turns: Turns, deadlines: Timers) -> None:
        super().__init__()
        self.turns = turns
        self.timers = deadlines
        self.gate = Gate("rate", name, turns.transitions)
        self.gate.owner = self
        self.gate.frequent = True
        self.messages: TokenBucket | None = None
        """Bucket of messages; None for no limit."""
        self.bytes: TokenBucket | None = None
        """Bucket of bytes (charges); None for no limit."""

    def limit(self, limits: Limits) -> None:
        """Apply changed limits; a bucket with an unchanged rate keeps its tokens."""
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

    @override
    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        return self.ready_at(now) <= now

    @override
    def passed(self, charge: i64, now: float) -> None:
        if self.messages is not None:
            self.messages.take(1, now)
        if self.bytes is not None:
            self.bytes.take(float(charge), now)
        self._judge(now)

    @override
    def grantable(self, wanted: i64, charge: i64, now: float) -> i64:
        most = wanted
        if self.messages is not None:
            most = min(most, i64(self.messages.whole(now)))
        if self.bytes is not None:
            most = min(most, i64(self.bytes.whole(now)) // charge)
        if wanted <= 0:
            return 0
        return most if most > 0 else 1  # Its gate is open: a larger message than the burst passes too.

    @override
    def granted(self, messages: i64, charge: i64, now: float) -> None:
        if self.messages is not None:
            self.messages.take(float(messages), now)
        if self.bytes is not None:
            self.bytes.take(float(messages * charge), now)
        self._judge(now)

    @override
    def update_gate(self, now: float) -> None:
        self._judge(now)
        if self.gate.open and self.gate.has_line():
            self.turns.schedule(self.gate)

    @override
    def describe_refusal(self) -> str:
        return f"the rate of {self.gate.name} is used up"

    @override
    def on_deadline(self, now: float) -> float:
        self.update_gate(now)
        return NEVER if self.gate.open else self.ready_at(now)

    def drop(self) -> None:
        """Remove its timer once it is on no road any more."""
        self.timers.drop(self)

    def _judge(self, now: float) -> None:
        ready = self.ready_at(now)
        if ready > now:
            self.gate.close(0, 0, now)
            self.timers.add(self, ready)
        else:
            self.gate.reopen(0, 0, now)


def _bucket(before: TokenBucket | None, rate: float | None, burst: float) -> TokenBucket | None:
    if rate is None:
        return None
    if before is not None and before.rate == rate and before.burst == burst:
        return before
    return TokenBucket(rate, burst)


def rated(limits: Limits) -> bool:
    """Return whether any rate is limited."""
    return limits.rate_messages is not None or limits.rate_bytes is not None
