"""Counters of a queue: its losses, in total and since the last report, and the samples of the flow log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.message import NEVER_DELIVERED
from penstock.flow.level import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.message import Message, StoredMessage
    from penstock.core.queue.queue import Queue
    from penstock.flow.level import Thresholds
    from penstock.flow.series import Series


class UnreportedLosses:
    """The queues of one broker that lost messages since their last report, and the losses of all queues since the
    start.
    """

    def __init__(self) -> None:
        self._queues: list[Queue] = []
        self.dropped: i64 = 0
        self.refused: i64 = 0
        """Messages of all queues that overflow policies dropped, or refused, since the start."""
        self.expired: i64 = 0
        self.dead_lettered: i64 = 0
        self.dead_letters_lost: i64 = 0

    def add(self, queue: Queue) -> None:
        """Schedule the report of a queue that had no losses to report before."""
        self._queues.append(queue)

    def take(self, most: int) -> list[Queue]:
        """Take so many queues to report, the latest first."""
        taken = self._queues[-most:]
        del self._queues[-most:]
        taken.reverse()
        return taken


SAMPLES_A_GAP: Final = 64
"""Samples after which the gap doubles. A share estimated from so many samples has a standard error of at most 6 %."""
GAP_MOST: Final = 1 << 20
"""Widest gap, in messages."""
SENDERS_MOST: Final = 64
"""Most senders of one queue that are remembered between two rounds; samples of other senders count for none."""
SIZES: Final = 41
"""Number of size classes, one for each power of two. Larger messages count in the last class."""


Sender = tuple[str, str]
"""Name of a publisher, and name of the exchange that it published to."""


class ArrivalSamples:
    """Sampled arrivals of one queue: messages by size, and by publisher with its exchange."""

    __slots__ = ("sizes", "_senders", "_publisher", "_exchange", "_run", "_gap", "_step", "_seed", "_taken")

    def __init__(self) -> None:
        self.sizes: list[int] = []
        """Messages by the power of two of their charge: entry n counts charges from 2**(n-1) to 2**n - 1."""
        self._senders: dict[Sender, int] = {}
        self._publisher: str = ""
        self._exchange: str = ""
        self._run: i64 = 0
        """Messages of this publisher to this exchange that are not yet in `_senders`: most samples have the sender of
        the one before, and need no tuple.
        """
        self._gap: i64 = 1
        self._step: i64 = 1
        """Number of messages that the next sample represents."""
        self._seed: i64 = 1
        self._taken: i64 = 0

    @property
    def senders(self) -> dict[Sender, int]:
        """Return the messages by publisher and exchange."""
        self._count_run()
        return self._senders

    def _count_run(self) -> None:
        if self._run > 0:
            sender = (self._publisher, self._exchange)
            if sender in self._senders or len(self._senders) < SENDERS_MOST:
                self._senders[sender] = self._senders.get(sender, 0) + int(self._run)
            self._run = 0

    def add(self, publisher: str, exchange: str, charge: i64) -> i64:
        """Add a sample; return the number of messages until the next sample."""
        size: i64 = 0
        while charge > 0 and size < SIZES - 1:
            charge >>= 1
            size += 1
        while len(self.sizes) <= size:
            self.sizes.append(0)
        self.sizes[size] += int(self._step)
        if publisher is not self._publisher or exchange is not self._exchange:
            self._count_run()
            self._publisher = publisher
            self._exchange = exchange
        self._run += self._step
        self._taken += 1
        if self._taken >= SAMPLES_A_GAP and self._gap < GAP_MOST:
            self._taken = 0
            self._gap *= 2
        return self._next_step()

    def fit(self, messages: i64) -> i64:
        """Fit the gap to the messages between two looks; return the number of messages until the next sample."""
        self._gap = messages // SAMPLES_A_GAP
        if self._gap < 1:
            self._gap = 1
        elif self._gap > GAP_MOST:
            self._gap = GAP_MOST
        self._taken = 0
        return self._next_step()

    def _next_step(self) -> i64:
        # A linear congruential generator (the constants of POSIX's rand) is enough to break any pattern.
        self._seed = (self._seed * 1103515245 + 12345) & 0x7FFFFFFF
        self._step = 1 + (self._seed >> 8) % (2 * self._gap - 1)
        return self._step

    def take_sizes(self) -> list[int]:
        """Take the sizes counted since the last call."""
        sizes = self.sizes
        self.sizes = []
        return sizes

    def take_senders(self) -> dict[Sender, int]:
        """Take the senders counted since the last call."""
        senders = self.senders
        self._senders = {}
        return senders


class LastLook:
    """State of a queue at the last look of the flow log. Counts are totals."""

    __slots__ = (
        "at",
        "messages",
        "bytes",
        "open",
        "tail",
        "removed_bytes",
        "settlements",
        "delivered",
        "delivered_bytes",
        "recorded_at",
        "thresholds",
        "refused",
        "refused_bytes",
        "arrivals",
    )

    def __init__(self, now: float) -> None:
        self.at: float = now
        """Time of the look: monotonic seconds."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.open: bool = True
        self.tail: i64 = 0
        self.removed_bytes: i64 = 0
        self.settlements: i64 = 0
        self.delivered: i64 = 0
        self.delivered_bytes: i64 = 0
        self.thresholds: Thresholds | None = None
        """The last recorded thresholds; None without any."""
        self.recorded_at: float = now
        """Time at which the thresholds were recorded (monotonic seconds)."""
        self.refused: i64 = 0
        self.refused_bytes: i64 = 0
        """Publishes refused since the last look."""
        self.arrivals: ArrivalSamples | None = None
        """Sampled arrivals; None before sampling begins."""


class RareCounters:
    """Counters that an idle queue does not need."""

    __slots__ = (
        "unreported_dropped",
        "unreported_refused",
        "unreported_dead_letters",
        "dead_lettered",
        "dead_letters_lost",
        "delivered_no_ack",
        "gets",
        "gets_no_ack",
        "gets_empty",
        "redelivered",
        "withdrawn",
        "series",
    )

    def __init__(self) -> None:
        self.unreported_dropped: i64 = 0
        self.unreported_refused: i64 = 0
        """Messages that the overflow policy dropped, or refused, since the last QUE-1005."""
        self.unreported_dead_letters: i64 = 0
        """Dead letters that reached no queue since the last PST-1009."""
        self.dead_lettered: i64 = 0
        """Messages that became dead letters in other queues."""
        self.dead_letters_lost: i64 = 0
        """Dead letters that reached no queue."""
        self.delivered_no_ack: i64 = 0
        """Deliveries that are not acknowledged, `gets_no_ack` included."""
        self.gets: i64 = 0
        self.gets_no_ack: i64 = 0
        self.gets_empty: i64 = 0
        """Answers to basic.get: with a message to acknowledge, with a message without acknowledgement, and empty."""
        self.redelivered: i64 = 0
        """Deliveries of messages that had been delivered before."""
        self.withdrawn: i64 = 0
        """Settled messages that no consumer acknowledged: rejected, expired, dead-lettered or purged ones."""
        self.series: Series | None = None
        """Samples of the queue; None before its first message."""


NONE_RARE: Final = RareCounters()
"""Shared rare counters of queues that have counted nothing yet; never written."""


class QueueCounters:
    """Counters of one queue. Depth and settlements are counted by the queue itself, on its hot path."""

    __slots__ = (
        "losses",
        "dropped",
        "expired",
        "refused",
        "removed_bytes",
        "settlements",
        "settled_at",
        "delivered",
        "delivered_bytes",
        "rare",
        "returned",
        "restored",
        "next_sample",
        "last_look",
    )

    def __init__(self, losses: UnreportedLosses) -> None:
        self.losses = losses
        """List of queues to report."""
        self.dropped: i64 = 0
        self.expired: i64 = 0
        self.refused: i64 = 0
        self.removed_bytes: i64 = 0
        """Bytes (charges) of all messages that have left the queue; their number is tail minus depth."""
        self.settlements: i64 = 0
        """Times at which messages were settled, any number at each time."""
        self.settled_at: float = -1.0
        """Time of the last settlement: monotonic seconds."""
        self.delivered: i64 = 0
        self.delivered_bytes: i64 = 0
        """Bytes (charges) of deliveries; messages read by a cursor count once settled."""
        self.rare: RareCounters = NONE_RARE
        """The other counters; shared and read-only until one of them is needed (see `own`)."""
        self.returned: i64 = 0
        """Upper bound of the ready messages that had been delivered before; mostly 0, and then no delivery is
        examined.
        """
        self.restored: i64 = 0
        """Number of sequences assigned before the last restart."""
        self.next_sample: i64 = UNLIMITED
        """Sequence from which the next message is sampled."""
        self.last_look: LastLook | None = None
        """State at the last look of the flow log; None before the first look, and without a flow log."""

    def own(self) -> RareCounters:
        """Return the rare counters, to change them."""
        if self.rare is NONE_RARE:
            self.rare = RareCounters()
        return self.rare

    @property
    def series(self) -> Series | None:
        """Samples of the queue; None before its first message."""
        return self.rare.series

    @property
    def delivered_no_ack(self) -> i64:
        """See `RareCounters`."""
        return self.rare.delivered_no_ack

    @property
    def gets(self) -> i64:
        """See `RareCounters`."""
        return self.rare.gets

    @property
    def gets_no_ack(self) -> i64:
        """See `RareCounters`."""
        return self.rare.gets_no_ack

    @property
    def gets_empty(self) -> i64:
        """See `RareCounters`."""
        return self.rare.gets_empty

    @property
    def redelivered(self) -> i64:
        """See `RareCounters`."""
        return self.rare.redelivered

    def sample(self, publisher: str, exchange: str, charge: i64, sequence: i64) -> None:
        """Sample a message that a publisher has put into the queue by way of an exchange."""
        if self.last_look is not None and self.last_look.arrivals is not None:
            self.next_sample = sequence + self.last_look.arrivals.add(publisher, exchange, charge)

    def begin_sampling(self, look: LastLook) -> None:
        """Begin to sample arrivals, from this look on."""
        self.last_look = look
        look.arrivals = ArrivalSamples()
        self.next_sample = 0

    def count_settled(self, bytes: i64, now: float) -> None:
        """Count messages that leave."""
        self.removed_bytes += bytes
        if now != self.settled_at:
            self.settled_at = now
            self.settlements += 1

    def count_delivered(self, messages: i64, bytes: i64) -> None:
        """Count deliveries."""
        self.delivered += messages
        self.delivered_bytes += bytes

    def count_get(self, no_ack: bool) -> None:
        """Count a delivery as the answer to a basic.get."""
        if no_ack:
            self.own().gets_no_ack += 1
        else:
            self.own().gets += 1

    def count_redelivered(self, queue: Queue, messages: Sequence[Message | None]) -> i64:
        """Count the messages of a delivery that had been delivered before; returns their number."""
        redelivered: i64 = 0
        for message in messages:
            if message is not None and message.past != NEVER_DELIVERED:
                redelivered += 1
        self.own().redelivered += redelivered
        self.returned -= redelivered
        if self.returned < 0 or queue.available() == 0:
            self.returned = 0
        return redelivered

    def count_restored(self, messages: list[StoredMessage]) -> None:
        """Count ready messages from the store that had been delivered before."""
        for message in messages:
            if message.past != NEVER_DELIVERED:
                self.returned += 1

    def has_counted(self, queue: Queue) -> bool:
        """Return whether the queue has counted any activity since the broker's start."""
        if queue.tail != self.restored or queue.settled != 0 or self.delivered != 0:
            return True
        return self.rare.gets_empty != 0 or self.refused != 0

    def published(self, queue: Queue) -> i64:
        """Return the messages that entered the queue, dead letters included."""
        return queue.tail - self.restored

    def delivered_to_ack(self) -> i64:
        """Return the deliveries to consumers that acknowledge; messages that a cursor has settled are included."""
        return self.delivered - self.rare.delivered_no_ack - self.rare.gets

    def acknowledged(self, queue: Queue) -> i64:
        """Return the deliveries that were acknowledged; messages that all cursors have settled are included."""
        return queue.settled - self.rare.delivered_no_ack - self.rare.withdrawn

    def count_drop(self, queue: Queue, bytes: i64) -> None:
        """Count a message that the overflow policy dropped."""
        self._schedule_report(queue)
        self.removed_bytes += bytes
        self.dropped += 1
        self.losses.dropped += 1
        self.own().unreported_dropped += 1

    def count_refusal(self, reported: Queue | None = None, messages: i64 = 1) -> None:
        """Count refused messages; `reported` is the queue to report, None if only the publisher is notified."""
        self.refused += messages
        self.losses.refused += messages
        if reported is not None:
            self._schedule_report(reported)
            self.own().unreported_refused += messages

    def count_lost_dead_letter(self, queue: Queue) -> None:
        """Count a dead letter that reached no queue."""
        self._schedule_report(queue)
        self.own().dead_letters_lost += 1
        self.losses.dead_letters_lost += 1
        self.own().unreported_dead_letters += 1

    def count_dead_letter(self) -> None:
        """Count a message that became a dead letter in another queue."""
        self.own().dead_lettered += 1
        self.losses.dead_lettered += 1

    def count_expiry(self) -> None:
        """Count a message that expired."""
        self.expired += 1
        self.losses.expired += 1

    def _schedule_report(self, queue: Queue) -> None:
        """Schedule the report of the next counted loss, and of later losses until the report."""
        if not self.has_unreported():
            self.losses.add(queue)

    def has_unreported(self) -> bool:
        """Return whether there is a loss to report."""
        rare = self.rare
        return rare.unreported_dropped > 0 or rare.unreported_refused > 0 or rare.unreported_dead_letters > 0

    def clear_unreported(self) -> None:
        """Reset the losses after a report."""
        if self.rare is not NONE_RARE:
            self.rare.unreported_dropped = 0
            self.rare.unreported_refused = 0
            self.rare.unreported_dead_letters = 0
