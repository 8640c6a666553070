"""Pace of a consumer: its adaptive window, its rate limit, and the monitor of slow consumers."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import ALONE, UNMATCHED, Consumer
from penstock.core.consume.context import ConsumeContext
from penstock.core.consume.rotation import wake
from penstock.flow.credit import AdaptiveWindow
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.token_bucket import TokenBucket, smooth


class ConsumerWindow(TimerHandler):
    """An adaptive window (see flow/credit.py), and the timer of a full window without settlements."""

    def __init__(self, broker: ConsumeContext, consumer: Consumer, least: i64, most: i64) -> None:
        super().__init__()
        self.broker = broker
        self.consumer = consumer
        self.adaptive = AdaptiveWindow(least, most)
        self.is_lifted: bool = False
        """True while the receiver drains: it asks for all deliveries that its credit allows."""

    def left(self) -> i64:
        """Return the deliveries that the window still admits."""
        if self.is_lifted:
            return UNLIMITED
        out, window = self.consumer.credit.out, self.adaptive.window
        return window - out if window > out else 0

    def took(self, messages: i64, now: float) -> None:
        """Count delivered messages."""
        self.adaptive.on_delivered(self.consumer.credit.out - messages, now)

    def settled(self, messages: i64) -> None:
        """Count settled messages, released messages included."""
        self.adaptive.on_settled(messages, self.consumer.credit.out + messages, self.broker.now)

    def lift(self, lifted: bool) -> None:
        """Suspend the window, or apply it again."""
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
            return NEVER  # A consumer without credit waits for it; the timer begins again when credit arrives.
        due = self._stalled_at()
        if now < due:
            return due
        adaptive.on_stalled()
        wake(consumer)
        return NEVER

    def _stalled_at(self) -> float:
        return self.adaptive.last_change() + self.adaptive.stall_s()

    def describe(self) -> str:
        """Return why no deliveries are left, as a phrase."""
        adaptive = self.adaptive
        measured = ""
        if adaptive.time_s > 0.0:
            measured = f", for {adaptive.rate:,.4g} messages/s of {adaptive.time_s * 1000:,.4g} ms each"
        return (
            f"out of its adaptive window: {int(self.consumer.credit.out):,} unacknowledged of "
            f"{int(adaptive.window):,}{measured}"
        )


class ConsumerRateLimiter(TimerHandler):
    """The maximum rate of a consumer (Artemis' consumerMaxRate): a token bucket, and the timer that wakes the consumer.

    In any second the consumer gets at most one message more than the rate, and the first message at once: see `smooth`.
    """

    def __init__(self, broker: ConsumeContext, consumer: Consumer, rate: float) -> None:
        super().__init__()
        self.broker = broker
        self.consumer = consumer
        self.rate = rate
        """Most messages a second."""
        self.bucket = TokenBucket(*smooth(rate), saves=False)

    def took(self, messages: i64, now: float) -> None:
        """Count delivered messages; sets the timer when the rate is used up."""
        self.bucket.take(float(messages), now)
        self.wait(now)

    @override
    def on_deadline(self, now: float) -> float:
        wake(self.consumer)
        return NEVER

    def wait(self, now: float) -> bool:
        """Set the timer for the next message; returns False if it may be delivered now."""
        ready = self.bucket.ready_at(now)
        if ready <= now:
            return False
        self.broker.timers.add(self, ready)
        return True


def forget(broker: ConsumeContext, consumer: Consumer) -> None:
    """Remove the timers and the scan of a closed consumer."""
    if consumer.adaptive_window is not None:
        broker.timers.drop(consumer.adaptive_window)
        consumer.adaptive_window = None
    if consumer.rate_limiter is not None:
        broker.timers.drop(consumer.rate_limiter)
        consumer.rate_limiter = None
    if consumer.slow_monitor is not None:
        broker.timers.drop(consumer.slow_monitor)
        consumer.slow_monitor = None
    consumer.scan = None


class SlowConsumerMonitor(TimerHandler):
    """Check in every period whether a consumer settles fewer messages a second than required.

    A consumer is slow only if a message has waited for it through the whole period; a consumer with a rate limit never
    is. A slow consumer is reported once until it recovers (Artemis' slow-consumer-policy).
    """

    def __init__(self, broker: ConsumeContext, consumer: Consumer, rate: float, period_s: float, cancels: bool) -> None:
        super().__init__()
        self.broker = broker
        self.consumer = consumer
        self.rate = rate
        """Least messages a second that the consumer must settle."""
        self.period_s = period_s
        self.cancels = cancels
        """True if a slow consumer is cancelled; its connection and channel stay open."""
        self.slow: bool = False
        self._settled: i64 = consumer.settled_count()
        self._since: float = broker.now

    @override
    def on_deadline(self, now: float) -> float:
        consumer = self.consumer
        if consumer not in consumer.queue.consumers:
            return NEVER
        settled = consumer.settled_count() - self._settled
        took_s = now - self._since
        oldest = consumer.queue.ready_queue.next()
        kept_waiting = oldest is not None and oldest.arrived <= self._since and consumer.state != UNMATCHED
        paced = consumer.rate_limiter is not None and consumer.rate_limiter.rate <= self.rate
        slow = kept_waiting and not paced and float(settled) < self.rate * took_s
        if slow and not self.slow:
            self.broker.emit_slow_consumer(consumer, float(settled) / took_s, self.rate, self.cancels)
        self.slow = slow
        self._settled = consumer.settled_count()
        self._since = now
        return NEVER if slow and self.cancels else now + self.period_s
