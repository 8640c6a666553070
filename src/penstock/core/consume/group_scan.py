"""The scan of a consumer whose queue has message groups, and the switch of a queue to groups and back."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume import rotation
from penstock.core.consume.consumer import BATCH_BYTES, BATCH_MESSAGES, UNMATCHED, Batch, Consumer
from penstock.core.consume.groups import Claimant, MessageGroups
from penstock.core.consume.scan import SLICE, MessageFilter, Scan
from penstock.core.message import Message
from penstock.core.queue.context import QueueContext
from penstock.core.queue.indexed_ready_queue import lines_of
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.types import Features
from penstock.errors import NotSupported


class GroupScan(Scan, Claimant):
    """The scan of one consumer: it takes what its queue's groups leave to it."""

    def __init__(self, consumer: Consumer, groups: MessageGroups) -> None:
        super().__init__(consumer, MessageFilter(groups.broker.formats))
        self._groups = groups
        self._unfit: Message | None = None
        """A message that was larger than the byte windows, and waits in its group."""
        self._stopped: bool = False
        """True if this slice has met such a message."""
        self._count: i64 = 0
        self._charge: i64 = 0
        """Messages of this slice, and the sum of their charges."""
        self._tried: i64 = -1
        """Version of the groups of which none has a message for the consumer; -1 for none."""

    @override
    def begin(self) -> None:
        pass

    @override
    def end(self) -> None:
        self._unfit = None

    @override
    def take(self, room: i64, now: float) -> Batch | None:
        if room > BATCH_MESSAGES:
            room = BATCH_MESSAGES
        work = self._groups.broker.work
        until = work.done + SLICE
        messages: list[Message | None] = []
        self._count = self._charge = 0
        self._stopped = False
        self._unfit = None
        while self._count < room and self._charge < BATCH_BYTES and work.done < until and not self._stopped:
            message = self._groups.next_for(self, until)
            if message is None:
                if work.done < until and not self._stopped:
                    self._tried = self._groups.version
                break
            messages.append(message)
            self._count += 1
            self._charge += message.charge
        if not messages:
            return None
        return self.consumer.session.hand_out(self.consumer, messages, self._charge, now)

    # As the groups ask it

    def receiver(self) -> Consumer:
        """See `Claimant.receiver`."""
        return self.consumer

    def fits(self, message: Message) -> bool:
        """See `Claimant.fits`: unsendable messages and those called undeliverable are for others."""
        if not self.filter.matches(message):
            return False
        consumer = self.consumer
        if consumer.has_byte_limit() and not consumer.accepts(self._count, self._charge, message.charge):
            self._unfit = message
            self._stopped = True
            return False
        return True

    def is_stopped(self) -> bool:
        """See `Claimant.is_stopped`."""
        return self._stopped

    # Queries

    @override
    def has_more(self) -> bool:
        return self._groups.has_more(self.consumer, self._tried)

    @override
    def is_reading(self) -> bool:
        pager = self.consumer.queue.pager
        return pager is not None and pager.is_reading()

    @override
    def next_fits(self) -> bool:
        message = self._unfit
        if message is None:
            return True
        for line in lines_of(self.consumer.queue.ready_queue):
            if line.holds(message):
                return self.consumer.accepts(0, 0, message.charge)
        return True

    @override
    def available(self) -> i64:
        return self.consumer.queue.waiting()

    @override
    def obstacle(self) -> str:
        waits = self.filter.passed_over or self._groups.describe()
        pager = self.consumer.queue.pager
        if pager is not None and pager.messages > 0:
            return f"{waits}; {int(pager.messages):,} messages on the disk are read when there is room for them"
        return waits


NO_GROUPS: Final = "none"
"""Value of group-by that turns groups off for a queue, against a weaker source."""


def groups_of(queue: Queue) -> MessageGroups | None:
    """Return the groups of a queue by which messages are delivered now; None without groups, or beside cursors."""
    groups = queue.grouping
    if not isinstance(groups, MessageGroups) or queue.cursors:
        return None
    groups.attach()
    return groups


def is_grouped(queue: Queue) -> bool:
    """Return whether the settings of a queue ask for groups; streams and queues with priorities have none."""
    features = queue.features
    by = queue.settings.group_by
    return by is not None and by != NO_GROUPS and features.max_priority == 0 and not features.type.retains


def check_groups(queue: str, settings: Settings, features: Features) -> None:
    """Raise NotSupported (406) for a declaration with groups and priorities."""
    given = settings.given.get("group-by")
    if given is not None and given.text != NO_GROUPS and features.max_priority > 0:
        raise NotSupported(
            f"queue '{queue}': {given.describe()} is not supported beside x-max-priority={features.max_priority}: a "
            "priority would change the order within a group"
        )


def join_groups(broker: QueueContext, consumer: Consumer) -> None:
    """Let a new consumer of a queue with groups scan by them. Raises NotSupported (406) for another scan."""
    queue = consumer.queue
    if consumer.scan is not None and consumer.scan.copies:
        return
    if consumer.scan is not None and is_grouped(queue):
        raise NotSupported(
            f"consumer '{consumer.tag}': queue '{queue.name}' in vhost '{queue.vhost}' has group-by="
            f"{queue.settings.group_by}, beside which a selector or no-local is not supported: a message that only one "
            "consumer wants would stop its group"
        )
    regroup(broker, queue)
    groups = groups_of(queue)
    if groups is not None:
        consumer.scan = GroupScan(consumer, groups)


def regroup(broker: QueueContext, queue: Queue) -> None:
    """Adopt the setting group-by of a queue, unless consumers with selectors, or cursors, read the queue."""
    wanted = queue.settings.group_by if is_grouped(queue) else None
    groups = queue.grouping
    present = groups.name if isinstance(groups, MessageGroups) else None
    if wanted == present or queue.cursors or queue.deleted:
        return
    if isinstance(groups, MessageGroups):
        _end_groups(broker, queue, groups)
    if wanted is not None and not any(each.scan is not None for each in rotation.consumers_of(queue)):
        _begin_groups(broker, queue, wanted)


def _begin_groups(broker: QueueContext, queue: Queue, name: str) -> None:
    groups = MessageGroups(broker, queue, name)
    queue.set_grouping(groups)
    groups.attach()
    for consumer in rotation.consumers_of(queue):
        rotation.begin_scan(consumer, GroupScan(consumer, groups))


def _end_groups(broker: QueueContext, queue: Queue, groups: MessageGroups) -> None:
    groups.detach()
    queue.set_grouping(None)
    there = rotation.rotation_of(queue)
    for consumer in rotation.consumers_of(queue):
        if there is not None and isinstance(consumer.scan, GroupScan):
            consumer.scan = None
            there.scans -= 1
            if consumer.state == UNMATCHED:
                there.take_out(consumer)
                there.make_ready(consumer)
    broker.schedule_delivery(queue)
