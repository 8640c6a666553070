"""Message groups of one queue: the messages of a group go to one consumer at a time, in order.

Theory of operation. The queue has one walk for all its consumers: each message is read once, and its group is looked
up. While a consumer has unsettled messages of a group, it *holds* the group, and nobody else gets messages of that
group. A message of a group that is held, or that cannot go to the consumer that walks, waits: its sequence is in the
group, and the message stays in the queue. A group whose messages are all settled is free: any consumer takes its
waiting messages before it walks on. So a group is remembered only while messages of it are unsettled or wait, and a
consumer without credit delays only what it holds.

Settlements come from `Queue.release` and `Queue.dead_letter`, and requeued messages from the index of the queue.
Messages that leave the queue otherwise (expired, purged, dropped) are found missing when their turn comes.

The walk stops at `WAITING_MAX` waiting messages, and goes on when fewer wait.
"""

from __future__ import annotations

import hashlib
import heapq
from typing import Final

from mypy_extensions import i64, trait
from typing_extensions import override

from penstock.content.selector.fields import PROPERTY, Field, SelectableMessage
from penstock.core.consume.consumer import Batch, Consumer, GroupTaker
from penstock.core.message import Message
from penstock.core.message_format import UnreadableContent
from penstock.core.queue.context import QueueContext
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, Place, indexed
from penstock.core.queue.queue import Queue
from penstock.core.queue.urgency_classes import in_order
from penstock.flow.level import UNLIMITED

BY_GROUP_ID: Final = "group-id"
"""Value of group-by for the groups of AMQP 1.0 and Jakarta Messaging; any other value is the name of a header."""
GROUP_HEADER: Final = "JMSXGroupID"
"""The header that has the group in protocols without a property for groups."""
WAITING_MAX: Final = 100_000
"""Most messages of a queue that wait for their groups; above, later messages of all groups wait."""
UNSETTLED_MAX: Final = 100_000
"""Most unsettled messages of groups of a queue, 250 bytes each besides their charges; above, nothing is delivered."""
KEY_MAX: Final = 64
"""Bytes of the longest group that is remembered as it is; of a longer one a digest is."""
GET_SLICE: Final = 10_000
"""Units of work between two looks at the end of the walk of a basic.get, which pays for all of them."""
LOOK_WORK: Final = 2
"""Units of work to read the group of a message."""
TEXT_A_UNIT: Final = 4096
"""Bytes of a group that are read with one more unit of work."""
TRIED_MAX: Final = 64
"""Most groups that are tried for a consumer at once, if their next messages cannot go to the consumer."""
SHOWN_MAX: Final = 64
"""Most groups of which one is chosen for a report."""


NOTHING: Final[list[int]] = []
"""Shared empty heap of the groups without waiting messages; never changed."""


class MessageGroup:
    """One group that is held, or has waiting messages."""

    __slots__ = ("key", "holder", "out", "retrying", "waiting")

    def __init__(self, key: bytes) -> None:
        self.key = key
        """The name of the group, or its digest; empty for a message without a group that could not go to a consumer."""
        self.holder: Consumer | None = None
        """The consumer with unsettled messages of the group; None for a free group."""
        self.out: i64 = 0
        """Number of unsettled messages."""
        self.retrying: i64 = 0
        """Number of messages that return after a delay; meanwhile later ones wait."""
        self.waiting: list[int] = NOTHING
        """Sequences of the waiting messages, a heap."""

    def is_over(self) -> bool:
        """Return whether the group need not be remembered."""
        return self.out == 0 and self.retrying == 0 and not self.waiting

    def describe(self) -> str:
        """Return the name of the group for reports."""
        return f"'{self.key.decode(errors='replace')}'"


@trait
class Claimant:
    """The scan of a consumer, as far as groups ask it."""

    def receiver(self) -> Consumer:
        """Return the consumer."""
        raise NotImplementedError

    def fits(self, message: Message) -> bool:
        """Return whether a message can go to the consumer now."""
        raise NotImplementedError

    def is_stopped(self) -> bool:
        """Return whether the consumer takes no message more in this slice."""
        raise NotImplementedError


class Getter(Claimant):
    """A basic.get, which takes any message that can be sent."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def receiver(self) -> Consumer:
        """See `Claimant.receiver`."""
        return self._consumer

    def fits(self, message: Message) -> bool:
        """See `Claimant.fits`."""
        session = self._consumer.session
        return message.charge <= session.sure_charge or not session.passes_over(self._consumer.queue, message)

    def is_stopped(self) -> bool:
        """See `Claimant.is_stopped`."""
        return False


class GroupPlace(Place):
    """The place of the walk in the index of its queue, which learns of every requeued message."""

    __slots__ = ("_groups",)

    def __init__(self, groups: MessageGroups) -> None:
        super().__init__()
        self.position = UNLIMITED
        self._groups = groups

    @override
    def has_seen(self, sequence: i64) -> bool:
        return False  # Every requeued message is reported by `miss`.

    @override
    def miss(self, sequence: i64) -> None:
        self._groups.on_requeued(int(sequence))

    @override
    def forget(self) -> None:
        self._groups.on_cleared()


class MessageGroups(GroupTaker):
    """The groups of one queue."""

    def __init__(self, broker: QueueContext, queue: Queue, name: str) -> None:
        self.broker = broker
        self.queue = queue
        self.name = name
        """The setting group-by."""
        self._by_property: bool = name == BY_GROUP_ID
        self._property = Field(GROUP_HEADER)
        self._header = Field(GROUP_HEADER if self._by_property else name)
        self._header.code = PROPERTY
        self._place = GroupPlace(self)
        self._line: IndexedReadyQueue | None = None
        self._groups: dict[bytes, MessageGroup] = {}
        self._free: dict[MessageGroup, None] = {}
        """Groups with waiting messages that nobody holds, the first that became free first."""
        self._held: dict[Consumer, dict[MessageGroup, None]] = {}
        """Groups with waiting messages by their holders."""
        self._out: dict[int, MessageGroup] = {}
        """Groups of unsettled messages by sequence."""
        self._retrying: dict[int, MessageGroup] = {}
        """Groups of messages that return after a delay, by sequence."""
        self._returned: list[int] = []
        """Sequences of requeued messages without a known group, a heap; the walk reads these first."""
        self._walked: i64 = 0
        """Sequence up to which the walk has read every message."""
        self.waiting: i64 = 0
        """Number of sequences in groups and in `_returned`."""
        self.most: i64 = WAITING_MAX
        """Most waiting messages."""
        self.most_unsettled: i64 = UNSETTLED_MAX
        """Most unsettled messages of groups."""
        self._gone: i64 = 0
        """Number of messages that have left since the last `_review`, while as many as possible wait."""
        self.version: i64 = 0
        """Number of times that a group got something to take."""

    # The index

    def attach(self) -> None:
        """Attach to the index of the queue, unless this was done, and begin at its oldest message."""
        if self._line is not None and self.queue.ready_queue is self._line:
            return
        line = indexed(in_order(self.queue.ready_queue))
        assert isinstance(line, IndexedReadyQueue)
        self.detach()
        self.queue.ready_queue = line
        self._line = line
        line.add_place(self._place)
        self.begin_again()

    def detach(self) -> None:
        """Leave the index of the queue."""
        if self._line is not None:
            self._line.remove_place(self._place)
            self._line = None

    def begin_again(self) -> None:
        """Read all messages again."""
        self.on_cleared()
        self._walked = 0

    def on_cleared(self) -> None:
        """Forget all waiting messages: they have left the queue, or will be read again."""
        for group in list(self._groups.values()):
            group.waiting = NOTHING
            if group.is_over():
                del self._groups[group.key]
        self._free.clear()
        self._held.clear()
        self._returned.clear()
        self.waiting = 0

    def key_of(self, message: Message) -> bytes:
        """Return the name of a message's group, or its digest; empty without a group."""
        content = message.content
        try:
            value = self._value_of(self.broker.formats.of(content).selectable(content))
        except UnreadableContent:
            return b""
        if isinstance(value, (bool, int, float)):
            value = str(value)
        if isinstance(value, str):
            value = value.encode(errors="surrogatepass")
        if not isinstance(value, bytes):
            return b""
        if len(value) <= KEY_MAX:
            return value
        self.broker.work.done += len(value) // TEXT_A_UNIT
        return hashlib.blake2b(value, digest_size=16).hexdigest().encode()

    def _value_of(self, fields: SelectableMessage) -> object:
        if self._by_property and fields.has_groups:
            value = fields.lookup(self._property)
            if value is not None:
                return value
        return fields.lookup(self._header)

    # Taking

    def next_for(self, scan: Claimant, until: i64) -> Message | None:
        """Take the next message for a consumer, and record it as unsettled.

        Returns None if no message is found until the work is done.
        """
        line = self._line
        if line is None or self._is_full():
            return None
        message: Message | None = None
        held = self._held.get(scan.receiver())
        if held is not None:
            message = self._next_of(line, held, scan)
        if message is None and not scan.is_stopped():
            message = self._next_of(line, self._free, scan)
        if message is None and not scan.is_stopped():
            message = self._walk(line, scan, until)
        if message is not None:
            line.take_stepped()
        return message

    @override
    def take_one(self, consumer: Consumer, now: float) -> Batch | None:
        self.attach()
        getter = Getter(consumer)
        work = self.broker.work
        while True:
            until = work.done + GET_SLICE
            message = self.next_for(getter, until)
            if message is not None:
                return consumer.session.hand_out(consumer, [message], message.charge, now)
            if work.done < until:
                return None

    def _is_full(self) -> bool:
        """Return whether as many messages of groups are unsettled as may be."""
        return len(self._out) >= self.most_unsettled

    def _next_of(self, line: IndexedReadyQueue, groups: dict[MessageGroup, None], scan: Claimant) -> Message | None:
        """Return the next message of groups with waiting messages, which the consumer holds or may take."""
        left: i64 = min(len(groups), TRIED_MAX)
        while left > 0 and groups:
            group = next(iter(groups))
            message = self._find(line, group.waiting[0])
            if message is not None and not scan.fits(message):
                left -= 1
                del groups[group]
                groups[group] = None
                if scan.is_stopped():
                    return None
                continue
            heapq.heappop(group.waiting)
            self.waiting -= 1
            self._unlist(group)
            if message is not None:
                self._hold(group, scan.receiver(), message)
            if group.waiting:
                self._list(group)
            elif group.is_over():
                self._groups.pop(group.key, None)
            if message is not None:
                return message
        return None

    def _find(self, line: IndexedReadyQueue, sequence: i64) -> Message | None:
        """Go to a message of the index; return None if it is gone."""
        while not line.reach(sequence - 1):
            self.broker.work.done += REACH_WORK
        self.broker.work.done += 1
        message = line.step()
        return message if message is not None and message.sequence == sequence else None

    def _walk(self, line: IndexedReadyQueue, scan: Claimant, until: i64) -> Message | None:
        """Read messages until one can go to the consumer; None at the end, at a bound, or after the work."""
        work = self.broker.work
        while self._returned and work.done < until:
            message = self._find(line, self._returned[0])
            heapq.heappop(self._returned)
            self.waiting -= 1
            if message is not None and self._claim(message, scan):
                return message
            if scan.is_stopped():
                return None
        while work.done < until and not line.reach(self._walked):
            work.done += REACH_WORK
        while work.done < until and self.waiting < self.most:
            message = line.step()
            if message is None:
                return None
            self._walked = message.sequence
            if self._claim(message, scan):
                return message
            if scan.is_stopped():
                return None
        return None

    def _review(self) -> None:
        """Read all messages again if a quarter of the waiting ones has left: expired, or dropped."""
        self._gone = 0
        if self._line is not None:
            present, _ = self._line.count_through(self._walked)
            if present < self.waiting - self.waiting // 4:
                self.begin_again()
                self._tell()

    def _claim(self, message: Message, scan: Claimant) -> bool:
        """Give a message that was read to the consumer that walks, or let it wait in its group."""
        self.broker.work.done += LOOK_WORK
        key = self.key_of(message)
        consumer = scan.receiver()
        if not key:
            if scan.fits(message):
                return True
            self._wait(MessageGroup(b""), message.sequence)
            return False
        group = self._groups.get(key)
        if group is None:
            group = MessageGroup(key)
            self._groups[key] = group
        is_his = group.holder is None or group.holder is consumer
        if not is_his or group.waiting or group.retrying > 0 or not scan.fits(message):
            self._wait(group, message.sequence)
            return False
        self._hold(group, consumer, message)
        return True

    def _hold(self, group: MessageGroup, consumer: Consumer, message: Message) -> None:
        if group.key:
            group.holder = consumer
            group.out += 1
            self._out[int(message.sequence)] = group

    def _wait(self, group: MessageGroup, sequence: i64) -> None:
        self._push(group, int(sequence))
        if len(group.waiting) == 1:
            self._list(group)

    def _push(self, group: MessageGroup, sequence: int) -> None:
        if group.waiting is NOTHING:
            group.waiting = []
        heapq.heappush(group.waiting, sequence)
        self.waiting += 1

    def _list(self, group: MessageGroup) -> None:
        """List a group with waiting messages by its holder, or as free, and wake consumers."""
        if group.retrying > 0:
            return
        holder = group.holder
        if holder is None:
            self._free[group] = None
        else:
            held = self._held.get(holder)
            if held is None:
                held = {}
                self._held[holder] = held
            held[group] = None
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        if self._line is not None:
            self._line.news = True
            self.broker.schedule_delivery(self.queue)

    # Settling

    @override
    def on_left(self, messages: list[Message | None]) -> None:
        for message in messages:
            if message is not None and self._out:
                group = self._out.pop(int(message.sequence), None)
                if group is not None:
                    self._settle(group)
            if message is not None and self._retrying:
                group = self._retrying.pop(int(message.sequence), None)
                if group is not None:
                    self._end_retry(group)
        if self.waiting >= self.most:
            self._gone += len(messages)
            if self._gone > self.waiting // 4:
                self._review()

    def on_requeued(self, sequence: int) -> None:
        """Let a requeued message wait: before all later messages of its group."""
        group = self._out.pop(sequence, None)
        if group is not None:
            self._wait(group, sequence)
            self._settle(group)
            return
        group = self._retrying.pop(sequence, None)
        if group is None:
            heapq.heappush(self._returned, sequence)
            self.waiting += 1
            self._tell()
            return
        self._push(group, sequence)
        self._end_retry(group)

    @override
    def on_delayed(self, sequence: i64) -> None:
        group = self._out.pop(int(sequence), None)
        if group is not None:
            self._unlist(group)
            self._retrying[int(sequence)] = group
            group.retrying += 1
            self._settle(group)

    def _end_retry(self, group: MessageGroup) -> None:
        group.retrying -= 1
        if group.is_over():
            self._groups.pop(group.key, None)
        elif group.waiting:
            self._list(group)

    def _settle(self, group: MessageGroup) -> None:
        if len(self._out) == self.most_unsettled - 1:
            self._tell()
        group.out -= 1
        if group.out > 0:
            return
        self._unlist(group)
        group.holder = None
        if group.is_over():
            self._groups.pop(group.key, None)
        elif group.waiting:
            self._list(group)

    def _unlist(self, group: MessageGroup) -> None:
        """Remove a group from the list of its holder, or from the free ones."""
        self._free.pop(group, None)
        holder = group.holder
        held = None if holder is None else self._held.get(holder)
        if held is not None and holder is not None:
            held.pop(group, None)
            if not held:
                del self._held[holder]

    # Queries

    def has_more(self, consumer: Consumer, tried: i64) -> bool:
        """Return whether there may be messages for a consumer that has tried the groups of a version."""
        if self._is_full():
            return False
        if self._returned:
            return True
        if tried != self.version and (self._free or consumer in self._held):
            return True
        line = self._line
        if line is None or self.waiting >= self.most:
            return False
        return len(line.ready) > 0 or len(line.returned) > 0 or line.last() > self._walked

    def held(self) -> int:
        """Return the number of groups with unsettled messages."""
        return sum(1 for group in self._groups.values() if group.out > 0)

    def describe(self) -> str:
        """Return why a consumer gets nothing after the walk, as a phrase."""
        if self._is_full():
            return f"waits: {len(self._out):,} messages of groups are unacknowledged, the most (group-by={self.name})"
        if self.waiting == 0:
            return "waits for new messages"
        most: MessageGroup | None = None
        for number, group in enumerate(self._groups.values()):
            if number == SHOWN_MAX:
                break
            if group.holder is not None and (most is None or len(group.waiting) > len(most.waiting)):
                most = group
        count = f"{int(self.waiting):,} messages wait for their groups, which other consumers hold"
        stopped = ""
        if self.waiting >= self.most:
            stopped = f"; these are the most, and later messages of all groups wait as well (group-by={self.name})"
        if most is None or most.holder is None or not most.waiting:
            return f"{count}{stopped}"
        return (
            f"{count}: {len(most.waiting):,} for group {most.describe()}, of which consumer '{most.holder.tag}' has "
            f"{int(most.out):,} unacknowledged{stopped}"
        )
