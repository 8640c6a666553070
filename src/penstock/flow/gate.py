"""One condition on the road of a message, with one name: open or closed.

A gate knows who waits at it and who is blocked by it; it knows no queue, no protocol and no other gate. Several
conditions are several gates on one road; no gate holds a set of reasons.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final

from mypy_extensions import i64, mypyc_attr, trait

from penstock.flow.gate_stats import GateStats
from penstock.flow.measure import Measure
from penstock.flow.timers import NEVER, TimerHandler

NO_GUARANTEE: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """A party that may have to wait: a producer with messages to pass."""

    def __init__(self) -> None:
        self.ticket: i64 = 0
        """Place in the broker's one line, in bytes of turns; 0 while it does not wait. See Turns."""
        self.serial: i64 = 0
        """Order among equal tickets: who drew first."""
        self.finish: i64 = 0
        """Where its last turn ended, on the same scale: it does not stand before that again."""
        self.back_by: float = -NEVER
        """Until when (monotonic seconds) it finds its place kept, when it has passed all it had and comes back."""
        self.weight: i64 = 1
        """Its share of the turns among those who wait: 2 passes twice the bytes of 1."""
        self.gate: Gate | None = None
        """Where it waits now; None while it does not."""

    def waits_at(self, gate: Gate, now: float) -> None:
        """Record that it has just been put into the line of a gate."""
        raise NotImplementedError

    def obstacle(self) -> Gate | None:
        """Return the first gate that does not let its next message pass, or None."""
        raise NotImplementedError

    def take_turn(self, now: float) -> i64:
        """Pass exactly one message; returns its charge in bytes."""
        raise NotImplementedError

    def next_gate(self) -> Gate | None:
        """Return the gate to wait at for the message after, or None when nothing is left to pass.

        Unlike `obstacle` this names a gate even when the road is open: one message a turn, then back into the line.
        """
        raise NotImplementedError

    def will_return_soon(self) -> bool:
        """Return whether it has passed all it had only because it waits to be told so: it will have more at once."""
        return False

    def release(self, gate: Gate, now: float) -> None:
        """A gate opened by which this party was blocked: hand out the confirmations that may go."""
        raise NotImplementedError


@trait
class GateOwner:
    """What a gate guards: the owner of the amount that closes and opens it."""

    def update_gate(self, now: float) -> None:
        """Judge the amount anew, for the gate's waiters or the thresholds have changed."""
        raise NotImplementedError

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """Return whether a message (charge in bytes, number of queues) has room, whether the gate is open or closed."""
        raise NotImplementedError

    def passed(self, charge: i64, now: float) -> None:
        """Record that a message went past the gate; only what counts messages that pass cares."""

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """Return whether a commit must pass that changes the amount by so much, what it frees taken off.

        One that brings no more than it frees passes every depth; what is no depth stops everybody.
        """
        return True

    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        """Return whether there is room for so much more at once, be the gate open or closed."""
        return self.admits(bytes, 1, now)

    def may_defer_turn(self) -> bool:
        """Return whether a turn may be given a moment later without anybody running dry behind the gate."""
        return False

    # Questions for people and for errors; off the hot path

    def measure(self) -> Measure | None:
        """Return the depth that the gate is judged by; None for a gate that has no depth (a rate, the operator's)."""
        return None

    def exact_measure(self, now: float) -> Measure | None:
        """Return the same after a review of the amount, for an owner that counts with slack."""
        return self.measure()

    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        """Tell whether so much would have room, or would not have to wait for it, if everything else were gone."""
        return True

    def describe_overflow(self) -> str:
        """Return the reason for a publish that the owner's overflow policy refused; empty where there is no policy."""
        return ""

    def describe_cause(self, now: float) -> str:
        """Return the cause that keeps the gate closed, or its waiters waiting, as a clause; may be empty."""
        return ""

    def describe_refusal(self) -> str:
        """Return the reason for a refused publish as a clause that names the gate."""
        raise NotImplementedError

    def vhost_name(self) -> str | None:
        """Return the virtual host that the gate belongs to; None for one that belongs to none."""
        return None

    def guaranteed_total(self) -> i64:
        """Return the bytes beyond its capacity that may be filled by guaranteed shares."""
        return 0

    def full_percent(self) -> int:
        """Return the share of the resource, in whole percent, above which the gate closes."""
        return 100

    def ready_at(self, now: float) -> float:
        """Return the time at which the gate opens by itself: monotonic seconds; NEVER where nobody can tell."""
        return NEVER

    def hold_deadline_s(self, default_s: float) -> float:
        """Return the hold deadline of publishes that wait here: seconds; `default_s` where the owner has none."""
        return default_s


class GateTransition:
    """A gate closed or opened: what people and protocols are told, once each."""

    __slots__ = ("gate", "closed", "messages", "bytes", "now")

    def __init__(self, gate: Gate, closed: bool, messages: i64, bytes: i64, now: float) -> None:
        self.gate = gate
        self.closed = closed
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.now = now


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate:
    """A condition; `open` is the whole state, the rest is who cares."""

    def __init__(self, kind: str, name: str, crossings: list[GateTransition]) -> None:
        self.kind = kind
        """What it guards: "queue", "address", "vhost", "memory", "rate", "operator" or "disk"."""
        self.name = name
        self.owner: GateOwner | None = None
        self.transitions = crossings
        """The broker's record of crossings that nobody has acted on yet."""
        self.open: bool = True
        self.scheduled: bool = False
        """Whether the broker's Turns know that somebody here may go on."""
        self.guaranteed_bytes: i64 = NO_GUARANTEE
        """A queue whose bytes are no more than this, the new message included, passes even when the gate is closed."""
        self.frequent: bool = False
        """Whether it closes and opens as a matter of course (a rate): people look at it when they ask, and are not told
        each time."""
        self.waiters: list[tuple[i64, i64, Waiter]] = []
        """A heap by ticket and serial."""
        self.returning: list[tuple[i64, float, i64, Waiter]] = []
        """A heap of who has just passed and comes back at once: where it will stand, how long that is waited for."""
        self.closed_at_ticket: i64 = 0
        """The place of the turn that closed it: who stands no further on has not had a turn in that round."""
        self.finishing_round: bool = False
        """Set while one of those looks at its road: the round goes to its end, as far as there is room."""
        self.timer: TimerHandler | None = None
        """Lists the gate again when nobody is waited for any more."""
        self.blocked: dict[int, Waiter] = {}
        """Whom it blocks, by identity: those in its line, and those with confirmations withheld by it."""
        self.to_release: dict[int, Waiter] = {}
        """Those of them to whom its opening matters at once."""
        self.stats = GateStats()

    def __lt__(self, other: Gate) -> bool:
        return self.name < other.name  # Asked for equal places: a waiter has moved between two gates that are listed.

    def close(self, messages: i64, bytes: i64, now: float) -> None:
        """Close at this depth; a gate that is closed stays so."""
        if self.open:
            self.open = False
            self.stats.closed(now)
            self.transitions.append(GateTransition(self, True, messages, bytes, now))

    def reopen(self, messages: i64, bytes: i64, now: float) -> None:
        """Open at this depth; a gate that is open stays so. Who waits is not touched here: see Turns."""
        if not self.open:
            self.open = True
            self.stats.opened(now)
            self.transitions.append(GateTransition(self, False, messages, bytes, now))

    def review(self, now: float) -> None:
        """Let the owner judge its depth anew; a gate without one is moved by hand."""
        if self.owner is not None:
            self.owner.update_gate(now)

    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        """Return whether a message has room here; a gate without an owner admits while it is open."""
        return self.open if self.owner is None else self.owner.admits(charge, copies, now)

    def grows(self, messages: i64, bytes: i64) -> bool:
        """See `GateOwner.limits_increase`; a gate without an owner stops everybody."""
        return self.owner is None or self.owner.limits_increase(messages, bytes)

    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        """See `GateOwner.has_room`; a gate without an owner has room while it is open."""
        return self.open if self.owner is None else self.owner.has_room(messages, bytes, now)

    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        """See `GateOwner.could_ever_take`."""
        return self.owner is None or self.owner.could_ever_take(messages, bytes)

    def measure(self) -> Measure | None:
        """See `GateOwner.measure`."""
        return None if self.owner is None else self.owner.measure()

    def describe_overflow(self) -> str:
        """See `GateOwner.describe_overflow`."""
        return "" if self.owner is None else self.owner.describe_overflow()

    def describe_cause(self, now: float) -> str:
        """See `GateOwner.describe_cause`."""
        return "" if self.owner is None else self.owner.describe_cause(now)

    def describe_refusal(self) -> str:
        """See `GateOwner.describe_refusal`."""
        return f"{self.kind} '{self.name}' lets nothing pass" if self.owner is None else self.owner.describe_refusal()

    def passed(self, charge: i64, now: float) -> None:
        """Record that a message went past: a rate counts it."""
        if self.owner is not None:
            self.owner.passed(charge, now)

    def lets_pass(self, charge: i64, copies: i64, now: float) -> bool:
        """Return whether the message of the present turn may pass: open or finishing its round, with room for it."""
        return (self.open or self.finishing_round) and self.admits(charge, copies, now)

    def enter(self, waiter: Waiter) -> None:
        """Stand in this gate's line with the ticket that one has."""
        waiter.gate = self
        heapq.heappush(self.waiters, (waiter.ticket, waiter.serial, waiter))

    def first(self) -> Waiter:
        """Return whose turn it is; there must be somebody."""
        return self.waiters[0][2]

    def leave(self, waiter: Waiter) -> None:
        """Leave the line; the ticket stays with the waiter. Cheap for the oldest, linear for any other."""
        waiters = self.waiters
        if waiters and waiters[0][2] is waiter:
            heapq.heappop(waiters)
        else:
            kept = [entry for entry in waiters if entry[2] is not waiter]
            waiters[:] = kept
            heapq.heapify(waiters)
        waiter.gate = None

    def block(self, waiter: Waiter) -> None:
        """Count a party among those whom it blocks."""
        self.blocked[id(waiter)] = waiter

    def expect(self, waiter: Waiter) -> None:
        """Call this party's `release` when the gate opens: something of it is withheld, or it has nothing more here."""
        self.to_release[id(waiter)] = waiter

    def unblock(self, waiter: Waiter) -> None:
        """It blocks this party no more."""
        self.blocked.pop(id(waiter), None)
        self.to_release.pop(id(waiter), None)

    def forget(self, waiter: Waiter) -> None:
        """Forget a party that went away: nothing of it stays behind."""
        if waiter.gate is self:
            self.leave(waiter)
        self.unblock(waiter)

    def take_to_release(self, most: int) -> list[Waiter]:
        """Take those who are to be released, the longest waiting first and at most so many; each looks at its own road
        again and may come back.

        Those who only stand in line are not among them: their turns come one by one, so that an opening costs as much
        as it lets pass, however many wait.

        Taking first and notifying afterwards is what keeps a wake-up from being lost or doubled when a party that is
        released publishes onto the same gate again.
        """
        if len(self.to_release) <= most:
            woken = list(self.to_release.values())
            self.to_release.clear()
            return woken
        woken = list(islice(self.to_release.values(), most))
        for waiter in woken:
            del self.to_release[id(waiter)]
        return woken
