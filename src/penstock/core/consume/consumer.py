"""A consumer: the subscription of a session to a queue, and batches of its deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.consumer_lists import GONE, LISTED, UNFIT, UNMATCHED
from penstock.core.message import Message
from penstock.core.queue.outlets import Subscriber
from penstock.flow.credit import UNBOUNDED, Credit
from penstock.flow.level import UNLIMITED

if TYPE_CHECKING:
    from penstock.core.consume.consumer_lists import ConsumerList
    from penstock.core.consume.consumer_rate import ConsumerRateLimiter, SlowConsumerMonitor
    from penstock.core.consume.consumer_window import ConsumerWindow
    from penstock.core.consume.context import ConsumeContext
    from penstock.core.consume.session import Session
    from penstock.core.queue.queue import Queue

BATCH_MESSAGES: Final = 256
"""Most messages of one consumer in one round, so that a fast one does not delay the others."""
BATCH_BYTES: Final = 256 * 1024
"""Bytes after which a batch ends: they bound the output written at once to a connection."""


class Scan:
    """The way of one consumer through its queue, where it does not simply take the next message."""

    copies: bool = False
    """True if it reads copies, and takes nothing (a browser)."""

    def check(self) -> None:
        """Raise a BrokerError if its queue cannot be scanned so."""
        raise NotImplementedError

    def begin(self) -> None:
        """Begin when its consumer is subscribed: the messages of the queue have an index then."""
        raise NotImplementedError

    def end(self) -> None:
        """End when its consumer is gone."""
        raise NotImplementedError

    def take(self, room: i64, now: float) -> Batch | None:
        """Look at further messages, a slice of them; return a batch of at most `room`, or None if none was found."""
        raise NotImplementedError

    def has_more(self) -> bool:
        """Return whether there are messages that it has not looked at."""
        raise NotImplementedError

    def is_reading(self) -> bool:
        """Return whether further messages will come without any event from outside, such as pages from the disk."""
        raise NotImplementedError

    def memory(self) -> int:
        """Return the bytes of its selector, which count with the arguments of its consumer."""
        raise NotImplementedError

    def next_fits(self) -> bool:
        """Return whether the next message fits into the byte windows, as far as it is known."""
        raise NotImplementedError

    def available(self) -> i64:
        """Return an upper bound of the messages that it may still get, those on the disk included."""
        raise NotImplementedError

    def obstacle(self) -> str:
        """Return the reason why its consumer gets nothing when it has looked at all messages, as a phrase."""
        raise NotImplementedError


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
        """Its prefetch as it was asked for (basic.qos with global=false)."""
        self.credit = Credit() if no_ack else Credit(window, window_bytes)
        """Its own credit: a prefetch and a byte window, which do not apply without acknowledgements (as in RabbitMQ).

        A protocol with link credit replaces it before the subscription, in both modes.
        """
        self.shared = session.credit
        """The prefetch of all consumers of its session (basic.qos with global=true)."""
        self.rate_limiter: ConsumerRateLimiter | None = None
        """Its rate limit; None for no limit."""
        self.adaptive_window: ConsumerWindow | None = None
        """Its adaptive window, within its credit; None for none."""
        self.slow_monitor: SlowConsumerMonitor | None = None
        """Its slow-consumer monitor; None if there is none."""
        self.arguments: dict[str, object] = {}
        self.arguments_charge: int = 0
        """Charge of its arguments and its tag in the metadata memory."""
        self.delivered: i64 = 0
        self.sampled_delivered: i64 = 0  # Those that the flow log has recorded.
        self.priority: i64 = priority
        """Consumers with a higher priority are served first while they have credit (RabbitMQ's x-priority)."""
        self.broker: ConsumeContext | None = None
        """The broker to notify when it may have credit again; None while it is not subscribed."""
        self.state: i64 = GONE
        """State, with the list that it is in: see consumer_lists.py."""
        self.list: ConsumerList | None = None
        self.before: Consumer | None = None
        self.after: Consumer | None = None
        """The list that it is in, and its neighbours there."""
        self.woken: bool = False
        """True if it has waited and passes waiting consumers until its next turn."""
        self.scan: Scan | None = None
        """Its own way through the queue, set before the subscription; None: it takes the next message."""

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

    def detach(self) -> None:
        """Leave its list, if it is in one."""
        listed = self.list
        if listed is not None:
            listed.remove(self)
            if self.state == UNFIT or listed is self.session.line:
                self.session.held -= 1
        self.state = GONE

    def has_byte_limit(self) -> bool:
        """Return whether a byte window limits it: its own, or its channel's."""
        return not self.no_ack and (self.credit.window_bytes >= 0 or self.shared.window_bytes >= 0)

    def accepts(self, messages: i64, bytes: i64, charge: i64) -> bool:
        """Return whether the byte windows admit one more message of this charge besides these."""
        return self.credit.admits(messages, bytes, charge) and self.shared.admits(messages, bytes, charge)

    def settled_count(self) -> i64:
        """Return the number of messages it has settled or requeued."""
        return self.delivered - self.credit.out

    def browses(self) -> bool:
        """Return whether it reads copies, and takes nothing."""
        return self.scan is not None and self.scan.copies

    def available(self) -> i64:
        """Return the number of ready messages that it may still get, those on the disk included.

        With a selector it is an upper bound: all that it has not looked at.
        """
        return self.queue.waiting() if self.scan is None else self.scan.available()

    def obstacles(self, now: float) -> list[str]:
        """Return the reasons why it gets no messages, a phrase for each condition of `credit_left`."""
        found: list[str] = []
        if not self.session.receiving():
            found.append(self.session.why_not_receiving())
        shared = self.shared
        if self.credit.left() == 0:
            found.append(self.credit.describe())
        if shared.left() == 0:
            found.append(f"its channel is {shared.describe()}")
        if self.has_byte_limit() and not self.next_fits():
            for prefix, credit in (("", self.credit), ("its channel is ", shared)):
                if credit.window_bytes >= 0:
                    found.append(
                        f"{prefix}out of credit: {int(credit.out_bytes):,} bytes unacknowledged "
                        f"of a window of {int(credit.window_bytes):,}"
                    )
        if self.adaptive_window is not None and self.adaptive_window.left() == 0:
            found.append(self.adaptive_window.describe())
        if self.rate_limiter is not None and self.rate_limiter.bucket.ready_at(now) > now:
            wait_ms = (self.rate_limiter.bucket.ready_at(now) - now) * 1000
            found.append(f"at its rate of {self.rate_limiter.rate:g} messages/s, the next one in {wait_ms:.0f} ms")
        if not found and self.state == UNMATCHED and self.scan is not None:
            found.append(self.scan.obstacle())
        if not found and self.state == LISTED:
            found.append("consumers of its channel or connection that have waited longer come first")
        return found

    def next_fits(self) -> bool:
        """Return whether the next message of its queue fits into the byte windows."""
        if self.scan is not None:
            return self.scan.next_fits()
        oldest = self.queue.ready_queue.next()
        return oldest is None or self.accepts(0, 0, oldest.charge)


class Batch:
    """Consecutive deliveries to one consumer, stored until all are settled.

    The entry of a settled message is set to None, which frees its memory.
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
        """The sum of their charges."""
        self.at: float = at
        """When they were delivered."""
        self.waits_for_disk: bool = False
        """True if the delivery must wait until the open journal group is on disk (see redelivery_mark.py)."""

    def last(self) -> i64:
        """Return the delivery tag of the last message."""
        return self.first + len(self.messages) - 1
