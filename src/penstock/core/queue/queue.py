"""A queue: messages in order, a depth that never passes its capacity, and a gate that its depth closes and opens.

Theory of operation. A message gets the next sequence number when it comes in and keeps it. What waits for delivery is
kept, in order, by the backlog. Delivered and unsettled messages are kept by the session that they went to and still
count in the depth.

The accounting has one hot path: `fast_path_max_messages` and `fast_path_max_bytes` say up to which depth a message may
come in without anybody having to look at thresholds, gates or waiters; `withheld_max_messages` and `withheld_max_bytes`
up to which depth who is blocked by the queue's gate already may go on, withheld (see Row); `watched` whether a falling
depth must be looked at, for the gate is closed or somebody waits at it. Whoever changes one of those calls `review`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.consumer import Consumer
from penstock.core.gates.address_depth import AddressShare
from penstock.core.gates.pool_member import Membership
from penstock.core.message import OVERHEAD, REDELIVERIES_MAX, Envelope, Message, StoredMessage, TrackedMessage
from penstock.core.publish.death_record import DELIVERY_LIMIT, MAXLEN, REJECTED
from penstock.core.queue.counters import QueueCounters
from penstock.core.queue.deferred_free import Leftovers
from penstock.core.queue.overflow import ACCEPT, HOLD, READ_BACK
from penstock.core.queue.priority_queue import Priorities
from penstock.core.queue.ready_queue import ReadyQueue
from penstock.core.queue.room_making import Clearing
from penstock.core.settings.queue_settings import NOT_SAID, Settings
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.shared_limit import SharedLimit
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.turns import Turns
from penstock.flow.work import AT_ONCE
from penstock.setting_names import QUORUM_DELIVERY_LIMIT, Features

if TYPE_CHECKING:
    from penstock.core.consume.bulk_requeue import Returning
    from penstock.core.consume.cursor import Cursor
    from penstock.core.consume.rotation import Rotation
    from penstock.core.journal.group import QueueStorage
    from penstock.core.publish.dead_letters import DeadLetterPublisher
    from penstock.core.queue.length_limit import Length
    from penstock.core.queue.pager import QueuePager

NO_FAST_PATH: Final = -1


class Queue(QueueCounters):
    """One queue. Only its broker and the sessions of that broker touch it."""

    def __init__(self, vhost: str, name: str, settings: Settings, turns: Turns, features: Features) -> None:
        super().__init__(turns)
        self.vhost = vhost
        self.name = name
        self.features = features
        self.settings = settings
        self.thresholds = settings.thresholds
        self.overflow = settings.overflow
        self.arguments: dict[str, object] = {}
        self.arguments_charge: int = 0
        """What its arguments count with in `Metadata`."""
        self.durable: bool = False
        self.auto_delete: bool = False
        self.owner: object = None
        """The connection that an exclusive queue belongs to; None for all others."""
        self.gate = Gate("queue", name, turns.transitions)
        self.gate.owner = self
        self.gates: list[Gate] = [self.gate]
        """What a message on its way into this queue must pass: its own gate, its pools', the operator's."""
        self._other_gates: list[Gate] = []
        """All but its own that could stand there."""
        self.operator_gated: bool = False
        """Whether an operator's gate is among them: closed, or with waiters."""
        self.membership = Membership(self)
        self.tracks_removals: bool = False
        """Whether each message that leaves must be looked at: some count with their address too, or are stored."""
        self.storage: QueueStorage | None = None
        """What it is in the store; None where it does not outlive the broker."""
        self.reserved_messages: i64 = 0
        self.reserved_bytes: i64 = 0
        """Room that is set aside for credit that was granted (see Reservation)."""
        self.ready_queue = Priorities(features.max_priority) if features.max_priority else ReadyQueue()
        self.unacked_messages: i64 = 0
        self.unacked_bytes: i64 = 0
        self.tail: i64 = 0
        """Sequence of the last message that came in."""
        self.fast_path_max_messages: i64 = 0
        self.fast_path_max_bytes: i64 = 0
        self.withheld_max_messages: i64 = NO_FAST_PATH
        self.withheld_max_bytes: i64 = NO_FAST_PATH
        self.recheck_on_settle: bool = False
        self.consumers: dict[Consumer, None] = {}
        """In the order of their coming."""
        self.rotation: Rotation | None = None
        """Whose turn it is among them; None while there are none."""
        self.used: bool = False  # Whether it ever had a consumer: only then auto-delete applies (section 1.7.2.1).
        self.cursors: list[Cursor] = []
        """The cursors that read this queue; empty while it is used in the ordinary way."""
        self.scheduled: bool = False
        self.queue_expiry: TimerHandler | None = None
        """Looks after what expires here; None while nothing does."""
        self.dead_letters: DeadLetterPublisher | None = None
        """Sees to the messages that die here; None where they are dropped."""
        self.length: Length | None = None
        """Bounds what is ready, apart from the capacity; None where nothing does."""
        self._update_fast_path(0.0)

    # Coming in

    def enqueue(
        self, address: Envelope, content: bytes, charge: i64, now: float, share: AddressShare | None = None
    ) -> None:
        """Take a message whose admission has been decided; may close the gate. `share` is its part in its address."""
        pages = self.pager
        if pages is not None and pages.pages_next(charge):
            if share is not None:
                share.leave(now)  # What is on the disk counts with its address no more than with its virtual host.
            self.tail += 1
            pages.add(address, content, charge, self.tail, now)
            self.update_gate(now)
            return
        if not self.fits(charge):
            self.overflow.make_room(self, charge, now)
        if share is None and address.ttl_s == NEVER:
            self.append(address, content, charge, now)
        else:
            self.tracks_removals = self.tracks_removals or share is not None
            self.tail += 1
            message = TrackedMessage(address, content, charge, self.tail, now, share)
            if address.persistent and self.storage is not None:
                self.storage.add(message)
            self.ready_queue.append(message)
            self.messages += 1
            self.bytes += charge
        if self.length is not None:
            self.length.came(content, now)
        self.update_gate(now)

    def append(self, address: Envelope, content: bytes, charge: i64, now: float) -> None:
        """Put a message at the end where that crosses no threshold; `fast_path_max_messages` and the like decide."""
        self.tail += 1
        if address.persistent and self.storage is not None:
            message = StoredMessage(address, content, charge, self.tail, now)
            self.storage.add(message)
            self.ready_queue.ready_for(address.priority).append(message)
        else:
            self.ready_queue.ready_for(address.priority).append(Message(address, content, charge, self.tail, now))
        self.messages += 1
        self.bytes += charge

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """See `GateOwner.admits`: false only where a message must wait for room.

        One that was deleted stops nobody, and nobody waits for room that cannot come (the capacity was lowered).
        """
        if self.crowded(charge) or (self.overflow.drops and self._clears(charge)):
            return False
        return self.has_place(charge)

    def _clears(self, charge: i64) -> bool:
        """Tell whether a message would displace many: then they go a slice a turn, from now on, and it waits for that.

        As nobody knows how many until they are looked at, it goes by the bytes and the least that a message is charged.
        """
        capacity = self.thresholds.capacity
        wanted = self.bytes + self.reserved_bytes + charge - capacity.bytes
        if wanted <= AT_ONCE * OVERHEAD or self.deleted or self.overflow.verdict(self, charge) != ACCEPT:
            return False
        if self.available() <= AT_ONCE or self.fits(charge):
            return False
        if self.clearing is None:
            self.clearing = Clearing(self)
        self.clearing.begin(charge)
        return True

    def has_place(self, charge: i64) -> bool:
        """Tell whether a message need not wait for room here."""
        if self.deleted or self.fits(charge) or not self.can_ever_fit(charge):
            return True
        return self.overflow.verdict(self, charge) != HOLD

    def crowded(self, charge: i64) -> bool:
        """Tell whether a message must wait until dead letters are seen to: it would make more of them."""
        letters = self.dead_letters
        if letters is None or not letters.crowded() or self.deleted:
            return False
        return not self.fits(charge) or (self.length is not None and self.length.full())

    def takes(self, content: bytes, charge: i64, now: float) -> bool:
        """Tell whether a message goes in that need not wait, or may not any more."""
        if self.deleted or (self.length is not None and not self.length.takes_content(content, now)):
            return False
        return self.fits(charge) or self.overflow.verdict(self, charge) == ACCEPT

    def may_defer_turn(self) -> bool:
        """See `GateOwner.may_defer_turn`: consumers have half of what the resume threshold leaves them."""
        resume = self.thresholds.resume
        return self.messages * 2 > resume.messages or self.bytes * 2 > resume.bytes

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """See `GateOwner.limits_increase`."""
        return self.thresholds.bound(messages, bytes)

    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        """See `GateOwner.has_room`: false only where a commit must wait for room."""
        return self.deleted or self.covers(messages, bytes) or self.overflow.judge(self, messages, bytes, bytes) != HOLD

    def covers(self, messages: i64, bytes: i64) -> bool:
        """Tell whether so much more does not pass the capacity, what is reserved included; or may go to the disk."""
        return self.has_memory_for(messages, bytes) if self.pager is None else self.pager.has_room(messages, bytes)

    def has_memory_for(self, messages: i64, bytes: i64) -> bool:
        """Tell whether so much more does not pass the capacity, what is reserved included."""
        return self.thresholds.capacity.covers(
            self.messages + self.reserved_messages + messages, self.bytes + self.reserved_bytes + bytes
        )

    def fits(self, charge: i64) -> bool:
        """Tell whether a message with this charge goes in without passing the capacity, what is reserved included."""
        return self.covers(1, charge)

    def reserve(self, messages: i64, bytes: i64, now: float) -> None:
        """Set room aside, or (negative) give it back; see Reservation."""
        self.reserved_messages += messages
        self.reserved_bytes += bytes
        self.update_gate(now)

    def could_make_room(self, charge: i64) -> bool:
        """Tell whether it would go in if everything that is not with a consumer were dropped."""
        return self.thresholds.capacity.covers(
            self.unacked_messages + self.reserved_messages + 1, self.unacked_bytes + self.reserved_bytes + charge
        )

    def can_ever_fit(self, charge: i64) -> bool:
        """Tell whether it would go in if the queue were empty."""
        if self.pager is not None and self.pager.could_cover(1, charge):
            return True
        return self.thresholds.capacity.covers(1, charge)

    # Going out

    def available(self) -> i64:
        """Return how many messages could be delivered now."""
        return self.ready_queue.available()

    def waiting(self) -> i64:
        """Return how many messages wait for a consumer, in memory or on the disk."""
        there = self.ready_queue.available() + self.coming_back
        return there if self.pager is None else there + self.pager.messages

    def settle(self, messages: i64, bytes: i64, now: float) -> None:
        """Forget messages that are done with; may open the gate, or make room for who waits."""
        if self.messages > self.highest_messages:
            self.highest_messages = self.messages
        if self.bytes > self.highest_bytes:
            self.highest_bytes = self.bytes
        self.messages -= messages
        self.bytes -= bytes
        self.settled += messages
        if self.recheck_on_settle:
            self.update_gate(now)

    def unacked(self, messages: i64, bytes: i64) -> None:
        """Count messages that went out to, or (negative) came back from, consumers that must acknowledge."""
        self.unacked_messages += messages
        self.unacked_bytes += bytes
        if self.pager is not None:
            self.pager.request_pages()

    def requeue(self, message: Message, now: float) -> None:
        """Put a delivered message back where it was; one that has come back too often dies."""
        if message.redeliveries < REDELIVERIES_MAX:
            message.redeliveries += 1
        if i64(message.redeliveries) > self.delivery_limit() and not self.deleted:
            self.dead_letter(message, DELIVERY_LIMIT, now)
            return
        if self.storage is not None and isinstance(message, StoredMessage):
            self.storage.journal.on_requeued(message)
        self.ready_queue.put_back(message)
        if self.length is not None:
            self.length.came_back(message, now)

    def finish_returning(self, now: float) -> None:
        """Somebody asks for a message: have the oldest there of those that are on their way back."""
        while self.returning:
            first: Returning | None = None
            oldest: i64 = UNLIMITED
            for returning in self.returning:
                sequence = returning.oldest(self)
                if sequence < oldest:
                    first, oldest = returning, sequence
            there = self.ready_queue.next()
            if first is None or (there is not None and there.sequence < oldest):
                return
            first.put_back(self, now)
            if self.features.max_priority and self.available():
                return  # What is next here need not be the oldest, so there might be no end to it.

    def set_storage(self, kept: QueueStorage) -> None:
        """Be kept in the store, with the persistent messages that come from now on."""
        self.storage = kept
        self.tracks_removals = True

    def enable_paging(self, pages: QueuePager) -> None:
        """Have pages on the disk from now on, or be able to."""
        self.pager = pages
        self.tracks_removals = True

    def on_paging_finished(self) -> None:
        """Nothing of it is on the disk any more."""
        if self.overflow is not self.settings.overflow:
            self.choose_overflow()
            self._choose_gates()

    def release(self, messages: list[Message | None], now: float) -> None:
        """Messages leave for good: take them off their address's sum, and out of the store; where `minded`."""
        kept = self.storage
        if kept is None and self.pager is not None:
            kept = self.pager.kept
        if kept is not None:
            kept.forget(messages, now)
        for message in messages:
            if isinstance(message, TrackedMessage) and message.share is not None:
                message.share.leave(now)

    def drop_oldest(self, now: float) -> None:
        """Drop the oldest message that is not with a consumer (drop-head); the caller is about to review."""
        message = self.ready_queue.pull()
        if self.length is not None:
            self.length.left(message)
        if self.tracks_removals:
            self.release([message], now)
        self.messages -= 1
        self.bytes -= message.charge
        if self.dead_letters is not None:
            self.dead_letters.dead_letter(message, MAXLEN, False)
        self.dropped += 1
        self.schedule_loss_report()
        self.unreported.dropped += 1

    def reject(self, message: Message, now: float) -> None:
        """A consumer that had it does not want it, nor that anybody else gets it."""
        self.dead_letter(message, REJECTED, now)

    def delivery_limit(self) -> i64:
        """Return how often a message may come back from consumers; UNLIMITED is as often as it likes."""
        limit = self.settings.delivery_limit
        if limit != NOT_SAID:
            return limit
        return QUORUM_DELIVERY_LIMIT if self.features.quorum else UNLIMITED

    def counts_returns(self) -> bool:
        """Tell whether its consumers are told how often a message came back: where that is limited, or might be."""
        return self.features.quorum or self.settings.delivery_limit != NOT_SAID

    def dead_letter(self, message: Message, reason: str, now: float) -> None:
        """A message that waits no more, and is with nobody, has died: it goes, or keeps its place as a letter."""
        if self.dead_letters is not None:
            self.unacked(1, message.charge)
            self.dead_letters.dead_letter(message, reason, True)
            return
        if self.tracks_removals:
            self.release([message], now)
        self.settle(1, message.charge, now)

    def count_rejected(self, address: Envelope, content: bytes, charge: i64, now: float) -> None:
        """Count a message that the overflow policy refused, or that came when the queue was gone."""
        if self.dead_letters is not None and self.overflow.dead_letters and not self.deleted:
            self.dead_letters.dead_letter(Message(address, content, charge, 0, now), MAXLEN, False)
        self.count_refusal()

    def purge(self, now: float, anew: bool = False) -> int:
        """Drop everything that is not with a consumer; returns how many messages that were.

        `anew`: the routes that lead here will be looked for again (see VirtualHost.purge_queue).
        """
        leftovers = Leftovers()
        for returning in list(self.returning):
            for batch in returning.take(self):
                if self.tracks_removals:
                    self.release(batch.messages, now)
                leftovers.batches.append(batch.messages)
        messages = self.messages - self.unacked_messages
        size = self.bytes - self.unacked_bytes
        if self.tracks_removals:
            self.release(list(self.ready_queue.messages()), now)
        self.ready_queue.hand_over(leftovers, anew)
        if leftovers.has_more():
            self.turns.chores.add(leftovers)
        if self.length is not None:
            self.length.bodies = 0
        paged: i64 = 0 if self.pager is None else self.pager.clear()
        self.settled += paged
        self.settle(messages, size, now)
        if self.pager is not None:
            self.update_gate(now)
        if self.storage is not None:
            self.storage.journal.require_flush()
        return int(messages + paged)

    # Thresholds

    def apply_settings(self, settings: Settings, now: float) -> None:
        """Have other settings from now on; the gate is judged by them at once, both ways."""
        self.settings = settings
        self.thresholds = settings.thresholds
        self.choose_overflow()
        self._choose_gates()
        self.update_gate(now)

    def choose_overflow(self) -> None:
        """Do at the capacity what the settings say; but nothing overtakes what is on the disk."""
        pages = self.pager
        wanted = self.settings.overflow
        self.overflow = READ_BACK if pages is not None and pages.messages > 0 and not wanted.pages else wanted

    def update_gate(self, now: float) -> None:
        """Judge the depth anew: close or open the gate, and find out how far the hot path may go."""
        gate = self.gate
        if gate.open:
            # What consumers still have of a deleted queue stops nobody: its gate has opened for good.
            if not self.deleted and self.thresholds.overfull(self.depth_messages(), self.depth_bytes()):
                gate.close(self.depth_messages(), self.depth_bytes(), now)
        elif self.thresholds.underfull(self.depth_messages(), self.depth_bytes()):
            gate.reopen(self.depth_messages(), self.depth_bytes(), now)
        if gate.open and gate.waiters:
            self.turns.schedule(gate)
        self._update_fast_path(now)

    def _update_fast_path(self, now: float) -> None:
        """Easy: every gate is open, nobody waits at one, and the message does not take the depth over stop or capacity,
        nor over what the queue is counted with in its pools."""
        membership = self.membership
        if membership.pools:
            membership.review(now)
        self.recheck_on_settle = self.deleted or not self.gate.open or len(self.gate.waiters) > 0
        paging = False
        if self.pager is not None:
            paging = self.pager.messages > 0
            self.recheck_on_settle = self.recheck_on_settle or paging or self.pager.finish_reported
            self.pager.request_pages()
        self.fast_path_max_messages = NO_FAST_PATH
        self.fast_path_max_bytes = NO_FAST_PATH
        self.withheld_max_messages = NO_FAST_PATH
        self.withheld_max_bytes = NO_FAST_PATH
        if not (self.operator_gated or self.deleted or self.gate.waiters or paging):
            stop, capacity = self.thresholds.stop, self.thresholds.capacity
            messages = capacity.messages - self.reserved_messages
            size = capacity.bytes - self.reserved_bytes
            if self.gate.open:
                self.fast_path_max_messages = stop.messages if stop.messages < messages else messages
                self.fast_path_max_bytes = stop.bytes if stop.bytes < size else size
            else:
                self.withheld_max_messages = messages
                self.withheld_max_bytes = size
            if self.length is not None:
                easy = self.length.fast_path_max_messages()
                self.fast_path_max_messages = min(self.fast_path_max_messages, easy)
                self.withheld_max_messages = min(self.withheld_max_messages, easy)
        if membership.pools:
            membership.bound()

    def set_gates(self, gates: list[Gate], pools: list[SharedLimit], now: float) -> None:
        """Let these gates, besides its own, stand on its road from now on; `pools` are the owners of some of them."""
        self.membership.move(pools, now)
        self.operator_gated = len(gates) > len(pools)
        self._other_gates = gates
        self._choose_gates()
        self.update_gate(now)

    def _choose_gates(self) -> None:
        """What may go to the disk waits for no room in memory: then sums do not stand on its road."""
        if self.pager is not None and self.overflow.pages:
            sums = [pool.gate for pool in self.membership.pools]
            self.gates = [self.gate, *[gate for gate in self._other_gates if gate not in sums]]
        else:
            self.gates = [self.gate, *self._other_gates]
