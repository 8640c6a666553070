"""Reservation of room for the credit granted to a sender.

Theory of operation. Every message of credit has its room in each of its queues: `depth + reserved <= capacity`, always.
So a granted message enters at once, whatever other senders do. Only the queue promises room. Amounts above the queue
(its virtual host, the memory of the node, its address) limit grants, and count no reservation: a message that arrives
while one of these is closed or full waits like any publish. Grants use free room, a part at a time, so that several
senders share it. A closed gate, or a gate with waiters, grants nothing.

The reserved bytes are one pool: without free room, a message that is larger than its part takes the rest from the parts
of later messages.

Thresholds are compared with the depth alone, capacities with the depth and the reserved room. A reservation is no
backlog: if it closed a gate, a sender would be stopped by its own credit, and an empty queue could stay closed.

*Exact* credit is granted from the room below the stop thresholds only (`Thresholds.exact`): depth and all reservations
together stay at or below them. Its sender waits only for credit. So the message that would close the gate stays with
its sender, and the gate closes when the room has been granted, as it would after that message. The gate opens at the
resume threshold as always: all senders wait in one line, and room is not granted in tiny parts.

Only queues whose overflow policy holds publishes reserve room (`QueueRoom.reserves`). Other policies decide when the
message arrives, so credit for these queues has no room and its messages take the ordinary path.

Room is revoked when it lies idle and others lack room, when a queue is deleted or no longer reserves, and when a
capacity is lowered. The sender's credit itself cannot be withdrawn: it is counted as `revoked`, and its messages take
the ordinary path. For protocols with sender credit; AMQP 0-9-1 has none.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.address_depth import AddressDepth, depth_of
from penstock.core.publish.credit_line import CreditedLink
from penstock.core.publish.credit_window import GRANT_MAX, SHARE
from penstock.core.queue.queue import Queue
from penstock.flow.gate import Gate, Waiter
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.reserved_room import Party, RoomHolder
from penstock.flow.shared_limit import SharedLimit

GRANT_LEAST: Final = 32
"""Least messages of a grant if a part of the free room has fewer, but at most half of that room: each grant costs a
frame.
"""


class Reservation(RoomHolder):
    """Credit of one sender on one road."""

    def __init__(
        self, queues: list[Queue], charge: i64, gates: list[Gate], party: Party | None = None, exact: bool = False
    ) -> None:
        self.party = party
        self.exact = exact
        """True if room ends at the stop thresholds of the queues, not at their capacities."""
        self.queues = queues
        """The queues of the messages (`Route.queues`)."""
        self.gates = gates
        """The gates of the address (`Route.gates`)."""
        self.charge: i64 = charge
        """Bytes reserved for each message: the largest charge that is expected, or less after a larger message."""
        self.messages: i64 = 0
        """Messages that were granted, not used, and have room."""
        self.early: i64 = 0
        """Messages of these that are in their queue already, and not settled yet (`take_place`)."""
        self.revoked: i64 = 0
        """Messages that were granted and not used, and whose room was revoked."""
        self.owner: CreditedLink | None = None
        """The link that owns the credit; None without one: then idle room is not released."""
        self._reserving: list[Queue] = []
        """The queues in which room is reserved."""
        self._address: AddressDepth | None = None
        """The depth of the address, which limits grants; None without one."""

    def follow(self, queues: list[Queue], gates: list[Gate], now: float) -> None:
        """Move to another road, after the route was resolved again; revoke the part without room there.

        If the new road has no queues, everything is revoked.
        """
        if not queues and self.messages > 0:
            self.revoke(self.messages, now)
        self.queues = queues
        self.gates = gates
        self.refresh(now)

    def grant(self, wanted: i64, now: float, in_turn: bool = False, parts: i64 = SHARE) -> i64:
        """Reserve room for up to `wanted` messages; returns the number granted, 0 if none has room.

        `in_turn`: the sender has waited for the grant, so other waiters at a gate do not stop it. The grant is one of
        so many `parts` of the free room, rounded up, and not below `GRANT_LEAST` or half of it.
        """
        if wanted > GRANT_MAX:
            wanted = GRANT_MAX
        if wanted <= 0 or not self._is_open(in_turn):
            return 0
        self.refresh(now)
        free = self._room_for(wanted * parts, self.charge, now)
        share = (free - 1) // parts + 1 if free > 0 else 0
        if share < GRANT_LEAST and not self.exact:
            half = (free + 1) // 2
            share = half if half < GRANT_LEAST else GRANT_LEAST
        granted = wanted if wanted < share else share
        self._change(granted, now)
        self.close_full(now)
        return granted

    def close_full(self, now: float) -> None:
        """Close the gates of queues that have no room below stop for more exact credit."""
        if self.exact:
            for queue in self._reserving:
                if not _free_in(queue, True).covers(1, 1):
                    queue.reserved.close_for_exact(now)

    def recharge(self, charge: i64, now: float) -> bool:
        """Reserve another charge in bytes for each message; returns False, without any change, if there is no room."""
        self._end_early()
        more = (charge - self.charge) * self.messages
        if more > 0 and not (self._grants(0, more) if self.exact else self._covers(0, more)):
            return False
        self.charge = charge
        if more != 0:
            self._count(0, more, now)
        return True

    def most_charge(self, charge: i64) -> i64:
        """Return this charge in bytes, or the largest charge that every amount on the road can ever hold, if that is
        less.
        """
        for queue in self._reserving:
            thresholds = queue.thresholds
            largest = (thresholds.exact() if self.exact else thresholds.capacity).largest_charge()
            if largest < charge:
                charge = largest
        pools = self._pools()
        for pool in pools:
            most = pool.thresholds.capacity.bytes // pools.count(pool)
            if most < charge:
                charge = most
        if self._address is not None:
            largest = self._address.thresholds.capacity.largest_charge()
            if largest < charge:
                charge = largest
        return charge if charge > 0 else 1

    def full_gate(self, now: float) -> Gate | None:
        """Return the first gate whose amount has no room for one more message of credit; None if all gates have
        room.
        """
        for queue in self._reserving:
            if not (_free_in(queue, True).covers(1, self.charge) if self.exact else queue.covers(1, self.charge)):
                return queue.gate
        pools = self._pools()
        for pool in pools:
            copies: i64 = pools.count(pool)
            if not pool.has_room(copies, copies * self.charge, now):
                return pool.gate
        if self._address is not None and not self._address.covers(1, self.charge):
            return self._address.gate
        return None

    def share_left(self) -> i64:
        """Return how many more messages the connection may reserve by its share: see `ReservedRoom`."""
        most: i64 = UNLIMITED
        for queue in self._reserving:
            left = queue.reserved.share_left(self.party, self.charge)
            most = most if most < left else left
        return most

    def use(self, charge: i64, now: float) -> bool:
        """Use one message of credit, of this charge in bytes; returns whether the message may enter.

        If so, the caller enqueues it at once (`Producer.accept`). Otherwise it is published like a message without
        credit. A message larger than `charge` needs free room for the rest, or room of later messages.
        """
        if self.messages == 0:
            if self.revoked > 0:
                self.revoked -= 1
            return False
        self._change(-1, now)
        for queue in self.queues:
            if not queue.deleted and queue not in self._reserving:
                return False  # A queue without reservation decides when the message arrives.
        if not self._passes_sums(charge, now):
            return False
        return charge <= self.charge or self._covers(1, charge) or self._lend(charge, now)

    def _passes_sums(self, charge: i64, now: float) -> bool:
        """Return whether the limits above the queues admit a message: open, with room, and without waiters."""
        pools = self._pools()
        for pool in pools:
            gate, copies = pool.gate, pools.count(pool)
            if not gate.open or gate.has_line() or not gate.admits(charge, copies, now):
                for queue in self._reserving:
                    if gate in queue.gates and queue.bytes + charge > gate.guaranteed_bytes:
                        return False
        address = self._address
        return address is None or (
            address.gate.open and not address.gate.has_line() and address.gate.admits(charge, 1, now)
        )

    def _lend(self, charge: i64, now: float) -> bool:
        """Release room of the other messages for a message of this charge, if that suffices; otherwise change nothing.

        Returns whether the message has room now. Each other message keeps the same part of its room, at least one byte.
        """
        if self.messages == 0:
            return False
        charge_left = (self.messages * self.charge + self._free_bytes(charge) - charge) // self.messages
        if charge_left <= self._most_uncounted():
            return False
        self._count(0, (charge_left - self.charge) * self.messages, now)
        self.charge = charge_left
        return True

    def take_place(self, queue: Queue, charge: i64) -> i64:
        """Take the place of a message whose credit was just used, if its room is reserved only in this queue.

        Returns the message's sequence in the queue, 0 without a place. `settle` counts the message for the holder, with
        others.
        """
        owner = self.owner
        if (
            owner is None
            or charge > self.charge
            or self.revoked > 0
            or self.messages <= owner.credit
            or owner.hold.count() > 0
            or len(self._reserving) != 1
            or self._reserving[0] is not queue
        ):
            return 0
        sequence = queue.reserved.take_place(charge, self.charge)
        if sequence > 0:
            self.early += 1
        return sequence

    def _end_early(self) -> None:
        if self.early > 0:
            for queue in self._reserving:
                queue.reserved.return_places(self.early, self.early * self.charge)
            self.early = 0

    def settle(self, messages: i64, now: float) -> None:
        """Use credit for messages that are in their queues already, by the fast path."""
        used = messages if messages < self.messages else self.messages
        self._change(-used, now)
        rest = messages - used
        self.revoked -= rest if rest < self.revoked else self.revoked

    def expect_more(self, waiter: Waiter, now: float) -> None:
        """Extend the wait of the gates for a link after its messages arrived; see `Turns.expect_more`."""
        if now <= waiter.back_by:
            for queue in self.queues:
                queue.turns.expect_more(waiter, queue.gate, now)

    def give_back(self, now: float) -> None:
        """Release all unused room: the sender has no credit any more."""
        self._change(-self.messages, now)
        self.revoked = 0

    @override
    def keep_part(self, room: int, reserved: int, now: float) -> None:
        self.revoke(self.messages - int(self.messages) * room // reserved, now)

    @override
    def recall(self, beyond_share: bool, now: float) -> None:
        if self.owner is not None:
            self.owner.recall(beyond_share, now)

    def revoke(self, messages: i64, now: float) -> None:
        """Revoke the room of so many messages; their credit stays, and they take the ordinary path."""
        self.revoked += messages
        self._change(-messages, now)
        if self.owner is not None and messages > 0:
            self.owner.schedule_review()

    def refresh(self, now: float) -> None:
        """Move the room if the queues on the road have changed."""
        reserving = [queue for queue in self.queues if queue.reserved.reserves()]
        self._address = depth_of(self.gates) if reserving else None
        if reserving == self._reserving:
            return
        messages = self.messages
        self._change(-messages, now)
        self._reserving = self.queues if reserving == self.queues else reserving  # Usually all of them.
        if messages > 0:
            room = self._free(self.charge)
            if room < messages:
                self.revoked += messages - room
                messages = room
            self._change(messages, now)

    def _change(self, messages: i64, now: float) -> None:
        if messages == 0:
            return
        self.messages += messages
        self._count(messages, messages * self.charge, now)

    def _count(self, messages: i64, size: i64, now: float) -> None:
        self._end_early()
        still = self.messages > 0
        for queue in self._reserving:
            queue.reserved.reserve(self, messages, size, still, now)

    def _is_open(self, in_turn: bool) -> bool:
        for gate in self.gates:
            if not gate.open or (gate.in_line() and not in_turn):
                return False
        for queue in self.queues:
            if not queue.deleted:
                for gate in queue.gates:
                    if not gate.open or (gate.in_line() and not in_turn):
                        return False
        return True

    def _pools(self) -> list[SharedLimit]:
        """Return the shared limits of the queues, each once for every queue."""
        return [pool for queue in self._reserving for pool in queue.membership.pools]

    def trial(self, wanted: i64, charge: i64, parts: i64, now: float) -> i64:
        """Return how many messages of this charge a part of the free room would hold; at least 1."""
        self.refresh(now)
        share = self._room_for(wanted * parts, charge, now) // parts
        return share if share > 0 else 1

    def _room_for(self, messages: i64, charge: i64, now: float) -> i64:
        """Return how many messages of this charge have room everywhere; exact if the number is less than `messages`."""
        most = self._free(charge)
        pools = self._pools()
        for pool in pools:
            copies: i64 = pools.count(pool)
            room = pool.free_room(messages * copies, messages * copies * charge, now)
            most = _least(most, Level(room.messages // copies, room.bytes // copies), charge)
        if self._address is not None:
            most = _least(most, self._address.free_room(messages, messages * charge, now), charge)
        return most

    def _free(self, charge: i64) -> i64:
        """Return how many messages of this charge have room in all of the queues."""
        most: i64 = UNLIMITED
        for queue in self._reserving:
            most = _least(most, _free_in(queue, self.exact), charge)
        return most

    def _free_bytes(self, size: i64) -> i64:
        """Return the largest charge of one message with room in all of the queues, at most `size`."""
        most = size
        for queue in self._reserving:
            free = queue.reserved.free().largest_charge()
            most = most if most < free else free
        return most if most > 0 else 0

    def _most_uncounted(self) -> i64:
        """Return the largest part of a charge that some queue does not count."""
        most: i64 = 0
        for queue in self._reserving:
            most = max(most, queue.thresholds.capacity.uncounted)
        return most

    def _grants(self, messages: i64, size: i64) -> bool:
        """Return whether all of the queues may promise this amount too: as `_covers`, but below the stop thresholds."""
        for queue in self._reserving:
            if not _free_in(queue, True).covers(messages, size):
                return False
        return True

    def _covers(self, messages: i64, size: i64) -> bool:
        """Return whether all of the queues have room for this additional amount."""
        for queue in self._reserving:
            if not queue.covers(messages, size):
                return False
        return True


def _free_in(queue: Queue, exact: bool) -> Level:
    """Return the room of a queue for more credit, exact or not."""
    return queue.reserved.free_below_stop() if exact else queue.reserved.free()


def _least(most: i64, room: Level, charge: i64) -> i64:
    size = charge - room.uncounted if charge > room.uncounted else 1
    if room.messages < most:
        most = room.messages
    if room.bytes // size < most:
        most = room.bytes // size
    return most if most > 0 else 0
