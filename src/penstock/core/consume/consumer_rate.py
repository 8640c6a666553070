"""Rate limit of a consumer, and the monitor of slow consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.consumer_lists import UNMATCHED
from penstock.core.consume.rotation import wake
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.token_bucket import TokenBucket, smooth

if TYPE_CHECKING:
    from penstock.core.consume.context import ConsumeContext


class ConsumerRateLimiter(TimerHandler):
    """The maximum rate of a consumer (Artemis' consumerMaxRate): a token bucket, and the timer that wakes the consumer.

    In any second it gets at most one message more than the rate, and the first one at once: see `smooth`.
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
    """Remove what a closed consumer has and what refers to it: its timers and its scan."""
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

    Only if a message has waited for it through the whole period: the consumer of an idle queue is not slow, nor one
    with a rate limit. Reported once for as long as it lasts (Artemis' slow-consumer-policy).
    """

    def __init__(self, broker: ConsumeContext, consumer: Consumer, rate: float, period_s: float, cancels: bool) -> None:
        super().__init__()
        self.broker = broker
        self.consumer = consumer
        self.rate = rate
        """Messages a second that it must settle at least."""
        self.period_s = period_s
        self.cancels = cancels
        """True if a slow one is cancelled; its connection and its channel stay open."""
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
