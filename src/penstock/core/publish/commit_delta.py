"""What a commit brings, and what it frees: by queue, by route, by gate."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.gates.address_depth import AddressShare
from penstock.core.message import Message, TrackedMessage
from penstock.core.publish.held import HeldPublish
from penstock.core.queue.overflow import REFUSE
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.flow.gate import Gate

ACKNOWLEDGE: Final = 0
DISCARD: Final = 1
REQUEUE: Final = 2
"""What a settlement does: the message is done with, refused, or put back where it was."""


class Settlement:
    """A delivery that is settled when its transaction is committed."""

    __slots__ = ("tag", "queue", "message", "how")

    def __init__(self, tag: int, queue: Queue, message: Message, how: int) -> None:
        self.tag = tag
        self.queue = queue
        self.message = message
        self.how = how

    def frees(self) -> bool:
        """Return whether its message leaves the queue at once: one that is put back does not, nor a dead letter."""
        return self.how == ACKNOWLEDGE or (self.how == DISCARD and self.queue.dead_letters is None)


class QueueDelta:
    """What a commit brings to one queue, and takes from it."""

    __slots__ = ("queue", "messages", "bytes", "bodies", "largest", "freed", "freed_bytes", "back", "back_bytes")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """What it publishes there."""
        self.bodies: i64 = 0
        """Octets of the bodies of that, where the length of the queue bounds them."""
        self.largest: i64 = 0
        """The largest charge among that."""
        self.freed: i64 = 0
        self.freed_bytes: i64 = 0
        """What leaves the queue by its acknowledgements."""
        self.back: i64 = 0
        self.back_bytes: i64 = 0
        """What is no longer with a consumer afterwards: that, and what is put back."""

    def bring(self, charge: i64, content: bytes) -> None:
        """Count a publish."""
        if self.queue.length is not None:
            self.bodies += self.queue.length.body_bytes(content)
        self.messages += 1
        self.bytes += charge
        if charge > self.largest:
            self.largest = charge

    def settle(self, charge: i64, frees: bool) -> None:
        """Count a settlement."""
        self.back += 1
        self.back_bytes += charge
        if frees:
            self.freed += 1
            self.freed_bytes += charge

    def add_to(self, stop: GateDelta) -> None:
        """Count it at its queue's gate; nothing goes into a queue that was deleted."""
        if not self.overflows_to_disk():
            stop.free(self.freed, self.freed_bytes)
        if not self.queue.deleted:
            stop.bring(self.messages, self.bytes)

    def overflows_to_disk(self) -> bool:
        """Return whether the queue sends to the disk what has no room: what it frees in memory is none for that."""
        return self.queue.pager is not None and self.queue.overflow.pages

    def add_to_sum(self, stop: GateDelta) -> None:
        """Count it at the gate of a sum of what is in memory."""
        if self.overflows_to_disk():
            stop.free(self.freed, self.freed_bytes)
        else:
            self.add_to(stop)

    def enters(self) -> bool:
        """Return whether anything goes in there."""
        return self.messages > 0 and not self.queue.deleted

    def refused(self, now: float) -> bool:
        """Return whether the queue's overflow policy refuses any of it, once the commit's settlements are done."""
        queue = self.queue
        if self.enters() and queue.length is not None:
            ready = self.messages + self.back - self.freed
            if not queue.length.takes(ready, self.bodies, now):
                return True
        messages, size = self.messages, self.bytes
        if not self.overflows_to_disk():
            messages -= self.freed
            size -= self.freed_bytes
        if queue.covers(messages, size) or not self.enters():
            return False
        queue.unacked(-self.back, -self.back_bytes)  # The policy is asked as if they were done already.
        verdict = queue.overflow.judge(queue, messages, size, self.largest)
        queue.unacked(self.back, self.back_bytes)
        return verdict == REFUSE


class RouteDelta:
    """What a commit publishes by one route."""

    __slots__ = ("route", "messages", "bytes")

    def __init__(self, route: Route) -> None:
        self.route = route
        self.messages: i64 = 0
        self.bytes: i64 = 0


class GateDelta:
    """A gate that a commit must pass, and what it does to the amount that the gate guards."""

    __slots__ = ("gate", "messages", "bytes", "more_messages", "more_bytes")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """What it brings."""
        self.more_messages: i64 = 0
        self.more_bytes: i64 = 0
        """By how much the amount grows: that, less what it frees."""

    def bring(self, messages: i64, bytes: i64) -> None:
        """Count what it brings."""
        self.messages += messages
        self.bytes += bytes
        self.more_messages += messages
        self.more_bytes += bytes

    def free(self, messages: i64, bytes: i64) -> None:
        """Count what it frees."""
        self.more_messages -= messages
        self.more_bytes -= bytes

    def limits_increase(self) -> bool:
        """Return whether it must pass there at all."""
        return self.gate.grows(self.more_messages, self.more_bytes)

    def has_room(self, now: float) -> bool:
        """Return whether it has room there, be the gate open or closed."""
        return self.gate.has_room(self.more_messages, self.more_bytes, now)

    def never_fits(self) -> str:
        """Return what it can never fit into, in words; empty if it can."""
        gate = self.gate
        measured = None if gate.could_ever_take(self.messages, self.bytes) else gate.measure()
        if measured is None:
            return ""
        return f"{gate.kind} '{gate.name}' with its capacity of {measured.thresholds.capacity.describe()}"

    def describe(self) -> str:
        """Say what stops it there, in a clause."""
        gate = self.gate
        if gate.kind == "disk":
            return gate.describe_refusal()
        measured = gate.measure()
        if measured is None:
            return f"{gate.kind} {gate.name} does not let it pass"
        messages, size = measured.messages - measured.paged_messages, measured.bytes - measured.paged_bytes
        depth = f"{int(messages):,} messages, {int(size):,} bytes"
        capacity = measured.thresholds.capacity.describe()
        more = adds(self.more_messages, self.more_bytes)
        return f"{gate.kind} '{gate.name}' holds {depth}, of a capacity of {capacity}; {more}"


def delta_of(loads: dict[int, QueueDelta], queue: Queue) -> QueueDelta:
    """Return the load of a queue, made at first use."""
    load = loads.get(id(queue))
    if load is None:
        load = QueueDelta(queue)
        loads[id(queue)] = load
    return load


def route_deltas_of(publishes: list[HeldPublish]) -> list[RouteDelta]:
    """Add up what goes by each route; one that is found anew for each message (by headers) only where gates stand."""
    passages: dict[int, RouteDelta] = {}
    for held in publishes:
        route = held.route
        if route.gates or not route.by_headers:
            passage = passages.get(id(route))
            if passage is None:
                passage = RouteDelta(route)
                passages[id(route)] = passage
            passage.messages += 1
            passage.bytes += held.charge
    return list(passages.values())


def gate_delta_at(stops: dict[int, GateDelta], gate: Gate) -> GateDelta:
    """Return the stop at a gate, made at first use."""
    stop = stops.get(id(gate))
    if stop is None:
        stop = GateDelta(gate)
        stops[id(gate)] = stop
    return stop


def add_queue(stops: dict[int, GateDelta], load: QueueDelta, pools: dict[int, GateDelta]) -> None:
    """Add the gates of a queue that messages go into."""
    for gate in load.queue.gates:
        pool = pools.get(id(gate))
        if pool is None:
            load.add_to(gate_delta_at(stops, gate))
        elif load.queue.bytes + pool.more_bytes > gate.guaranteed_bytes:
            stops[id(gate)] = pool


def shares_of(settlements: list[Settlement]) -> list[tuple[AddressShare, int]]:
    """Return the parts in addresses that are freed, each with how many copies of its message leave."""
    shares: dict[int, tuple[AddressShare, int]] = {}
    for settlement in settlements:
        message = settlement.message
        if isinstance(message, TrackedMessage) and message.share is not None and settlement.frees():
            share = message.share
            before = shares.get(id(share))
            shares[id(share)] = (share, 1 if before is None else before[1] + 1)
    return list(shares.values())


def adds(messages: i64, bytes: i64) -> str:
    """Say by how much a commit makes something grow."""
    return f"the transaction adds {int(messages):,} message{'' if messages == 1 else 's'}, {int(bytes):,} bytes"
