"""The broker in slow, obvious lines: what must be true, whatever the fast one does.

It restates the laws of docs/inside/flow-control.md in its own words and never calls the code that it judges; it is told
what was asked for and what was seen, and raises AssertionError where the two do not go together. Amounts are pairs
(messages, bytes), `None` is no limit; a publish is known by its producer's name and its number there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.core.publish.hold_room import held_bytes

EARLY_S = 0.05
"""How long before its deadline a publish may be dealt with."""

Pair = tuple[int | None, int | None]


def above(depth: tuple[int, int], mark: Pair) -> bool:
    """In either unit."""
    return (mark[0] is not None and depth[0] > mark[0]) or (mark[1] is not None and depth[1] > mark[1])


@dataclass
class Copy:
    """A message in one queue."""

    producer: str
    number: int
    charge: int
    arrived: float
    redelivered: bool = False


@dataclass
class Seen:
    """A queue as it looks from outside; `waiting` is (sequence, content, charge) of what nobody has yet."""

    waiting: list[tuple[int, bytes, int]]
    tail: int
    depth: tuple[int, int]
    open: bool
    gone: tuple[int, int, int]
    """Settled (with what expired or was purged), dropped, expired."""


@dataclass
class QueueModel:
    """One queue: every message that counts, and why the others do not."""

    name: str
    policy: str
    capacity: Pair
    stop: Pair
    resume: Pair
    deadline_s: float = float("inf")
    ttl_s: float = float("inf")
    copies: dict[int, Copy] = field(default_factory=dict)
    out: set[int] = field(default_factory=set)
    tail: int = 0
    settled: int = 0
    dropped: int = 0
    expired: int = 0
    latest: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    closed_at: float = 0.0
    deleted: bool = False
    moved: bool = False
    """Whether its gate closed or opened since the last look."""

    def depth(self) -> tuple[int, int]:
        return len(self.copies), sum(copy.charge for copy in self.copies.values())

    def room_for(self, charge: int) -> bool:
        messages, size = self.depth()
        return not above((messages + 1, size + charge), self.capacity)

    def could_drop_for(self, charge: int) -> bool:
        """Whether there is room once everything is dropped that no consumer has."""
        return not above((len(self.out) + 1, sum(self.copies[s].charge for s in self.out) + charge), self.capacity)

    # What was asked for

    def deliver(self, sequences: Iterable[tuple[int, bool]], keep: bool, now: float) -> None:
        """Messages went to a consumer, as (sequence, redelivered); oldest first, each to one at a time."""
        for sequence in sorted(self.copies.keys() - self.out):
            if self.copies[sequence].arrived + self.ttl_s > now:
                break
            del self.copies[sequence]  # Before anything is delivered, what is too old goes.
            self.expired += 1
        for sequence, redelivered in sequences:
            waiting = self.copies.keys() - self.out
            assert sequence in waiting, f"{self.name}: {sequence} was delivered, but is not there to be delivered"
            assert sequence == min(waiting), f"{self.name}: {sequence} was delivered before {min(waiting)}"
            assert redelivered == self.copies[sequence].redelivered, f"{self.name}: {sequence} has a wrong redelivered"
            self.out.add(sequence)
            if not keep:
                self.settle(sequence)

    def settle(self, sequence: int) -> None:
        self.out.remove(sequence)
        del self.copies[sequence]
        self.settled += 1

    def put_back(self, sequence: int) -> None:
        if self.deleted:
            self.settle(sequence)
            return
        self.out.remove(sequence)
        self.copies[sequence].redelivered = True

    def purge(self) -> int:
        gone = self.copies.keys() - self.out
        for sequence in gone:
            del self.copies[sequence]
        self.settled += len(gone)
        return len(gone)

    # What was seen

    def cross(self, closed: bool, depth: tuple[int, int], now: float) -> None:
        """Its gate closed or opened at a depth."""
        assert closed != self.closed, f"{self.name}: told twice that the gate is {'closed' if closed else 'open'}"
        if closed:
            assert above(depth, self.stop), f"{self.name}: closed at {depth}, which is not above {self.stop}"
            assert not self.deleted, f"{self.name}: closed although it was deleted"
        else:
            under = not above(depth, self.resume)
            assert under or self.deleted, f"{self.name}: opened at {depth}, which is above {self.resume}"
        self.closed = closed
        self.closed_at = now
        self.moved = True

    def look(self, seen: Seen, now: float) -> list[Copy]:
        """Compare with what is seen; returns the messages that came in since the last look."""
        there = {sequence for sequence, _, _ in seen.waiting} | self.out
        entered = self._take_in(seen, now)
        self._explain_gone(self.copies.keys() - there, seen, now)
        assert self.depth() == seen.depth, f"{self.name}: depth {seen.depth}, but the charges make {self.depth()}"
        assert not above(self.depth(), self.capacity), f"{self.name}: overrun, {self.depth()} above {self.capacity}"
        assert self.tail == len(self.copies) + self.settled + self.dropped + self.expired, f"{self.name}: one is lost"
        assert seen.gone == (self.settled + self.expired, self.dropped, self.expired), f"{self.name}: {seen.gone}"
        assert seen.open == (not self.closed), f"{self.name}: the gate moved and nobody was told"
        if not self.deleted:
            assert self.closed or not above(self.depth(), self.stop), f"{self.name}: overfull, yet open"
            assert not self.closed or above(self.depth(), self.resume), f"{self.name}: underfull, yet closed"
        return entered

    def _take_in(self, seen: Seen, now: float) -> list[Copy]:
        entered: list[Copy] = []
        for sequence, content, charge in seen.waiting:
            if sequence > self.tail:
                producer, number = content.decode().split(":")
                copy = Copy(producer, int(number), charge, now)
                assert self.latest.get(producer, 0) < copy.number, f"{self.name}: {content!r} came out of order"
                self.latest[producer] = copy.number
                self.copies[sequence] = copy
                entered.append(copy)
        unseen = seen.tail - self.tail - len(entered)
        assert unseen == 0 or (unseen > 0 and self.policy == "drop-head"), f"{self.name}: {unseen} came and went"
        self.dropped += unseen
        self.tail = seen.tail
        return entered

    def _explain_gone(self, gone: set[int], seen: Seen, now: float) -> None:
        for sequence in sorted(gone):
            copy = self.copies.pop(sequence)
            if copy.arrived + self.ttl_s <= now and self.expired < seen.gone[2]:
                self.expired += 1
            else:
                assert self.policy == "drop-head", f"{self.name}: {sequence} is lost"
                newer = [other for other, _, _ in seen.waiting if other < sequence]
                assert not newer, f"{self.name}: {sequence} was dropped before the older {newer}"
                self.dropped += 1


@dataclass
class Publish:
    """A publish whose end is not known yet."""

    number: int
    route: list[QueueModel]
    charge: int
    deadline: float
    entered: set[str] = field(default_factory=set)
    shut: set[str] = field(default_factory=set)
    """The queues behind whose closed gate it went in, for certain."""

    def taken(self) -> bool:
        """Whether a queue has, or may have had, it: what is deleted of several before it passes is left out."""
        return bool(self.entered) or not self.route or any(queue.policy == "drop-head" for queue in self.route)


@dataclass
class ProducerModel:
    """One producer, as its peer sees it."""

    name: str
    confirming: bool
    bound: int
    came: float = 0.0
    published: int = 0
    open: dict[int, Publish] = field(default_factory=dict)
    """Not yet in all its queues, refused or told, as far as we know."""
    blocked_by: dict[str, float] = field(default_factory=dict)
    """The queues whose gates block it, each with the time since when."""
    waits_since: int = 0
    """When the publish that is now first in its line came to be first; 0 while none waits."""
    overtaken: dict[str, int] = field(default_factory=dict)
    passed_before: int = 0
    """Bytes that it passed without a turn, and that its position has counted since its last turn but one."""

    def publish(self, route: list[QueueModel], charge: int, now: float) -> Publish:
        """It publishes; the most impatient of the queues says how long the publish may wait."""
        deadline = now + min((queue.deadline_s for queue in route), default=float("inf"))
        self.published += 1
        publish = Publish(self.published, route, charge, deadline)
        self.open[publish.number] = publish
        return publish

    def stopped_by(self, route: list[QueueModel], charge: int, now: float) -> set[str]:
        """The queues that take no more from it although they have room: it has waited a whole hold deadline at each.

        Who came when a gate was closed already has nothing under way there, and waits as long as it is closed.
        """
        patience_s = min((queue.deadline_s for queue in route), default=float("inf"))
        stopped: set[str] = set()
        for queue in route:
            takes = queue.room_for(charge) or (queue.policy == "drop-head" and queue.could_drop_for(charge))
            came_later = self.came > queue.closed_at
            if queue.closed and takes and (came_later or queue.name in self.blocked_by):
                begun = queue.closed_at if came_later else max(queue.closed_at, self.blocked_by[queue.name])
                if begun + patience_s - EARLY_S <= now + 1e-9:
                    stopped.add(queue.name)
        return stopped

    def enter(self, number: int, queue: QueueModel, certainly_shut: bool) -> None:
        """Its publish was seen in a queue for the first time."""
        assert number in self.open, f"{self.name}: {number} came into {queue.name} after it was refused or confirmed"
        publish = self.open[number]
        assert queue.name in [each.name for each in publish.route], f"{self.name}: {number} is astray in {queue.name}"
        publish.entered.add(queue.name)
        if certainly_shut:
            publish.shut.add(queue.name)

    def told(self, first: int, last: int, confirmed: bool, now: float) -> None:
        """The peer is told: of `last` alone if it is `first`, else of everything up to `last` that is open."""
        numbers = [last] if first == last else sorted(number for number in self.open if number <= last)
        assert numbers[:1] == [first], f"{self.name}: told of {first}..{last}, but {numbers} were open"
        # Confirmations keep their order: what is due takes along everything before it.
        due = max((n for n, each in self.open.items() if each.deadline - EARLY_S <= now + 1e-9), default=0)
        for number in numbers:
            assert number in self.open, f"{self.name}: told of {number} again"
            publish = self.open.pop(number)
            if confirmed:
                assert not [n for n in self.open if n < number], f"{self.name}: {number} was confirmed out of order"
                self._check_confirmed(publish, number <= due)
            else:
                self._check_refused(publish, now)

    def _check_confirmed(self, publish: Publish, due: bool) -> None:
        for queue in publish.route:
            name = f"{self.name}: {publish.number} was confirmed"
            if queue.policy != "drop-head":
                assert queue.name in publish.entered or queue.deleted, f"{name}, but is not in {queue.name}"
            free = due or queue.name not in publish.shut or queue.deleted
            assert free, f"{name} while the gate of {queue.name} is closed"
        assert publish.taken(), f"{self.name}: {publish.number} was confirmed, but is nowhere"

    def _check_refused(self, publish: Publish, now: float) -> None:
        missing = [queue for queue in publish.route if queue.name not in publish.entered]
        assert missing, f"{self.name}: {publish.number} was refused, but is in all its queues"
        due = publish.deadline - EARLY_S <= now + 1e-9
        refusing = [q for q in missing if not q.deleted and not self.must_wait_at(q, publish.charge)]
        refusing += missing if all(queue.deleted for queue in publish.route) else []
        assert due or refusing or self.beyond_bound(publish), f"{self.name}: {publish.number} was refused for nothing"

    def must_wait_at(self, queue: QueueModel, charge: int) -> bool:
        """Whether this queue makes a message wait, or lets it in, but never turns it away now."""
        if queue.policy == "block":
            return True
        return queue.room_for(charge) if queue.policy == "reject" else queue.could_drop_for(charge)

    held: int = 0
    """Bytes that it holds now, as was last seen."""

    def beyond_bound(self, publish: Publish) -> bool:
        return self.held > 0 and self.held + held_bytes(publish.charge, len(publish.route)) > self.bound
