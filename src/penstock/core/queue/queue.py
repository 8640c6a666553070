"""A queue: ordered messages, a depth that never exceeds its capacity, and a gate that the depth closes and opens.

Theory of operation. A message gets the next sequence number on entry. The ready queue holds ready messages in order.
Sessions hold unacknowledged messages, which still count in the depth.

The accounting has one hot path. Up to `fast_path_max_messages` and `fast_path_max_bytes`, a message may enter without a
check of thresholds, gates or waiters. Up to `withheld_max_messages` and `withheld_max_bytes`, producers blocked by the
queue's gate may continue with withheld confirms (see WithheldRun). `recheck_on_settle` is true while the gate is closed
or has waiters, so a falling depth must be checked. Every change of these inputs calls `update_gate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.deaths import DELIVERY_LIMIT, MAXLEN
from penstock.core.gates.address_depth import AddressShare
from penstock.core.message import DelayedEnvelope, Envelope, Message, StoredMessage, TrackedMessage
from penstock.core.queue.context import (
    ContentChange,
    DeadLetterSink,
    DelayedMessages,
    Grouping,
    Requeueing,
    Retainer,
    Subscriber,
    Subscriptions,
)
from penstock.core.queue.counters import QueueCounters
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.membership import Membership
from penstock.core.queue.overflow import READ_BACK
from penstock.core.queue.overflow.policy import ACCEPT, HOLD, OverflowPolicy
from penstock.core.queue.queue_room import Clearing, Leftovers, QueueRoom
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.sweeping import sweep
from penstock.core.queue.types import Features
from penstock.core.queue.urgency import URGENT_FROM
from penstock.core.queue.urgency_classes import divided, in_order
from penstock.flow.gate import Gate, GateOwner
from penstock.flow.level import OVERHEAD, Level, Measure, Thresholds, amount, amounts
from penstock.flow.reserved_room import Party
from penstock.flow.shared_limit import SharedLimit
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.turns import Turns
from penstock.flow.work import AT_ONCE
from penstock.settings.table import NOT_SET

if TYPE_CHECKING:
    from penstock.core.queue.counters import UnreportedLosses
    from penstock.core.queue.cursor_state import CursorState
    from penstock.core.queue.length_limit import Length
    from penstock.core.queue.pager import QueuePager
    from penstock.core.queue.storage import QueueStorage
    from penstock.flow.work import Chore

NO_FAST_PATH: Final = -1


class Queue(GateOwner):
    """One queue, used only by its broker and that broker's sessions."""

    deleted: bool = False
    highest_messages: i64 = 0
    highest_bytes: i64 = 0
    settled: i64 = 0
    unacked_messages: i64 = 0
    unacked_bytes: i64 = 0
    tail: i64 = 0
    """Sequence of the newest message."""
    fast_path_max_messages: i64 = 0
    fast_path_max_bytes: i64 = 0
    withheld_max_messages: i64 = NO_FAST_PATH
    withheld_max_bytes: i64 = NO_FAST_PATH
    recheck_on_settle: bool = False
    operator_gated: bool = False
    """True if `gates` contains an operator gate that is closed or has waiters."""
    tracks_removals: bool = False
    """True if each removed message must be checked: some messages are stored, or count in an address's sum."""
    durable: bool = False
    auto_delete: bool = False
    used: bool = False  # True once the queue had a consumer: only then auto-delete applies (section 1.7.2.1).
    scheduled: bool = False
    delayed_messages: i64 = 0
    delayed_bytes: i64 = 0
    """Messages that are not due yet, which count in the depth and are neither ready nor unacknowledged."""
    coming_back: i64 = 0
    """Messages being requeued; these still count as unacknowledged."""
    owner: object = None
    """The connection of an exclusive queue; None for other queues."""

    def __init__(
        self, vhost: str, name: str, settings: Settings, turns: Turns, losses: UnreportedLosses, features: Features
    ) -> None:
        self.turns = turns
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Bytes in memory."""
        self.pager: QueuePager | None = None
        """The pager of the messages on disk; None if there are none and the policy is not `page`."""
        self.counters = QueueCounters(losses)
        self.returning: dict[Requeueing, None] | None = None
        """Requeue operations in progress, one slice a turn, during which no message is delivered. None if there are
        none.
        """
        self.settling: Chore | None = None
        """Removal of very many messages that all cursors have settled."""
        self.clearing: Clearing | None = None
        """Removal of very many messages to make room for a large message."""
        self.vhost = vhost
        self.name = name
        self.features = features
        self.settings = settings
        self.thresholds = settings.thresholds
        self.overflow = settings.overflow
        self.arguments: dict[str, object] = {}
        self.arguments_charge: int = 0
        """Charge of the arguments in the metadata memory."""
        self.gate = Gate("queue", name, turns.transitions)
        self.gate.owner = self
        self.gates: list[Gate] = [self.gate]
        """Gates of a message on its way into this queue: the queue's own gate, gates of shared limits, operator
        gates.
        """
        self._other_gates: list[Gate] = []
        """All possible gates except the queue's own."""
        self.reserved = QueueRoom(self)
        """Room for granted credit (see Reservation), in addition to the depth."""
        self.membership = Membership(self)
        self.storage: QueueStorage | None = None
        """The stored queue; None if the queue is not durable."""
        self.ready_queue = features.type.ready(features.max_priority)
        self.consumers: dict[Subscriber, None] = {}
        """Consumers in the order of their subscription."""
        self.rotation: Subscriptions | None = None
        """Round-robin rotation of the consumers; None while there are none."""
        self.cursors: list[CursorState] = []
        """Cursors that read this queue; empty in ordinary use."""
        self.queue_expiry: TimerHandler | None = None
        """Timer of the queue's expiry; None while nothing expires."""
        self.dead_letters: DeadLetterSink | None = None
        """Publisher of the queue's dead letters; None if dead letters are dropped."""
        self.grouping: Grouping | None = None
        """Message groups by the setting group-by; None without groups."""
        self.length: Length | None = None
        """Length limit of ready messages, in addition to the capacity; None without one."""
        self.retention: Retainer | None = None
        """Retention of settled messages; None without it."""
        self.delays: DelayedMessages | None = None
        """The delayed messages; None if the queue never had one, and retries nothing later."""
        self._update_fast_path(0.0)

    # Enqueueing

    def enqueue(
        self, address: Envelope, content: bytes, charge: i64, now: float, share: AddressShare | None = None
    ) -> None:
        """Enqueue an admitted message; may close the gate. `share` is the message's part in the sum of its address."""
        if isinstance(address, DelayedEnvelope):
            if is_delayed_in(self, address):
                self._delay(address, content, charge, now, share)
                return
            address = address.plain
        pages = self.pager
        if pages is not None and pages.pages_next(charge):
            if share is not None:
                share.leave(now)  # Paged messages count neither in their address nor in their virtual host.
            self.tail += 1
            pages.add(address, content, charge, self.tail, now)
            self.update_gate(now)
            return
        while not self.fits(charge) and self.overflow.drops:
            self.drop_oldest(now)
        if share is None and address.ttl_s == NEVER:
            self.append(address, content, charge, now)
        else:
            self.tracks_removals = self.tracks_removals or share is not None
            self.tail += 1
            message = TrackedMessage(address, content, charge, self.tail, now, share)
            if address.persistent and self.storage is not None:
                self.storage.add(message)
            if address.priority >= URGENT_FROM:
                self._divide()
            self.ready_queue.append(message)
            self.messages += 1
            self.bytes += charge
        if self.length is not None:
            self.length.on_enqueued(content, now)
        self.update_gate(now)

    def _delay(
        self, address: DelayedEnvelope, content: bytes, charge: i64, now: float, share: AddressShare | None
    ) -> None:
        """Enqueue a message that is due later. It stays in memory, also if the queue pages."""
        while not self.fits(charge) and self.overflow.drops and self.available() > 0:
            self.drop_oldest(now)
        assert self.delays is not None, "the caller has prepared the queue: see delays.py"
        self.delays.add(address, content, charge, now, share)
        self.update_gate(now)

    def takes_delayed(self, messages: i64, bytes: i64) -> bool:
        """Return whether this additional amount may be delayed: a queue that pages needs memory for it."""
        return self.pager is None or self.deleted or self.has_memory_for(messages, bytes)

    def could_ever_delay(self, messages: i64, bytes: i64) -> bool:
        """Return whether an empty queue could delay this amount."""
        return self.pager is None or self.thresholds.capacity.covers(messages, bytes)

    def takes_envelope(self, address: Envelope, charge: i64) -> bool:
        """Return whether a message with room may enter with its envelope: false if there is no memory to delay it."""
        return not is_delayed_in(self, address) or self.takes_delayed(1, charge)

    def takes_at_once(self, charge: i64) -> bool:
        """Return whether a message crosses no limit of the fast path."""
        return self.messages < self.fast_path_max_messages and self.bytes + charge <= self.fast_path_max_bytes

    def take_place(self, charge: i64) -> i64:
        """Count a message that crosses no limit of the fast path, and return its sequence; 0 if it crosses a limit.

        The caller appends the message to the ready queue and records it in the journal.
        """
        if not self.takes_at_once(charge):
            return 0
        self.messages += 1
        self.bytes += charge
        sequence = self.tail + 1
        self.tail = sequence
        return sequence

    def append(self, address: Envelope, content: bytes, charge: i64, now: float) -> None:
        """Append a message that crosses no threshold, as decided by `fast_path_max_messages` and the like."""
        self.tail += 1
        if address.priority >= URGENT_FROM:
            self._divide()
        if address.persistent and self.storage is not None:
            message = StoredMessage(address, content, charge, self.tail, now)
            self.storage.add(message)
            self.ready_queue.ready_for(address.priority).append(message)
        else:
            self.ready_queue.ready_for(address.priority).append(Message(address, content, charge, self.tail, now))
        self.messages += 1
        self.bytes += charge

    def restore(self, messages: list[StoredMessage], charge: i64) -> None:
        """Append messages that were read from the store, in order, with the sum of their charges."""
        if not messages:
            return
        if self.features.type.urgent_first:
            for message in messages:
                if message.envelope.priority >= URGENT_FROM:
                    self._divide()
                    break
        self.ready_queue.extend(messages)
        self.messages += len(messages)
        self.bytes += charge
        self.counters.count_restored(messages)
        self.raise_tail(messages[len(messages) - 1].sequence)

    def _divide(self) -> None:
        """Divide the ready messages into classes before an urgent one enters, if the type of the queue has these.

        A queue that pages has one line: messages return from the disk in the order in which they were paged. So has a
        queue with groups, whose messages keep their order.
        """
        if self.features.type.urgent_first and self.pager is None and self.grouping is None:
            self.ready_queue = divided(self.ready_queue)

    def raise_tail(self, sequence: i64) -> None:
        """Never assign a sequence up to this one to another message."""
        if sequence > self.tail:
            self.counters.restored += sequence - self.tail
            self.tail = sequence

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """Return whether a message has room, or need not wait because the queue is deleted or could never fit it."""
        if self.crowded(charge) or (self.overflow.drops and self._clears(charge)):
            return False
        return self.admits_at_once(charge)

    def _clears(self, charge: i64) -> bool:
        """Return whether a message must wait because it displaces many others, and begin to drop these in slices.

        Their number is unknown before a scan, so the bytes and the smallest charge of a message decide.
        """
        capacity = self.thresholds.capacity
        wanted = self.bytes + self.reserved.bytes + charge - capacity.bytes
        if wanted <= AT_ONCE * OVERHEAD or self.deleted or self.verdict(1, charge, charge) != ACCEPT:
            return False
        if self.available() <= AT_ONCE or self.fits(charge):
            return False
        if self.clearing is None:
            self.clearing = Clearing(self)
        self.clearing.begin(charge)
        return True

    def admits_at_once(self, charge: i64) -> bool:
        """Return whether a message need not wait for room here."""
        if self.deleted or self.fits(charge) or not self.can_ever_fit(charge):
            return True
        return self.verdict(1, charge, charge) != HOLD

    def crowded(self, charge: i64) -> bool:
        """Return whether a message must wait for dead letters in progress, because it would add more of them."""
        letters = self.dead_letters
        if letters is None or not letters.crowded() or self.deleted:
            return False
        return not self.fits(charge) or (self.length is not None and self.length.full())

    def takes(self, content: bytes, charge: i64, now: float) -> bool:
        """Return whether the overflow policy accepts a message that need not wait, or cannot wait longer."""
        if self.deleted or (self.length is not None and not self.length.takes_content(content, now)):
            return False
        return self.fits(charge) or self.verdict(1, charge, charge) == ACCEPT

    def refusing(self, content: bytes, now: float) -> OverflowPolicy:
        """Return the policy that refuses a message: the policy at the length, if the length limit does not accept the
        message.
        """
        length = self.length
        return self.overflow if length is None or length.takes_content(content, now) else length.policy

    def dropping(self) -> OverflowPolicy | None:
        """Return the policy by which the oldest messages are dropped, at the capacity or the length; None if no policy
        does.
        """
        if self.overflow.drops:
            return self.overflow
        length = self.length
        return length.policy if length is not None and length.drops else None

    def verdict(self, messages: i64, bytes: i64, largest: i64, back: i64 = 0, back_bytes: i64 = 0) -> int:
        """Return ACCEPT, HOLD or REFUSE for publishes that do not fit, the largest with this charge; without any
        change.

        `back` is the unacknowledged amount that settlements of the same commit remove.
        """
        policy, room = self.overflow, self.reserved
        if policy.pages and (self.pager is None or self.pager.within_limit(messages, bytes)):
            return HOLD
        unacked = self.unacked_messages + self.delayed_messages - back
        rest = self.unacked_bytes + self.delayed_bytes - back_bytes + room.bytes
        return policy.judge(self.thresholds.capacity, unacked, unacked + room.messages + 1, rest + largest)

    def may_defer_turn(self) -> bool:
        """Return whether consumers have enough ready messages: half of the resume threshold."""
        resume = self.thresholds.resume
        return self.messages * 2 > resume.messages or self.bytes * 2 > resume.bytes

    @override
    def recall(self, parties: list[Party], now: float) -> float:
        return self.reserved.recall(parties, now)

    @override
    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        return self.thresholds.bound(messages, bytes)

    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        """Return whether a commit has room; False only if the commit must wait for room."""
        if self.deleted or self.covers(messages, bytes):
            return True
        return self.verdict(messages, bytes, bytes) != HOLD

    def measure(self) -> Measure:
        """See `GateOwner.measure`: the depth, with its part on the disk."""
        room = self.reserved
        measured = Measure(self.thresholds, self.depth_messages(), self.depth_bytes(), room.messages, room.bytes)
        if self.pager is not None:
            measured.paged_messages = self.pager.messages
            measured.paged_bytes = self.pager.bytes
        return measured

    @override
    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        return self.verdict(messages, bytes, bytes) != HOLD or self.can_ever_fit(bytes, messages)

    @override
    def describe_overflow(self) -> str:
        return describe_depth(self)

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`: a queue that pages has no room on the disk, or the disk is slow."""
        if self.gate.open and self.pager is not None and self.pager.messages > 0:
            return describe_paging(self, self.pager)
        return self.measure().describe_cause(self.gate.open)

    @override
    def describe_refusal(self) -> str:
        return f"queue '{self.name}' {self.measure().describe_refusal(self.gate.open)}"

    @override
    def vhost_name(self) -> str | None:
        return self.vhost

    @override
    def hold_deadline_s(self, default_s: float) -> float:
        return self.settings.hold_deadline_s

    def covers(self, messages: i64, bytes: i64) -> bool:
        """Return whether this additional amount stays within the capacity, reservations included, or may be paged."""
        return self.has_memory_for(messages, bytes) if self.pager is None else self.pager.has_room(messages, bytes)

    def has_memory_for(self, messages: i64, bytes: i64) -> bool:
        """Return whether this additional amount stays within the capacity, reservations included."""
        return self.thresholds.capacity.covers(
            self.messages + self.reserved.messages + messages, self.bytes + self.reserved.bytes + bytes
        )

    def fits(self, charge: i64) -> bool:
        """Return whether a message with this charge fits within the capacity, reservations included."""
        return self.covers(1, charge)

    def can_ever_fit(self, charge: i64, messages: i64 = 1) -> bool:
        """Return whether this amount would fit into the empty queue."""
        if self.pager is not None and self.pager.could_cover(messages, charge):
            return True
        return self.thresholds.capacity.covers(messages, charge)

    # Delivery and settlement

    def available(self) -> i64:
        """Return the number of messages that could be delivered now."""
        return self.ready_queue.available()

    def waiting(self) -> i64:
        """Return the number of ready messages, in memory or on disk."""
        there = self.ready_queue.available() + self.ready_queue.held_back() + self.coming_back
        return there if self.pager is None else there + self.pager.messages

    def oldest_age_s(self, now: float) -> float:
        """Return the age of the oldest ready message in seconds; -1 without one.

        While the disk reads the first page and no message is ready in memory, the age is that of the message before it.
        """
        arrived = self.ready_queue.oldest_arrival()
        if arrived == NEVER and self.pager is not None and self.pager.messages > 0:
            arrived = self.pager.arrived
        if arrived == NEVER:
            return -1.0
        return now - arrived if arrived < now else 0.0

    def settle(self, messages: i64, bytes: i64, now: float) -> None:
        """Remove settled messages from the depth; may open the gate, or make room for waiters."""
        if self.messages > self.highest_messages:
            self.highest_messages = self.messages
        counted = self.thresholds.capacity.counted(self.messages, self.bytes)
        self.highest_bytes = counted if counted > self.highest_bytes else self.highest_bytes
        self.messages -= messages
        self.bytes -= bytes
        self.settled += messages
        self.counters.count_settled(bytes, now)
        if self.recheck_on_settle:
            self.update_gate(now)

    def withdraw(self, messages: i64, bytes: i64, now: float) -> None:
        """Remove messages that no consumer has from the depth."""
        self.settle(messages, bytes, now)

    def unacked(self, messages: i64, bytes: i64) -> None:
        """Count unacknowledged messages: delivered ones, or (negative) requeued ones."""
        self.unacked_messages += messages
        self.unacked_bytes += bytes
        if self.pager is not None:
            self.pager.request_pages()

    def requeue(self, message: Message, now: float, failed: bool = True) -> None:
        """Requeue a message at its position; a message of a deleted queue is dropped.

        A failed delivery counts: the message is dead-lettered if its delivery limit is reached.
        """
        if self.deleted:
            self.release([message], now)
            self.settle(1, message.charge, now)
            return
        if failed:
            message.count_failure()
            if i64(message.past) > self.delivery_limit():
                self.dead_letter(message, DELIVERY_LIMIT, now)
                return
            if self.delays is not None and self.settings.retry_delay_s > 0:
                self.delays.retry(message, now)
                if self.grouping is not None:
                    self.grouping.on_delayed(message.sequence)
                return
        else:
            message.mark_delivered()
        self.membership.count_returned(message, now)
        if self.storage is not None and isinstance(message, StoredMessage):
            self.storage.journal.on_requeued(message)
        self.ready_queue.put_back(message)
        self.counters.returned += 1
        if self.length is not None:
            self.length.on_requeued(message, now)

    def set_storage(self, storage: QueueStorage) -> None:
        """Store the queue, and the persistent messages that arrive after this call."""
        self.storage = storage
        self.tracks_removals = True

    def enable_paging(self, pages: QueuePager) -> None:
        """Attach the pager. A queue with a pager has no classes of messages."""
        self.pager = pages
        self.ready_queue = in_order(self.ready_queue)
        self.tracks_removals = True

    def set_grouping(self, grouping: Grouping | None) -> None:
        """Set the message groups; every removal is reported to these."""
        self.grouping = grouping
        self.tracks_removals = self.tracks_removals or grouping is not None

    def on_paging_finished(self) -> None:
        """Handle the end of paging: no page is left."""
        if self.overflow is not self.settings.overflow:
            self._choose_overflow()
            self._choose_gates()

    def accept(self, messages: list[Message | None], now: float) -> None:
        """As `release`, for messages that were settled with success: a queue with retention retains these."""
        if self.retention is not None:
            self.retention.retain(messages, now)
        self.release(messages, now)

    def release(self, messages: list[Message | None], now: float) -> None:
        """Remove messages from their address's sum and from the store, if `tracks_removals`."""
        storage = self.pager.storage if self.storage is None and self.pager is not None else self.storage
        if storage is not None:
            storage.forget(messages, now)
        self.membership.leave_addresses(messages, now)
        if self.grouping is not None:
            self.grouping.on_left(messages)

    def drop_oldest(self, now: float) -> None:
        """Drop the oldest ready message (drop-head); the caller updates the gate."""
        message = self.ready_queue.pull()
        if isinstance(message, TrackedMessage):
            sweep(self)
        if self.length is not None:
            self.length.on_removed(message)
        if self.dead_letters is not None:
            self.dead_letters.dead_letter(message, MAXLEN, False)
        if self.tracks_removals:
            self.release([message], now)
        self.messages -= 1
        self.bytes -= message.charge
        self.counters.count_drop(self, message.charge)

    def delivery_limit(self) -> i64:
        """Return the delivery limit; UNLIMITED without one."""
        limit = self.settings.delivery_limit
        if limit != NOT_SET:
            return limit
        return self.features.type.delivery_limit

    def counts_returns(self) -> bool:
        """Return whether consumers get a delivery count: if a limit exists, or may be set."""
        return self.features.type.counts_returns or self.settings.delivery_limit != NOT_SET

    def dead_letter(self, message: Message, reason: str, now: float, added: ContentChange | None = None) -> None:
        """Remove a ready message for a reason, and dead-letter it if the queue has a dead-letter exchange."""
        if self.dead_letters is not None:
            if self.grouping is not None:
                self.grouping.on_left([message])
            self.unacked(1, message.charge)
            self.dead_letters.dead_letter(message, reason, True, added)
            return
        if self.tracks_removals:
            self.release([message], now)
        self.counters.own().withdrawn += 1
        self.settle(1, message.charge, now)

    def count_rejected(self, address: Envelope, content: bytes, charge: i64, now: float) -> None:
        """Count a message that the overflow policy refused, or that arrived after the deletion."""
        if self.dead_letters is not None and not self.deleted and self.refusing(content, now).dead_letters:
            self.dead_letters.dead_letter(Message(address, content, charge, 0, now), MAXLEN, False)
        self.count_refusal()

    def purge(self, now: float, reroute: bool = False, at_once: i64 = AT_ONCE) -> int:
        """Drop all messages except unacknowledged ones; returns their number.

        More than `at_once` are removed from the store and from address depths in slices (see Leftovers). `reroute`:
        routes to this queue will be resolved again (see VirtualHost.purge_queue).
        """
        leftovers: DeferredFree = Leftovers(self) if self.tracks_removals else DeferredFree()
        arriving = self.reserved.take_arriving()
        for returning in [] if self.returning is None else list(self.returning):
            leftovers.batches.extend(returning.take(self))
        messages, size = self.messages - self.unacked_messages, self.bytes - self.unacked_bytes
        delayed = self.delayed_messages
        if self.delays is not None:
            leftovers.batches.extend(self.delays.take_all())
        if messages - delayed > at_once:
            self.ready_queue.hand_over(leftovers, reroute)
        else:
            if self.tracks_removals:
                self.release(list(self.ready_queue.messages()), now)
            self.ready_queue.clear()
        if self.length is not None:
            self.length.bodies = 0
        paged: i64 = 0 if self.pager is None else self.pager.clear()
        self.settled += paged
        self.counters.own().withdrawn += messages + paged
        self.withdraw(messages, size, now)
        if self.pager is not None:
            self.update_gate(now)
        if self.storage is not None:
            self.storage.journal.require_flush()
        leftovers.begin(self.turns.chores)
        return int(messages + paged + arriving)

    # Counts

    def ready_messages(self) -> i64:
        """Return the number of messages that are neither unacknowledged nor delayed, those on disk included."""
        return self.depth_messages() - self.unacked_messages - self.delayed_messages

    def depth_messages(self) -> i64:
        """Return the number of messages, those on disk included."""
        return self.messages if self.pager is None else self.messages + self.pager.messages

    def depth_bytes(self) -> i64:
        """Return the bytes (charges), those on disk included."""
        return self.bytes if self.pager is None else self.bytes + self.pager.bytes

    def highest(self) -> tuple[int, int]:
        """Return the highest messages and the highest bytes ever (perhaps at different times)."""
        counted = self.thresholds.capacity.counted(self.messages, self.bytes)
        return int(max(self.messages, self.highest_messages)), int(max(counted, self.highest_bytes))

    def count_refusal(self) -> None:
        """Count a refused message, for the report."""
        self.counters.count_refusal(None if self.deleted else self)

    # Thresholds

    def apply_settings(self, settings: Settings, now: float) -> None:
        """Apply changed settings and update the gate."""
        self.settings = settings
        self.thresholds = settings.thresholds
        self._choose_overflow()
        self._choose_gates()
        self.update_gate(now)
        self.reserved.review(now)

    def _choose_overflow(self) -> None:
        """Choose the overflow policy of the settings; paged messages must be read first, so that no message is
        overtaken.
        """
        pages = self.pager
        wanted = self.settings.overflow
        self.overflow = READ_BACK if pages is not None and pages.messages > 0 and not wanted.pages else wanted

    def update_gate(self, now: float) -> None:
        """Check the depth: close or open the gate, and set the limits of the hot path."""
        gate = self.gate
        if gate.open:
            # Unacknowledged messages of a deleted queue block no producer: its gate has opened for good.
            if not self.deleted and self.thresholds.overfull(self.depth_messages(), self.depth_bytes()):
                gate.close(self.depth_messages(), self.measure().bytes, now)
        elif self.reserved.may_open():
            gate.reopen(self.depth_messages(), self.measure().bytes, now)
        if gate.open and gate.has_line():
            self.turns.schedule(gate)
        self._update_fast_path(now)
        if self.deleted and self.messages == 0:
            self.turns.ended.append(self)

    def _update_fast_path(self, now: float) -> None:
        """Set the limits of the fast path.

        The fast path applies while every gate is open and has no waiter, and the message crosses neither stop, capacity
        nor the counted amounts of shared limits.
        """
        membership = self.membership
        if membership.pools:
            membership.review(now)
        has_line = self.gate.has_line() or (self.gate.open and len(self.gate.returning) > 0)
        self.recheck_on_settle = self.deleted or not self.gate.open or has_line
        paging = False
        if self.pager is not None:
            paging = self.pager.messages > 0 or self.pager.retains
            self.recheck_on_settle = self.recheck_on_settle or paging or self.pager.finish_reported
            self.pager.request_pages()
        self.fast_path_max_messages = self.fast_path_max_bytes = NO_FAST_PATH
        self.withheld_max_messages = self.withheld_max_bytes = NO_FAST_PATH
        if not (self.operator_gated or self.deleted or has_line or paging):
            stop, capacity = self.thresholds.stop, self.thresholds.capacity
            messages = capacity.messages - self.reserved.messages
            size = capacity.bytes - self.reserved.bytes
            if self.gate.open:
                self.fast_path_max_messages = stop.messages if stop.messages < messages else messages
                self.fast_path_max_bytes = stop.bytes if stop.bytes < size else size
                if stop.uncounted > 0:  # Exact while no message leaves, so each settlement must set this limit again.
                    self.fast_path_max_bytes += stop.uncounted * self.messages
                    self.recheck_on_settle = True
            else:
                self.withheld_max_messages = messages
                self.withheld_max_bytes = size
            if self.length is not None:
                easy = self.length.fast_path_max_messages()
                self.fast_path_max_messages = min(self.fast_path_max_messages, easy)
                self.withheld_max_messages = min(self.withheld_max_messages, easy)
        if self.reserved.messages > 0 or self.reserved.most_messages > 0:
            self.reserved.set_most(paging)
        if membership.pools:
            membership.bound()

    def set_gates(self, gates: list[Gate], pools: list[SharedLimit], now: float) -> None:
        """Set the gates on the road into the queue, except the queue's own gate; `pools` own some of them."""
        self.membership.move(pools, now)
        self.operator_gated = len(gates) > len(pools)
        self._other_gates = gates
        self._choose_gates()
        self.update_gate(now)
        self.reserved.review(now)

    def _choose_gates(self) -> None:
        """Choose the gates of the road: shared limits do not apply while messages may be paged."""
        pages = self.pager is not None and self.overflow.pages
        sums = [pool.gate for pool in self.membership.pools] if pages else []
        self.gates = [self.gate, *[gate for gate in self._other_gates if gate not in sums]]


def is_delayed_in(queue: Queue, address: Envelope) -> bool:
    """Return whether a queue delays a message with this envelope."""
    return isinstance(address, DelayedEnvelope) and not address.passes_by(queue)


def queue_of(gate: Gate) -> Queue | None:
    """Return the queue of a gate, to describe its consumers; None for other gates."""
    owner = gate.owner
    return owner if isinstance(owner, Queue) else None


def describe_depth(queue: Queue) -> str:
    """Return the depth, the capacity and the policy that refused a publish."""
    paged = ""
    if queue.pager is not None:
        pages = queue.pager
        paged = f"; of these {int(pages.messages):,}, {int(pages.bytes):,} bytes, are on the disk, where "
        paged += f"{queue.settings.page_limit.describe()} is the most"
    if queue.length is not None:
        acts = f"{queue.length.acts()} by its overflow policy {queue.length.policy.name}"
        paged = f"; it has {queue.length.clause()}; above it {acts}{paged}"
    return (
        f"queue '{queue.name}' holds {amounts(queue.depth_messages(), queue.measure().bytes)}; its "
        f"capacity is {queue.thresholds.capacity.describe()} and its overflow policy {queue.overflow.name}{paged}"
    )


def describe_paging(queue: Queue, pages: QueuePager) -> str:
    """Return the paging condition that holds publishes of a queue whose gate is open."""
    if not queue.overflow.pages:
        return f"{amount(pages.messages)} messages are read back from disk first: the queue no longer pages"
    if pages.unwritten_bytes > 0 and pages.within_limit(1, 1):
        return f"{amount(pages.unwritten_bytes)} bytes wait to be written to the disk"
    return Measure(Thresholds(queue.settings.page_limit, Level(), Level()), pages.messages, pages.bytes).describe_full()
