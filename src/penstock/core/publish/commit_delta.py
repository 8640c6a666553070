"""Changes by the commit of a unit of work, summed by producer, by queue, by route and by gate."""

from __future__ import annotations

from typing import Final, TypeVar

from mypy_extensions import i64

from penstock.core.consume.outcome import AddedHeaders, Outcome, is_rejection
from penstock.core.consume.session import Session
from penstock.core.gates.address_depth import AddressShare
from penstock.core.message import Message
from penstock.core.queue.length_limit import Length
from penstock.core.queue.overflow.policy import REFUSE, OverflowPolicy
from penstock.core.queue.queue import Queue
from penstock.flow.gate import Gate

Key = TypeVar("Key")

SIZE_MOST: Final = 32_768
"""Largest size of a commit, which passes in one turn. Size 1 is half a microsecond (compiled): a copy of a publish."""
QUEUE_SIZE: Final = 6
"""Size of each queue with publishes, for the queue's gates, which the commit may close. A single publish always
fits.
"""
TIMED_SIZE: Final = 2
"""Size of a copy that expires."""
RETURN_SIZE: Final = 2
"""Size of a requeued or rejected delivery; the size of an accepted delivery is 1."""


class Settlement:
    """A delivery of a session that is settled by a commit."""

    __slots__ = ("session", "tag", "queue", "message", "outcome", "added")

    def __init__(
        self,
        session: Session,
        tag: int,
        queue: Queue,
        message: Message,
        outcome: Outcome,
        added: AddedHeaders | None = None,
    ) -> None:
        self.session = session
        self.tag = tag
        self.queue = queue
        self.message = message
        self.outcome = outcome
        self.added = added
        """Headers that the outcome adds to the message; None for none."""

    def frees(self) -> bool:
        """Return whether the message leaves the queue at once, unlike a requeued message or a dead letter."""
        if self.outcome is Outcome.ACCEPTED:
            return True
        return is_rejection(self.outcome, self.queue) and self.queue.dead_letters is None

    def continues(self, before: Settlement) -> bool:
        """Return whether this settles the next delivery of the session, with the same outcome."""
        return (
            self.tag == before.tag + 1
            and self.session is before.session
            and self.outcome is before.outcome
            and self.added is before.added
        )


class RowSum:
    """Publishes of a commit, or rows of a batch, for one queue, at one gate, or in one shared limit."""

    __slots__ = (
        "messages",
        "bytes",
        "persistent",
        "persistent_bytes",
        "bodies",
        "largest",
        "delayed",
        "delayed_bytes",
    )

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.persistent: i64 = 0
        self.persistent_bytes: i64 = 0
        """Bytes of the persistent messages."""
        self.bodies: i64 = 0
        """Bytes of the bodies, if the queue's length limit counts bodies."""
        self.largest: i64 = 0
        """Largest charge of the messages."""
        self.delayed: i64 = 0
        self.delayed_bytes: i64 = 0
        """Bytes of the messages that the queue delays, which a queue that pages needs memory for."""

    def add(self, messages: i64, bytes: i64) -> None:
        """Count rows."""
        self.messages += messages
        self.bytes += bytes

    def add_row(self, charge: i64, persistent: bool, bodies: i64) -> None:
        """Count a row for a queue, with the bytes of its body that count in the length limit."""
        self.messages += 1
        self.bytes += charge
        self.bodies += bodies
        if persistent:
            self.persistent += 1
            self.persistent_bytes += charge
        if charge > self.largest:
            self.largest = charge

    def delay(self, charge: i64) -> None:
        """Count a message, which is counted already, as delayed."""
        self.delayed += 1
        self.delayed_bytes += charge

    def add_sum(self, other: RowSum) -> None:
        """Count the rows of another sum."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.persistent += other.persistent
        self.persistent_bytes += other.persistent_bytes
        self.bodies += other.bodies
        self.delayed += other.delayed
        self.delayed_bytes += other.delayed_bytes
        if other.largest > self.largest:
            self.largest = other.largest


class QueueDelta(RowSum):
    """Messages that a commit adds to one queue, and removes from it."""

    __slots__ = (
        "queue",
        "length",
        "freed",
        "freed_bytes",
        "stored",
        "stored_bytes",
        "back",
        "back_bytes",
    )

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self.length: Length | None = queue.length
        """The length limit of the queue when the sum began; `bodies` counts for this limit."""
        self.freed: i64 = 0
        self.freed_bytes: i64 = 0
        """Bytes of the messages removed by settlement."""
        self.stored: i64 = 0
        self.stored_bytes: i64 = 0
        """Bytes of the removed messages that are stored."""
        self.back: i64 = 0
        self.back_bytes: i64 = 0
        """Bytes that stop being unacknowledged: of removed and requeued messages."""

    def bring(self, charge: i64, content: bytes, persistent: bool = False) -> None:
        """Count a publish."""
        length = self.length
        self.add_row(charge, persistent, 0 if length is None else length.body_bytes(content))

    def settle(self, charge: i64, frees: bool, stored: bool = False) -> None:
        """Count a settlement; `stored`: the message is in the store."""
        self.back += 1
        self.back_bytes += charge
        if frees:
            self.freed += 1
            self.freed_bytes += charge
            if stored:
                self.stored += 1
                self.stored_bytes += charge

    def add_to(self, at_gate: GateDelta) -> None:
        """Add this change to the change at the queue's gate; a deleted queue accepts no publishes."""
        if not self.overflows_to_disk():
            at_gate.free(self.freed, self.freed_bytes)
        if not self.queue.deleted:
            at_gate.bring(self.messages, self.bytes)

    def overflows_to_disk(self) -> bool:
        """Return whether the queue pages messages that do not fit: memory freed by the commit is no room then."""
        return self.queue.pager is not None and self.queue.overflow.pages

    def add_to_sum(self, at_gate: GateDelta) -> None:
        """Add this change to the change at the gate of a sum over memory."""
        if self.overflows_to_disk():
            at_gate.free(self.freed, self.freed_bytes)
        else:
            self.add_to(at_gate)

    def enters(self) -> bool:
        """Return whether the commit publishes to the queue."""
        return self.messages > 0 and not self.queue.deleted

    def refusing(self, now: float) -> OverflowPolicy | None:
        """Return the overflow policy that refuses any publish after the settlements; None if none does."""
        queue = self.queue
        if self.delayed > 0 and self.enters() and not queue.takes_delayed(self.delayed, self.delayed_bytes):
            return queue.overflow
        if self.enters() and queue.length is not None:
            ready = self.messages + self.back - self.freed
            if not queue.length.takes(ready, self.bodies, now):
                return queue.length.policy
        messages, size = self.messages, self.bytes
        if not self.overflows_to_disk():
            messages -= self.freed
            size -= self.freed_bytes
        if queue.covers(messages, size) or not self.enters():
            return None
        verdict = queue.verdict(messages, size, self.largest, self.back, self.back_bytes)
        return queue.overflow if verdict == REFUSE else None


def sum_of(sums: dict[Key, RowSum], key: Key) -> RowSum:
    """Return the sum of a queue, gate or limit; creates a missing sum."""
    row_sum = sums.get(key)
    if row_sum is None:
        row_sum = RowSum()
        sums[key] = row_sum
    return row_sum


class GateDelta:
    """The change by a commit of the amount that one gate guards."""

    __slots__ = ("gate", "messages", "bytes", "more_messages", "more_bytes", "pages", "witness")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Bytes added."""
        self.more_messages: i64 = 0
        self.more_bytes: i64 = 0
        """Net growth in bytes: added minus freed."""
        self.pages: bool = False
        """True if transient messages that would be paged are among the additions."""
        self.witness: i64 = 0
        """Index of the last queue that was found above its guaranteed share of the gate."""

    def bring(self, messages: i64, bytes: i64) -> None:
        """Count additions."""
        self.messages += messages
        self.bytes += bytes
        self.more_messages += messages
        self.more_bytes += bytes

    def bring_paged(self, messages: i64, bytes: i64) -> None:
        """Count additions of transient messages that would be paged."""
        self.pages = True
        self.bring(messages, bytes)

    def free(self, messages: i64, bytes: i64) -> None:
        """Count removals."""
        self.more_messages -= messages
        self.more_bytes -= bytes

    def limits_any(self, deltas: list[QueueDelta]) -> bool:
        """Return whether the gate, a shared limit, still applies: one of these queues is above its guaranteed share.

        The search continues where it ended last.
        """
        gate = self.gate
        while self.witness < len(deltas):
            delta = deltas[self.witness]
            size = delta.queue.bytes + self.more_bytes
            if size > gate.guaranteed_bytes and delta.enters() and gate in delta.queue.gates:
                return True
            self.witness += 1
        return False

    def limits_increase(self) -> bool:
        """Return whether the gate applies to the commit."""
        return self.gate.grows(self.more_messages, self.more_bytes)

    def stops(self, now: float, finishing: Gate | None) -> bool:
        """Return whether the gate stops the commit in its turn; see `Held.first_closed_gate`."""
        return not (self.gate.takes_turn(finishing) and self.has_room(now))

    def has_room(self, now: float) -> bool:
        """Return whether the commit has room at the gate, open or closed."""
        return self.gate.has_room(self.more_messages, self.more_bytes, now)

    def never_fits(self) -> str:
        """Return the limit that the commit exceeds even when the queue is empty, as a clause; empty if there is
        none.
        """
        gate = self.gate
        measured = None if gate.could_ever_take(self.messages, self.bytes) else gate.measure()
        if measured is None:
            return ""
        return f"{gate.kind} '{gate.name}' with its capacity of {measured.thresholds.capacity.describe()}"

    def describe(self) -> str:
        """Return the reason why the commit does not pass the gate, as a clause."""
        gate = self.gate
        if gate.kind == "disk":
            return gate.describe_refusal()
        measured = gate.measure()
        if measured is None:
            return f"{gate.kind} {gate.name} does not let it pass"
        messages, size = measured.messages - measured.paged_messages, measured.bytes - measured.paged_bytes
        depth = f"{int(messages):,} messages, {int(size):,} bytes{measured.describe_reserved()}"
        capacity = measured.thresholds.capacity.describe()
        more = adds(self.more_messages, self.more_bytes)
        return f"{gate.kind} '{gate.name}' holds {depth}, of a capacity of {capacity}; {more}"


def delta_of(deltas: dict[int, QueueDelta], queue: Queue) -> QueueDelta:
    """Return the change of a queue; creates a missing change."""
    delta = deltas.get(id(queue))
    if delta is None:
        delta = QueueDelta(queue)
        deltas[id(queue)] = delta
    return delta


def gate_delta_at(at_gates: dict[int, GateDelta], gate: Gate) -> GateDelta:
    """Return the change at a gate; creates a missing change."""
    at_gate = at_gates.get(id(gate))
    if at_gate is None:
        at_gate = GateDelta(gate)
        at_gates[id(gate)] = at_gate
    return at_gate


def add_queue(at_gates: dict[int, GateDelta], delta: QueueDelta, pools: dict[int, GateDelta]) -> None:
    """Add the gates of a queue that the commit publishes to."""
    for gate in delta.queue.gates:
        pool = pools.get(id(gate))
        if pool is None:
            delta.add_to(gate_delta_at(at_gates, gate))
        elif delta.queue.bytes + pool.more_bytes > gate.guaranteed_bytes:
            at_gates[id(gate)] = pool


def shares_of(settlements: list[Settlement]) -> list[tuple[AddressShare, int]]:
    """Return the address shares that are freed, each with the number of removed copies."""
    shares: dict[int, tuple[AddressShare, int]] = {}
    for settlement in settlements:
        message = settlement.message
        if message.share is not None and settlement.frees():
            share = message.share
            before = shares.get(id(share))
            shares[id(share)] = (share, 1 if before is None else before[1] + 1)
    return list(shares.values())


def adds(messages: i64, bytes: i64) -> str:
    """Return the growth by a commit as a clause."""
    return f"the transaction adds {int(messages):,} message{'' if messages == 1 else 's'}, {int(bytes):,} bytes"
