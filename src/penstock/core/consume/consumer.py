"""Consumers: subscriptions of sessions to queues, the lists in which they wait, and batches of deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.message import Message
from penstock.core.queue.context import Grouping, Subscriber
from penstock.flow.credit import UNBOUNDED, Credit
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.consume.consumer_pace import ConsumerRateLimiter, ConsumerWindow, SlowConsumerMonitor
    from penstock.core.consume.context import ConsumeContext
    from penstock.core.consume.scan import Scan
    from penstock.core.consume.session import Session
    from penstock.core.queue.queue import Queue

GONE: Final = 0
"""Not subscribed: not yet, or no longer."""
READY: Final = 1
"""In the rotation of its queue."""
STANDBY: Final = 2
"""Waiting to become the single active consumer."""
ALONE: Final = 3
"""Waiting for its own credit, or for its own rate."""
LISTED: Final = 4
"""Waiting in a list of its session, or of its connection."""
UNFIT: Final = 5
"""Waiting because the next message of its queue exceeds its byte window, or its session's."""
UNMATCHED: Final = 6
"""Waiting for new messages: the consumer's selector, or browser, has passed all present messages."""
YIELDING: Final = 7
"""The single active consumer of a quorum queue that yields to a higher priority once its deliveries are settled."""


class ConsumerList:
    """A ring of consumers, with a first consumer."""

    def __init__(self) -> None:
        self.first: Consumer | None = None
        self.size: i64 = 0

    def insert(self, consumer: Consumer, successor: Consumer | None) -> None:
        """Insert a consumer right before another; before the first is at the end."""
        consumer.list = self
        self.size += 1
        if successor is None:
            self.first = consumer
            consumer.before = consumer
            consumer.after = consumer
            return
        before = successor.before
        assert before is not None
        before.after = consumer
        consumer.before = before
        consumer.after = successor
        successor.before = consumer

    def append(self, consumer: Consumer) -> None:
        """Append a consumer."""
        self.insert(consumer, self.first)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        before, after = consumer.before, consumer.after
        assert before is not None and after is not None
        before.after = after
        after.before = before
        if self.first is consumer:
            self.first = None if after is consumer else after
        consumer.before = None
        consumer.after = None
        consumer.list = None
        self.size -= 1


class Round:
    """One round of a ring of consumers: each gets the same share of the messages present at its start."""

    __slots__ = ("share",)

    def __init__(self) -> None:
        self.share: i64 = 0
        """Messages for each consumer; 0 before the first round."""

    def begin(self, available: i64, consumers: i64) -> None:
        """Begin a round: divide the messages, at least one for each."""
        self.share = available // consumers if available > consumers else 1


class RoundRobin(ConsumerList):
    """Consumers of the same priority that may have credit, in round-robin order.

    A round begins when it is the turn of the first consumer of the ring.
    """

    def __init__(self, priority: i64) -> None:
        super().__init__()
        self.priority: i64 = priority
        self.next: Consumer | None = None
        """The next consumer."""
        self.round = Round()

    def next_share(self, available: i64) -> i64:
        """Return the share of the next consumer; the round begins if this is the first consumer."""
        if self.next is self.first or self.round.share == 0:
            self.round.begin(available, self.size)
        return self.round.share

    def finish_turn(self) -> None:
        """Pass the turn to the following consumer."""
        assert self.next is not None
        self.next = self.next.after

    def join(self, consumer: Consumer) -> None:
        """Insert a consumer right before the next consumer: the last in turn (as in RabbitMQ)."""
        self.insert(consumer, self.next)
        if self.next is None:
            self.next = consumer

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; the order of the others does not change."""
        if self.next is consumer:
            self.next = None if consumer.after is consumer else consumer.after
        super().remove(consumer)


class WaitList(ConsumerList):
    """Consumers that wait for the same resource, first in, first out.

    Consumers are woken one at a time: a consumer that uses up the resource leaves the others in the list, so each has
    its share. While any consumer waits, a consumer that has not been woken joins at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wake_scheduled: bool = False
        """True if the broker will wake consumers of the list."""

    def is_open(self) -> bool:
        """Return whether the resource is available."""
        raise NotImplementedError

    def schedule_wake(self) -> None:
        """Schedule a wake-up by the broker, after the consumers that need not wait."""
        first = self.first
        if first is not None and not self.wake_scheduled:
            broker: ConsumeContext | None = first.broker
            assert broker is not None
            self.wake_scheduled = True
            broker.waiting.append(self)


BATCH_MESSAGES: Final = 256
"""Most messages of one consumer in one round, so that a fast consumer does not delay others."""
BATCH_BYTES: Final = 256 * 1024
"""Bytes after which a batch ends, a bound of the output written at once to a connection."""


class Consumer(Subscriber):
    """A subscription of a session to a queue."""

    def __init__(
        self,
        tag: str,
        session: Session,
        queue: Queue,
        no_ack: bool,
        exclusive: bool,
        window: i64,
        window_bytes: i64 = UNBOUNDED,
        priority: i64 = 0,
    ) -> None:
        self.tag = tag
        self.session = session
        self.queue = queue
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch: i64 = window
        """Prefetch as the client requested it (basic.qos with global=false)."""
        self.credit = Credit() if no_ack else Credit(window, window_bytes)
        """The consumer's own credit: a prefetch and a byte window, which do not apply without acknowledgements (as in
        RabbitMQ).

        A protocol with link credit replaces this object before the subscription, in both modes.
        """
        self.shared = session.credit
        """Prefetch of all consumers of the session (basic.qos with global=true)."""
        self.rate_limiter: ConsumerRateLimiter | None = None
        """Rate limiter; None without a rate limit."""
        self.adaptive_window: ConsumerWindow | None = None
        """Adaptive window, within the credit; None without one."""
        self.slow_monitor: SlowConsumerMonitor | None = None
        """Slow-consumer monitor; None without one."""
        self.arguments: dict[str, object] = {}
        self.arguments_charge: int = 0
        """Charge of the arguments and the tag in the metadata memory."""
        self.delivered: i64 = 0
        self.sampled_delivered: i64 = 0  # Counts that the flow log has recorded.
        self.priority: i64 = priority
        """Consumers with a higher priority are served first while they have credit (RabbitMQ's x-priority)."""
        self.broker: ConsumeContext | None = None
        """The broker to notify when the consumer may have credit again; None while it is not subscribed."""
        self.state: i64 = GONE
        """State, from GONE to YIELDING, which includes the kind of list that the consumer is in."""
        self.list: ConsumerList | None = None
        self.before: Consumer | None = None
        self.after: Consumer | None = None
        """The consumer's list, and its neighbours in it."""
        self.woken: bool = False
        """True if the consumer has waited and passes waiting consumers until its next turn."""
        self.own_timeout_s: float = NEVER
        """Acknowledgement timeout that the consumer requested, in seconds; infinity if it requested none."""
        self.scan: Scan | None = None
        """The consumer's own scan of the queue, set before the subscription; None: it takes the next message."""

    @override
    def credit_left(self, now: float) -> i64:
        if not self.session.receiving():
            return 0
        room = self.shared.left()
        if room > 0:
            if self.no_ack:
                room = UNLIMITED  # Credit of the channel is not a part of its own state, as in RabbitMQ.
            own = self.credit.left()
            if own < room:
                room = own
            if room > 0 and self.has_byte_limit() and not self.next_fits():
                return 0
        if self.adaptive_window is not None and room > 0:
            admitted = self.adaptive_window.left()
            if admitted < room:
                room = admitted
        if self.rate_limiter is not None and room > 0:
            allowed: i64 = self.rate_limiter.bucket.whole(now)
            return allowed if allowed < room else room
        return room

    def timeout_s(self) -> float:
        """Return the seconds within which a delivery must be acknowledged: at most the queue's present limit."""
        limit_s = self.queue.settings.consumer_timeout_s
        return limit_s if limit_s < self.own_timeout_s else self.own_timeout_s

    def detach(self) -> None:
        """Leave the present list, if there is one."""
        listed = self.list
        if listed is not None:
            listed.remove(self)
            if self.state == UNFIT or listed is self.session.line:
                self.session.held -= 1
        self.state = GONE

    def has_byte_limit(self) -> bool:
        """Return whether a byte window limits the consumer: its own, or its channel's."""
        return not self.no_ack and (self.credit.window_bytes >= 0 or self.shared.window_bytes >= 0)

    def accepts(self, messages: i64, bytes: i64, charge: i64) -> bool:
        """Return whether the byte windows admit one more message of this charge in addition to these."""
        return self.credit.admits(messages, bytes, charge) and self.shared.admits(messages, bytes, charge)

    def settled_count(self) -> i64:
        """Return the number of messages that the consumer has settled or requeued."""
        return self.delivered - self.credit.out

    def browses(self) -> bool:
        """Return whether the consumer is a browser, which reads copies and takes no messages."""
        return self.scan is not None and self.scan.copies

    def available(self) -> i64:
        """Return the number of ready messages that the consumer may still get, messages on the disk included.

        With a selector this is an upper bound: all messages that it has not checked.
        """
        return self.queue.waiting() if self.scan is None else self.scan.available()

    def obstacles(self, now: float) -> list[str]:
        """Return the reasons why the consumer gets no messages, a phrase for each condition of `credit_left`."""
        obstacles: list[str] = []
        if not self.session.receiving():
            obstacles.append(self.session.why_not_receiving())
        shared = self.shared
        if self.credit.left() == 0:
            obstacles.append(self.credit.describe())
        if shared.left() == 0:
            obstacles.append(f"its channel is {shared.describe()}")
        if self.has_byte_limit() and not self.next_fits():
            for prefix, credit in (("", self.credit), ("its channel is ", shared)):
                if credit.window_bytes >= 0:
                    obstacles.append(
                        f"{prefix}out of credit: {int(credit.out_bytes):,} bytes unacknowledged "
                        f"of a window of {int(credit.window_bytes):,}"
                    )
        if self.adaptive_window is not None and self.adaptive_window.left() == 0:
            obstacles.append(self.adaptive_window.describe())
        if self.rate_limiter is not None and self.rate_limiter.bucket.ready_at(now) > now:
            wait_ms = (self.rate_limiter.bucket.ready_at(now) - now) * 1000
            obstacles.append(f"at its rate of {self.rate_limiter.rate:g} messages/s, the next one in {wait_ms:.0f} ms")
        if not obstacles and self.state == UNMATCHED and self.scan is not None:
            obstacles.append(self.scan.obstacle())
        if not obstacles and self.state == LISTED:
            obstacles.append("consumers of its channel or connection that have waited longer come first")
        return obstacles

    def next_fits(self) -> bool:
        """Return whether the next message of the queue fits into the byte windows."""
        if self.scan is not None:
            return self.scan.next_fits()
        oldest = self.queue.ready_queue.next()
        return oldest is None or self.accepts(0, 0, oldest.charge)


class GroupTaker(Grouping):
    """The message groups of a queue, from which a basic.get takes a message."""

    def take_one(self, consumer: Consumer, now: float) -> Batch | None:
        """Take one message of no held group for a basic.get; None if there is none."""
        raise NotImplementedError


class Batch:
    """Consecutive deliveries to one consumer, stored until all are settled.

    The entry of a settled message is set to None, which frees the memory.
    """

    __slots__ = ("consumer", "first", "messages", "left", "charge", "at", "waits_for_disk")

    def __init__(self, consumer: Consumer, first: i64, messages: list[Message | None], charge: i64, at: float) -> None:
        self.consumer = consumer
        self.first: i64 = first
        """Delivery tag of the first message."""
        self.messages = messages
        self.left: i64 = len(messages)
        """Number of unsettled messages."""
        self.charge: i64 = charge
        """Sum of the messages' charges."""
        self.at: float = at
        """Time of delivery."""
        self.waits_for_disk: bool = False
        """True if the delivery must wait until the open journal group is on disk (see `record_delivery`)."""

    def last(self) -> i64:
        """Return the delivery tag of the last message."""
        return self.first + len(self.messages) - 1
