"""A transfer: messages leave one queue for others, or are copied, through the gates of their targets.

Theory of operation. Each message passes the gates on its road as a publish does, and more: it never displaces another
message, and is never refused. Where a publish would be refused, or would drop the oldest messages, the transfer waits.
It waits in line with the producers, with its next message, at the gate that stops it; meanwhile the message stays ready
in its queue, and consumers may take it. A closed gate holds it, also between stop and capacity, where producers have
their confirms withheld.

A message leaves its queue and enters its targets in one step of the broker, so both are in one journal group: a crash
loses and doubles nothing. A message that leaves makes room in the sums that it counts in already, those of its virtual
host and of the node; such a sum does not stop it.

A slice passes some messages in one turn. Between slices the transfer can be cancelled; what has passed stays passed.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.scan import MessageFilter
from penstock.core.message import DelayedEnvelope, Message
from penstock.core.publish.context import PublishContext
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.outbox import Held
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.publish.transfer_targets import Placement, TransferTargets
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.delays import prepare
from penstock.core.queue.expiry import expire_slice
from penstock.core.queue.queue import Queue
from penstock.errors import Cancelled
from penstock.flow.gate import NO_GATES, Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER
from penstock.flow.token_bucket import TokenBucket
from penstock.flow.work import Steps

SLICE_MESSAGES: Final = 1_000
"""Most messages in one slice."""
SLICE_BYTES: Final = 1024 * 1024
"""Bytes (charges) at which a slice ends: they are in one journal group."""
MOVED_WORK: Final = 2
"""Units of work to pass a message."""
LOOKED_WORK: Final = 1
"""Units of work to look at a message, besides those of a selector."""
LEFT_KINDS_MOST: Final = 100
"""Most reasons why messages stay that are counted apart."""
OTHER_REASONS: Final = "other reasons"


class LeftMessages:
    """Messages that stay where they are, for one reason."""

    __slots__ = ("reason", "source", "messages")

    def __init__(self, reason: str, source: str) -> None:
        self.reason = reason
        self.source = source
        """The queue in which dead letters died last; "" without one."""
        self.messages: i64 = 0


class HeldTransfer(Held):
    """The next message of a transfer, which waits for its turn. It is still in its queue."""

    __slots__ = ("transfer", "placement", "message")

    def __init__(self, transfer: Transfer, placement: Placement, message: Message) -> None:
        super().__init__(placement.queues, placement.charge, 1, None, NEVER)
        self.transfer = transfer
        self.placement = placement
        self.message = message

    @override
    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        return self.transfer.obstacle_of(self.placement, self.message, False, now, finishing)

    @override
    def turn_gate(self) -> Gate | None:
        return self.placement.queues[0].gate

    @override
    def admit(self) -> str:
        self.transfer.on_turn(self)
        return ""

    @override
    def deadline_message(self, own: list[Gate], now: float) -> str:
        return f"{self.transfer.name} waits without a deadline"


class Transfer(WaitingPublisher):
    """One transfer. It is the publisher that waits at the gates of its targets."""

    def __init__(
        self,
        broker: PublishContext,
        name: str,
        source: TransferSource,
        targets: TransferTargets,
        filter: MessageFilter,
        most: i64 = UNLIMITED,
    ) -> None:
        super().__init__(broker, name, HoldBudget(UNLIMITED))
        self.source = source
        self.targets = targets
        self.filter = filter
        self.most: i64 = most
        """Most messages to pass."""
        self.moved: i64 = 0
        self.moved_bytes: i64 = 0
        """Messages that have passed, and their bytes (charges)."""
        self.unmatched: i64 = 0
        """Messages that the filter does not match."""
        self.left: dict[tuple[str, str], LeftMessages] = {}
        """Messages that stay, by reason and source."""
        self.positions: set[int] | None = None
        """Sequences of the messages to take; None for all."""
        self.pace: TokenBucket | None = None
        """Limit of messages a second; None without one."""
        self._slice_bytes: i64 = 0

    def choose(self, positions: set[int]) -> None:
        """Take only the messages with these sequences, at least one."""
        self.positions = positions
        self.source.reach_only(min(positions), max(positions))

    def limit_rate(self, per_s: int) -> None:
        """Pass at most so many messages a second, on average.

        A held job looks again once a second, so a second's messages may pass at once.
        """
        self.pace = TokenBucket(float(per_s), per_s * 1.25)
        self.pace.take(per_s * 1.25, self.broker.now)

    def steps(self) -> Steps[None]:
        """Pass messages in slices, until the end of the source or the number of messages.

        Raises NotFound (404) if the source or the target is deleted meanwhile, PreconditionFailed (406) if the source
        cannot be one any more, Cancelled (406) between two slices. What has passed stays passed.
        """
        progress = self.source.progress
        try:
            while True:
                if progress.cancelled_by:
                    raise Cancelled(f"cancelled by user '{progress.cancelled_by}'")
                self.source.check()
                self.targets.check()
                if not self._still_waits() and not self._delayed() and self._slice():
                    return
                yield
        finally:
            self._end()

    def _still_waits(self) -> bool:
        """Return whether the next message still waits in line; the progress stays held then."""
        if not self.outbox:
            return False
        now, place = self.broker.now, self.gate
        if place is not None:
            place.review(now)  # For changes that no gate reports.
        if self.outbox:
            self.source.progress.hold(self._reason())
        return len(self.outbox) > 0

    def _delayed(self) -> bool:
        """Return whether other work on the source comes first: expiry, or requeued messages."""
        queue, progress = self.source.queue, self.source.progress
        if queue.returning is not None:
            progress.hold(f"messages are being requeued to queue '{queue.name}'")
            return True
        if queue.cursors:
            return False
        is_fresh = expire_slice(self.broker, queue)
        return not is_fresh

    def _slice(self) -> bool:
        """Pass some messages; return whether the transfer is done."""
        work, source, progress = self.broker.work, self.source, self.source.progress
        self._slice_bytes = 0
        left: i64 = SLICE_MESSAGES
        while self.moved < self.most:
            message = source.next()
            if message is None:
                reason = source.obstacle()
                if reason:
                    progress.hold(reason)
                return not reason
            positions = self.positions
            if positions is not None and int(message.sequence) not in positions:
                source.pass_over(message)
                work.done += LOOKED_WORK
                if work.used_up():
                    return False
                continue
            if self._is_paced():
                return False
            matches = self.filter.matches(message)
            work.done += LOOKED_WORK + self.filter.work + self.filter.searched
            if not matches:
                self.unmatched += 1
                self._pass_over(message)
            elif not self._goes(message):
                return False
            left -= 1
            if work.used_up() or left == 0 or self._slice_bytes >= SLICE_BYTES:
                return self.moved >= self.most
        return True

    def _is_paced(self) -> bool:
        """Return whether the rate of the transfer holds its next message."""
        pace, progress = self.pace, self.source.progress
        if pace is None:
            return False
        if pace.ready_at(self.broker.now) > self.broker.now:
            progress.hold(f"it passes at most {int(pace.rate):,} messages a second")
            return True
        progress.go_on()
        return False

    def _goes(self, message: Message) -> bool:
        """Pass a message, or leave it behind for a reason; return False if it waits for a gate."""
        placement = self.targets.place(message)
        if placement.left:
            self._leave(placement)
            self._pass_over(message)
            return True
        gate = self.obstacle_of(placement, message, True, self.broker.now, None)
        if gate is None:
            self._pass(placement, message)
            return True
        held = HeldTransfer(self, placement, message)
        self.hold_budget.take(held.charge, 1)
        self.wait_in_line(held, gate)
        if self.outbox:
            self.source.progress.hold(self._reason())
        return False

    def _pass_over(self, message: Message) -> None:
        self.source.pass_over(message)
        self.source.progress.done += 1

    def _leave(self, placement: Placement) -> None:
        key = (placement.left, placement.source)
        kind = self.left.get(key)
        if kind is None:
            if len(self.left) >= LEFT_KINDS_MOST:
                key = (OTHER_REASONS, "")
            kind = self.left.setdefault(key, LeftMessages(key[0], key[1]))
        kind.messages += 1

    def _pass(self, placement: Placement, message: Message) -> None:
        """Put the message that the source has just returned into its targets, and remove it if it is moved."""
        broker, source = self.broker, self.source
        now, share = broker.now, placement.share
        if share is not None:
            for _ in placement.queues:
                share.enter(now)  # Before it leaves the source: the sum of its address does not change.
        journal = broker.journal
        moves = journal is not None and source.removes and journal.is_stored(message)
        if source.removes:
            source.take(message, now)
        else:
            source.pass_over(message)
        for gate in placement.gates:
            gate.passed(placement.charge, now)
        envelope = placement.envelope
        if isinstance(envelope, DelayedEnvelope):
            prepare(broker, placement.queues)
        if journal is not None and moves:
            journal.begin_move()
        for queue in placement.queues:
            queue.enqueue(envelope, placement.content, placement.charge, now, share)
            if envelope.ttl_s != NEVER:
                broker.watch_lifetime(queue)
            broker.schedule_delivery(queue)
            if queue.tail >= queue.counters.next_sample:
                queue.counters.sample(self.name, envelope.exchange, placement.charge, queue.tail)
        if journal is not None and moves:
            journal.end_move()
        self.accepted_messages += 1
        self.accepted_bytes += placement.charge
        broker.work.done += MOVED_WORK * len(placement.queues)
        if self.pace is not None:
            self.pace.take(1.0, now)
        self.moved += 1
        self.moved_bytes += placement.charge
        self._slice_bytes += placement.charge
        source.progress.done += 1
        broker.apply_gate_transitions()

    def _reason(self) -> str:
        """Return what holds the next message, as a clause."""
        gate = self.gate
        if gate is None and self.outbox:
            gate = self.outbox[0].gate
        waits = "its next message waits"
        return waits if gate is None else f"{waits}: {gate.describe_refusal()}"

    # Waiting

    def on_turn(self, held: HeldTransfer) -> None:
        """Pass the message that has waited, if it is still the next one and fits; then go on."""
        message = None if self.source.queue.deleted else self.source.next()
        if message is held.message and not self._is_gone(held.placement):
            self._pass(held.placement, message)
        self.source.progress.go_on()

    def _is_gone(self, placement: Placement) -> bool:
        for queue in placement.queues:
            if queue.deleted:
                return True
        return self.source.removes and len(self.source.queue.cursors) > 0

    @override
    def expire(self, now: float) -> float:
        return NEVER

    def _end(self) -> None:
        """Leave the line and all gates."""
        now = self.broker.now
        while self.outbox:
            self.pop_held()
        place = self.gate
        self.leave_gates(now)
        self.ticket = 0
        self._drop_deadline()
        if place is not None:
            place.review(now)

    # The road

    def obstacle_of(
        self, placement: Placement, message: Message, is_new: bool, now: float, finishing: Gate | None
    ) -> Gate | None:
        """Return the first gate that stops a message: one that is not in line yet (`is_new`), or in its turn."""
        charge = placement.charge
        for gate in placement.gates:
            if not _lets_pass(gate, is_new, gate.admits(charge, 1, now), finishing):
                return gate
        copies: i64 = len(placement.queues)
        source = self.source.queue
        freed: i64 = message.charge
        for queue in placement.queues:
            if queue.deleted:
                continue
            for gate in queue.gates:
                if gate is queue.gate:
                    has_room = has_room_for(queue, placement.content, charge, now) and queue.takes_envelope(
                        placement.envelope, charge
                    )
                elif queue.bytes + charge <= gate.guaranteed_bytes:
                    continue
                elif self.source.removes and gate in source.gates:
                    if gate.has_room(copies - 1, copies * charge - freed, now):
                        continue
                    has_room = False
                else:
                    has_room = gate.admits(charge, copies, now)
                if not _lets_pass(gate, is_new, has_room, finishing):
                    return gate
            for gate in _disk_gates(queue, placement, charge):
                if not gate.open or (is_new and gate.has_line()):
                    return gate
        return None


def has_room_for(queue: Queue, content: bytes, charge: i64, now: float) -> bool:
    """Return whether a message may enter a queue without displacing another one, and without a refusal."""
    if not queue.fits(charge) or queue.crowded(charge):
        return False
    length = queue.length
    if length is None:
        return True
    return (
        length.ready() + 1 <= length.most.messages and length.bodies + length.body_bytes(content) <= length.most.bytes
    )


def _lets_pass(gate: Gate, is_new: bool, has_room: bool, finishing: Gate | None) -> bool:
    if is_new:
        return has_room and gate.open and not gate.has_line()
    return has_room and gate.takes_turn(finishing)


def _disk_gates(queue: Queue, placement: Placement, charge: i64) -> list[Gate]:
    """Return the gates of the disk on the road of a message into a queue; see `admission.disk_gates`."""
    storage, pages = queue.storage, queue.pager
    if storage is not None and placement.envelope.persistent:
        return storage.vhost_usage.gates
    return NO_GATES if pages is None or not pages.pages_next(charge) else pages.storage.vhost_usage.gates
