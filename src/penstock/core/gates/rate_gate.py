"""Rate limits of producers, users, connections and addresses as gates: messages and bytes a second."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.settings.limits import Limits
from penstock.flow.gate import Gate, GateOwner
from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.flow.token_bucket import TokenBucket
from penstock.flow.turns import Turns

CREDIT_S: Final = 0.1
"""Most credit of a sender, in seconds of the rate: enough for a round trip, and little enough that a saved-up burst
passes soon.
"""


class RateBuckets:
    """The tokens of a rate: messages and bytes (charges); None for no limit."""

    __slots__ = ("messages", "bytes")

    def __init__(self, messages: TokenBucket | None = None, bytes: TokenBucket | None = None) -> None:
        self.messages = messages
        self.bytes = bytes

    def limit(self, limits: Limits) -> None:
        """Apply changed limits; a bucket with an unchanged rate keeps its tokens."""
        refill = None if limits.rate_messages is None else limits.refill_messages
        saves = refill is None or refill == limits.rate_messages
        self.messages = _bucket(self.messages, refill, limits.burst_messages, saves)
        self.bytes = _bucket(self.bytes, limits.rate_bytes, limits.burst_bytes, True)

    def copy(self) -> RateBuckets:
        """Return a copy with the same tokens."""
        messages, size = self.messages, self.bytes
        return RateBuckets(None if messages is None else messages.copy(), None if size is None else size.copy())

    def ready_at(self, now: float) -> float:
        """Return when the next message may be taken: monotonic seconds, `now` if at once."""
        ready = now
        if self.messages is not None:
            ready = self.messages.ready_at(now)
        if self.bytes is not None:
            ready = max(ready, self.bytes.ready_at(now))
        return ready

    def take(self, messages: i64, bytes: i64, now: float) -> None:
        """Take messages and their bytes."""
        if self.messages is not None:
            self.messages.take(float(messages), now)
        if self.bytes is not None:
            self.bytes.take(float(bytes), now)

    def whole(self, wanted: i64, charge: i64, now: float) -> i64:
        """Return for how many messages of this charge there are tokens: at most `wanted`, at least one."""
        most = wanted
        if self.messages is not None:
            most = min(most, i64(self.messages.whole(now)))
        if self.bytes is not None:
            most = min(most, i64(self.bytes.whole(now)) // charge)
        return most if most > 0 else 1  # The gate is open: a message larger than the burst passes too.

    def in_s(self, seconds: float, charge: i64) -> i64:
        """Return the messages of this charge that pass at once or in so many seconds, whichever is more; at least 1."""
        most: float = NEVER
        if self.messages is not None:
            most = self.messages.most_in_s(seconds)
        if self.bytes is not None:
            most = min(most, self.bytes.most_in_s(seconds) / float(charge))
        return i64(int(most)) if most >= 1.0 else 1


class RateGate(TimerHandler, GateOwner):
    """A gate that closes when its tokens are used up and opens by a timer when tokens are available again.

    Credit takes tokens when it is granted, so that senders get credit in turn, at the rate. A sender may save up
    credit. So messages also take tokens of their own when they pass: messages that arrive faster than the rate wait
    here.
    """

    def __init__(self, name: str, turns: Turns, deadlines: Timers) -> None:
        super().__init__()
        self.turns = turns
        self.timers = deadlines
        self.gate = Gate("rate", name, turns.transitions)
        self.gate.owner = self
        self.gate.frequent = True
        self.limits = Limits()
        """The rates in force."""
        self.passes = RateBuckets()
        """Tokens for messages that pass."""
        self.grants: RateBuckets | None = None
        """Tokens for messages that are granted, or pass without credit; None before the first grant, when `passes`
        counts both.
        """

    def limit(self, limits: Limits) -> None:
        """Apply changed limits."""
        self.limits = limits
        self.passes.limit(limits)
        if self.grants is not None:
            self.grants.limit(limits)

    @override
    def ready_at(self, now: float) -> float:
        """Return when the next message may pass: monotonic seconds, `now` or earlier if at once."""
        ready = self.passes.ready_at(now)
        return ready if self.grants is None else max(ready, self.grants.ready_at(now))

    @override
    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        return self.ready_at(now) <= now

    @override
    def admits_granted(self, now: float) -> bool:
        return self.passes.ready_at(now) <= now

    @override
    def passed(self, charge: i64, now: float, granted: bool = False) -> None:
        self.passes.take(1, charge, now)
        if self.grants is not None and not granted:
            self.grants.take(1, charge, now)
        self._judge(now)

    @override
    def credit_limit(self, charge: i64) -> i64:
        return self.passes.in_s(CREDIT_S, charge)

    @override
    def grantable(self, wanted: i64, charge: i64, now: float) -> i64:
        grants = self.passes if self.grants is None else self.grants
        return grants.whole(wanted, charge, now) if wanted > 0 else 0

    @override
    def granted(self, messages: i64, charge: i64, now: float) -> None:
        if self.grants is None:
            self.grants = self.passes.copy()
        self.grants.take(messages, messages * charge, now)
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
        """Remove the timer once the gate is on no road any more."""
        self.timers.drop(self)

    def _judge(self, now: float) -> None:
        ready = self.ready_at(now)
        if ready > now:
            self.gate.close(0, 0, now)
            self.timers.add(self, ready)
        else:
            self.gate.reopen(0, 0, now)


def _bucket(before: TokenBucket | None, rate: float | None, burst: float, saves: bool) -> TokenBucket | None:
    if rate is None:
        return None
    if before is not None and before.rate == rate and before.burst == burst and before.saves == saves:
        return before
    return TokenBucket(rate, burst, saves=saves)


def rated(limits: Limits) -> bool:
    """Return whether any rate is limited."""
    return limits.rate_messages is not None or limits.rate_bytes is not None
