"""Gates: named conditions on the road of a message, each open or closed.

A gate knows its waiters and the producers that it blocks. It knows no queue, no protocol and no other gate. Several
conditions are several gates on one road; no gate holds a set of reasons.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from mypy_extensions import i64, mypyc_attr, trait

from penstock.errors import BrokerError
from penstock.flow.gate_stats import GateStats
from penstock.flow.level import UNLIMITED, Measure
from penstock.flow.reserved_room import Party
from penstock.flow.timers import NEVER, TimerHandler

NO_GUARANTEE: Final = -1
IDLE: Final = 0
LISTED: Final = 1
RETIRED: Final = 2
RETRY_AFTER_S: Final = 1.0


def earlier(one: Waiter, other: Waiter) -> bool:
    """Return whether `one` comes before `other` in a line: by ticket, then by order."""
    return one.ticket < other.ticket or (one.ticket == other.ticket and one.order < other.order)


def _rise(line: list[Waiter], waiter: Waiter, at: i64) -> None:
    """Put a waiter into a line, which is a heap: at this index, or nearer to the front."""
    while at > 0:
        above = (at - 1) >> 1
        other = line[above]
        if not earlier(waiter, other):
            break
        line[at] = other
        other.place = at
        at = above
    line[at] = waiter
    waiter.place = at


def _sink(line: list[Waiter], waiter: Waiter, at: i64) -> None:
    """Put a waiter into a line at this index, or further back."""
    size: i64 = len(line)
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and earlier(line[below + 1], line[below]):
            below += 1
        other = line[below]
        if not earlier(other, waiter):
            break
        line[at] = other
        other.place = at
        at = below
    line[at] = waiter
    waiter.place = at


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """A producer with messages to pass, which may have to wait at a gate."""

    def __init__(self, party: Party | None = None, asks_for_credit: bool = False) -> None:
        self.ticket: i64 = 0
        """Position in the order of turns, in bytes; 0 while the producer does not wait. See Turns."""
        self.serial: i64 = 0
        """Order among equal tickets: the waiter that drew first is first."""
        self.order: i64 = 0
        """The waiter's serial when it entered its present line."""
        self.place: i64 = 0
        """The waiter's index in its present line."""
        self.finish: i64 = 0
        """Position where the last turn ended; the next ticket is not before this position."""
        self.unturned_bytes: i64 = 0
        """Bytes that passed behind a closed gate before the producer had to wait; its position counts them at its
        turn.
        """
        self.back_by: float = -NEVER
        """Time (monotonic seconds) until which the position is reserved after all messages have passed."""
        self.expected_at: Gate | None = None
        """The gate that waits for the producer's return until `back_by`; None without one."""
        self.listed_at: i64 = 0
        """The waiter's index in the `returning` list of that gate."""
        self.weight: i64 = 1
        """Weight in fair queueing: a waiter of weight 2 passes twice the bytes of a waiter of weight 1."""
        self.gate: Gate | None = None
        """The gate where the producer waits now; None while it does not wait."""
        self.party = party
        """The producer's connection, which shares reserved room with other connections; None without one."""
        self.asks_for_credit = asks_for_credit
        """True if the producer waits for credit, not with a publish: it has no turn while the gate is closed."""
        self.exact: bool = False
        """True if the credit ends at the stop threshold."""

    def waits_at(self, gate: Gate, now: float) -> None:
        """Handle that the waiter was put in the line of a gate."""
        raise NotImplementedError

    def on_road_changed(self, left: set[object], now: float) -> i64:
        """Check whether the producer still waits at the right gate after these owners left the gate; returns units of
        work.
        """
        raise NotImplementedError

    def obstacle(self, finishing: Gate | None = None) -> Gate | None:
        """Return the first gate that stops the next message, or None.

        A closed gate whose round is being finished (`finishing`) stops the message only if there is no room.
        """
        raise NotImplementedError

    def take_turn(self, now: float) -> i64:
        """Pass exactly one message; returns its charge in bytes. `after_release` follows, after one turn or several."""
        raise NotImplementedError

    def after_release(self, now: float) -> None:
        """Handle the effects of one turn or of several turns in a row."""

    def next_gate(self) -> Gate | None:
        """Return the gate to wait at for the message after the next; None when no message is left.

        `obstacle` returns None when the road is open; this method still names a gate: one message a turn, then back
        into the line.
        """
        raise NotImplementedError

    def will_return_soon(self) -> bool:
        """Return whether the producer has no messages only because it waits for a confirm and will publish again at
        once.
        """
        return False

    def release(self, gate: Gate, now: float) -> i64:
        """Handle the opening of a gate that blocked the producer: release its confirms.

        Returns the bytes (charges) that passed while the gate was closed, with confirms withheld.
        """
        raise NotImplementedError


NOBODY: Final[list[Waiter]] = []
"""Empty line of a gate: one shared list, which must not be changed."""
NOBODY_RETURNS: Final[list[tuple[i64, i64, Waiter]]] = []
"""Empty list of returning producers: one shared list, which must not be changed."""


@trait
class GateOwner:
    """The owner of a gate: the amount that closes and opens it."""

    def update_gate(self, now: float) -> None:
        """Check the amount again, after a change of the gate's waiters or of the thresholds."""
        raise NotImplementedError

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """Return whether a message (charge in bytes, number of queues) has room, whether the gate is open or closed."""
        raise NotImplementedError

    def passed(self, charge: i64, now: float, granted: bool = False) -> None:
        """Record that a message passed the gate; only rates count these. `granted`: the message came on counted
        credit.
        """

    def admits_granted(self, now: float) -> bool:
        """Return whether a message on counted credit may pass now; only rates stop such messages, when a sender has
        saved up credit.
        """
        return True

    def credit_limit(self, charge: i64) -> i64:
        """Return the most messages (each of this charge) that one sender may have as credit; only rates limit the
        number.
        """
        return UNLIMITED

    def grantable(self, wanted: i64, charge: i64, now: float) -> i64:
        """Return how many of the wanted messages (each of this charge) may be granted at once; only rates limit the
        number.
        """
        return wanted

    def granted(self, messages: i64, charge: i64, now: float) -> None:
        """Record that messages were granted (each of this charge); only rates count these."""

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """Return whether the gate limits a commit.

        The arguments are the additions of the commit minus the amounts that the commit frees.

        A commit that adds no more than it frees passes every depth; a gate without a depth limits all commits.
        """
        return True

    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        """Return whether there is room for this additional amount at once, whether the gate is open or closed."""
        return self.admits(bytes, 1, now)

    def may_defer_turn(self) -> bool:
        """Return whether a turn may be postponed for a moment without idle consumers behind the gate."""
        return False

    def recall(self, parties: list[Party], now: float) -> float:
        """Revoke idle reserved room, because the first in line lacks room. `parties` are the connections that wait.

        Returns the time of the next recall (monotonic seconds): at once if room was freed, NEVER if no room is
        reserved.
        """
        return NEVER

    # Descriptions and errors; off the hot path

    def measure(self) -> Measure | None:
        """Return the depth of the gate; None for a gate without depth (a rate, an operator gate)."""
        return None

    def exact_measure(self, now: float) -> Measure | None:
        """Return the depth after an exact count, for an owner that counts with slack."""
        return self.measure()

    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        """Return whether this amount could be admitted without waiting if the queue were empty."""
        return True

    def describe_overflow(self) -> str:
        """Return the reason for a publish that the owner's overflow policy refused; empty without a policy."""
        return ""

    def describe_cause(self, now: float) -> str:
        """Return the cause that keeps the gate closed, or its waiters waiting, as a clause; may be empty."""
        return ""

    def describe_refusal(self) -> str:
        """Return the reason for a refused publish as a clause that names the gate."""
        raise NotImplementedError

    def vhost_name(self) -> str | None:
        """Return the virtual host of the gate; None if the gate belongs to the node."""
        return None

    def guaranteed_total(self) -> i64:
        """Return the bytes beyond the capacity for guaranteed shares."""
        return 0

    def full_percent(self) -> int:
        """Return the share of the resource, in whole percent, above which the gate closes."""
        return 100

    def ready_at(self, now: float) -> float:
        """Return the time at which the gate opens by itself: monotonic seconds; NEVER if unknown."""
        return NEVER

    def hold_deadline_s(self, default_s: float) -> float:
        """Return the hold deadline of publishes that wait here: seconds; `default_s` if the owner has none."""
        return default_s


class GateTransition:
    """A transition of a gate, open or closed, for the log and the protocols."""

    __slots__ = ("gate", "closed", "messages", "bytes", "now")

    def __init__(self, gate: Gate, closed: bool, messages: i64, bytes: i64, now: float) -> None:
        self.gate = gate
        self.closed = closed
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.now = now


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate:
    """A condition that is open or closed, with its waiters and the producers that it blocks."""

    def __init__(self, kind: str, name: str, crossings: list[GateTransition]) -> None:
        self.kind = kind
        """Kind of the owner: "queue", "address", "vhost", "memory", "rate", "operator" or "disk"."""
        self.name = name
        self.owner: GateOwner | None = None
        self.transitions = crossings
        """The broker's list of unhandled transitions."""
        self.open: bool = True
        self.scheduled: i64 = IDLE
        """IDLE; LISTED while Turns has the gate in the schedule; RETIRED if its queue is deleted: the gate stays open
        for good.
        """
        self.guaranteed_bytes: i64 = NO_GUARANTEE
        """A queue with at most these bytes, the new message included, passes even when the gate is closed."""
        self.frequent: bool = False
        """True if the gate closes and opens routinely (a rate): its transitions are not logged."""
        self.waiters: list[Waiter] = []
        """Waiters with a publish: a heap (`earlier`) in which each waiter knows its index."""
        self.requests: list[Waiter] = NOBODY
        """Waiters for credit, likewise. A closed gate grants no credit, so these waiters block nobody while it is
        closed.
        """
        self.exact_requests: i64 = 0
        """Waiters for credit that ends at the stop threshold; a subset of `requests`."""
        self.returning: list[tuple[i64, i64, Waiter]] = NOBODY_RETURNS
        """Producers that will return soon and that the gate waits for: a heap by position. Positions may have grown
        since.
        """
        self.turned_at: float = -NEVER
        """Time of the last turn (monotonic seconds)."""
        self.closed_at_ticket: i64 = 0
        """Ticket of the turn that closed the gate: waiters up to this ticket have not had a turn in that round."""
        self.timer: TimerHandler | None = None
        """Timer that schedules the gate again when the wait for a returning producer ends."""
        self.blocked: dict[int, Waiter] = {}
        """Blocked producers by identity: waiters, and producers with withheld confirms."""
        self.to_release: dict[int, Waiter] = {}
        """Blocked producers to release as soon as the gate opens."""
        self.stats = GateStats()

    def __lt__(self, other: Gate) -> bool:
        return self.name < other.name  # Compared for equal tickets: a waiter has moved between two scheduled gates.

    def close(self, messages: i64, bytes: i64, now: float) -> None:
        """Close at this depth; a closed gate stays closed."""
        if self.open:
            self.open = False
            self.stats.closed(now)
            self.transitions.append(GateTransition(self, True, messages, bytes, now))

    def reopen(self, messages: i64, bytes: i64, now: float) -> None:
        """Open at this depth; an open gate stays open. `Turns` gives the waiters their turns."""
        if not self.open:
            self.open = True
            self.stats.opened(now)
            self.transitions.append(GateTransition(self, False, messages, bytes, now))

    def review(self, now: float) -> None:
        """Ask the owner to check the depth again; a gate without an owner is operated by hand."""
        if self.owner is not None:
            self.owner.update_gate(now)

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """Return whether a message has room here; a gate without an owner admits while it is open."""
        return self.open if self.owner is None else self.owner.admits(charge, copies, now)

    def grows(self, messages: i64, bytes: i64) -> bool:
        """Return `GateOwner.limits_increase`; a gate without an owner limits all commits."""
        return self.owner is None or self.owner.limits_increase(messages, bytes)

    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        """Return `GateOwner.has_room`; a gate without an owner has room while it is open."""
        return self.open if self.owner is None else self.owner.has_room(messages, bytes, now)

    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        """Return `GateOwner.could_ever_take`."""
        return self.owner is None or self.owner.could_ever_take(messages, bytes)

    def measure(self) -> Measure | None:
        """Return `GateOwner.measure`."""
        return None if self.owner is None else self.owner.measure()

    def describe_overflow(self) -> str:
        """Return `GateOwner.describe_overflow`."""
        return "" if self.owner is None else self.owner.describe_overflow()

    def describe_cause(self, now: float) -> str:
        """Return `GateOwner.describe_cause`."""
        return "" if self.owner is None else self.owner.describe_cause(now)

    def describe_refusal(self) -> str:
        """Return `GateOwner.describe_refusal`."""
        return f"{self.kind} '{self.name}' lets nothing pass" if self.owner is None else self.owner.describe_refusal()

    def passed(self, charge: i64, now: float, granted: bool = False) -> None:
        """Count a message that passed at a rate. See `GateOwner.passed`."""
        if self.owner is not None:
            self.owner.passed(charge, now, granted)

    def takes_turn(self, finishing: Gate | None) -> bool:
        """Return whether the gate does not stop the message of the present turn: it is open, or finishes its round."""
        return self.open or self is finishing

    def lets_pass(self, charge: i64, copies: i64, now: float, finishing: Gate | None) -> bool:
        """Return whether the message of the present turn may pass: the gate does not stop it, and there is room for
        it.
        """
        return self.takes_turn(finishing) and self.admits(charge, copies, now)

    def enter(self, waiter: Waiter) -> None:
        """Put a waiter in the line by its ticket."""
        waiter.gate = self
        waiter.order = waiter.serial
        line = self.waiters
        if waiter.asks_for_credit:
            if self.requests is NOBODY:
                self.requests = []
            line = self.requests
            self.exact_requests += 1 if waiter.exact else 0
        line.append(waiter)
        _rise(line, waiter, len(line) - 1)

    def has_line(self) -> bool:
        """Return whether a newcomer must wait: behind waiters with publishes, and at an open gate behind all
        waiters.
        """
        return len(self.waiters) > 0 or (self.open and len(self.requests) > 0)

    def in_line(self) -> int:
        """Return the number of waiters here, with a publish or for credit."""
        return len(self.waiters) + len(self.requests)

    def next_in_line(self) -> Waiter | None:
        """Return the waiter of the next turn, None without one; at a closed gate only publishes have turns."""
        waiters, requests = self.waiters, self.requests
        if not self.open or not requests:
            return waiters[0] if waiters else None
        return waiters[0] if waiters and earlier(waiters[0], requests[0]) else requests[0]

    def leave(self, waiter: Waiter) -> None:
        """Remove a waiter from its line; the waiter keeps its ticket."""
        line = self.requests if waiter.asks_for_credit else self.waiters
        self.exact_requests -= 1 if waiter.exact else 0
        last = line.pop()
        if last is not waiter:
            at = waiter.place
            if at > 0 and earlier(last, line[(at - 1) >> 1]):
                _rise(line, last, at)
            else:
                _sink(line, last, at)
        waiter.gate = None

    def block(self, waiter: Waiter) -> None:
        """Add a producer to those that the gate blocks."""
        self.blocked[id(waiter)] = waiter

    def expect(self, waiter: Waiter) -> None:
        """Have the producer released when the gate opens: it has withheld confirms, or no more messages to pass
        here.
        """
        self.to_release[id(waiter)] = waiter

    def expects(self, waiter: Waiter) -> bool:
        """Return whether the producer's `release` is still to be called: the gate is closed, or has just opened."""
        return id(waiter) in self.to_release

    def unblock(self, waiter: Waiter) -> None:
        """Remove a producer from those that the gate blocks."""
        self.blocked.pop(id(waiter), None)
        self.to_release.pop(id(waiter), None)

    def forget(self, waiter: Waiter) -> None:
        """Remove all traces of a closed producer."""
        if waiter.gate is self:
            self.leave(waiter)
        self.unblock(waiter)

    def take_to_release(self, most: int) -> list[Waiter]:
        """Take producers to release, longest waiting first, at most `most`; each checks its own road again.

        Producers that only wait are not included: their turns come one by one, so the cost of an opening is
        proportional to the messages that pass.

        Taking them before the first call of `release` keeps wake-ups from being lost or doubled when a released
        producer publishes onto the same gate again.
        """
        if len(self.to_release) <= most:
            woken = list(self.to_release.values())
            self.to_release.clear()
            return woken
        woken = list(islice(self.to_release.values(), most))
        for waiter in woken:
            del self.to_release[id(waiter)]
        return woken


def retire(gate: Gate) -> None:
    """Stop turns at a gate for good."""
    gate.scheduled = RETIRED


def lose_ticket(waiter: Waiter) -> None:
    """End the wait of a producer that has no more messages to pass."""
    waiter.ticket = 0


def retry_after_s(gate: Gate | None, now: float) -> float:
    """Return the seconds after which a stopped producer may try again; one second if unknown."""
    ready = NEVER if gate is None or gate.owner is None else gate.owner.ready_at(now)
    return RETRY_AFTER_S if ready == NEVER else max(ready - now, 0.0)


NO_GATES: Final[list[Gate]] = []
"""Shared empty list for producers without gates; never changed."""
DEADLINE: Final = "deadline"
"""The publish was held until its hold deadline."""
HOLD_BOUND: Final = "hold-bound"
"""The hold budget of the connection is used up."""
DELETED: Final = "deleted"
"""The queue was deleted while the publish was held."""
NEVER_FITS: Final = "never-fits"
"""The message is larger than the capacity, which was lowered while the publish was held."""
WITHDRAWN: Final = "withdrawn"
"""The publisher withdrew the publish while it was held."""
ROLLED_BACK: Final = "rolled-back"
"""The commit has a part that is impossible."""


class Refusal:
    """The reason of a refused publish, or of several publishes that were refused together."""

    __slots__ = ("cause", "gate", "retriable", "error", "_text")

    def __init__(
        self, cause: str, gate: Gate | None, text: str = "", retriable: bool = False, error: BrokerError | None = None
    ) -> None:
        self.cause = cause
        """One of the causes above, or the name of the queue's overflow policy."""
        self.gate = gate
        """The gate that refused or stopped the publish; None if other waiters were before it."""
        self.retriable = retriable
        """True if a retry may succeed: the gate was closed for too long."""
        self.error = error
        """The error with the same reason, if there is one."""
        self._text = text

    def describe(self) -> str:
        """Return the reason as a clause, which follows the target of the publish."""
        if self._text:
            return self._text
        if self.error is not None:
            return str(self.error)
        gate = self.gate
        if gate is None:
            return "the message was refused"
        if self.cause == DELETED:
            return f"queue '{gate.name}' was deleted"
        return gate.describe_overflow() or gate.describe_refusal()
