"""Rings of waiting dead letters: each waits for a queue that another of them leaves.

Theory of operation. Two full queues that dead-letter to each other would wait for ever, because letters count in their
source until the target has accepted them. Letters of such a ring need no new room: they leave all their queues, and
then enter all their targets, in one step. No queue exceeds its capacity, and no sum (virtual host, node) exceeds its
own.

A ring begins with a letter that waits. Its target must have room once enough letters have left it: the first letters of
the target's own line, in their order. These have targets in turn, and so on, until every queue has room, or a queue has
no further letter. A queue whose gate is closed, or that has waiters, accepts letters only if letters leave it, so its
waiters lose no room.

A letter grows by the headers of its death. If only this growth has no room, the letter keeps the charge of its message;
otherwise a ring of queues that are full by bytes would stand still. The uncounted headers are bounded (GROWTH_MAX).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.publish.context import PublishContext
from penstock.core.publish.dead_letters import LETTER_UNITS, DeadLetter, DeadLetterPublisher, publisher_of
from penstock.core.publish.waiting_publisher import end_hold
from penstock.core.queue.overflow.policy import ACCEPT
from penstock.core.queue.queue import Queue
from penstock.flow.gate import Gate

RING_MAX: Final = 256
"""Most letters of one ring."""


class _Change:
    """The change of one queue by the letters of a ring."""

    __slots__ = ("queue", "leaving", "entering", "bytes", "ungrown_bytes", "keeps")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.leaving: i64 = 0
        self.entering: i64 = 0
        """Letters that leave the queue, and letters that enter it."""
        self.bytes: i64 = 0
        self.ungrown_bytes: i64 = 0
        """Bytes of growth: with the letters' own charges, and with the charges of their messages."""
        self.keeps: bool = False
        """True if letters must keep the charge of their message, because only their growth has no room."""

    def has_room(self) -> bool:
        """Return whether the queue has room after the change; decides whether letters keep their charge."""
        queue = self.queue
        gate = queue.gate
        if queue.deleted or self.entering == 0:
            return True
        if self.leaving == 0 and (not gate.open or gate.has_line()):
            return False
        more = self.entering - self.leaving
        if queue.covers(more, self.bytes) or (more <= 0 and self.bytes <= 0):
            return True
        if queue.covers(more, self.ungrown_bytes) or (more <= 0 and self.ungrown_bytes <= 0):
            self.keeps = True
            return True
        return queue.overflow.drops and queue.verdict(1, self.bytes, self.bytes) == ACCEPT


class _Sum:
    """The change of a sum over queues."""

    __slots__ = ("gate", "messages", "bytes")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.messages: i64 = 0
        self.bytes: i64 = 0

    def has_room(self, now: float) -> bool:
        """Return whether the sum has room for the change; always true if it does not grow."""
        if self.messages <= 0 and self.bytes <= 0:
            return True
        return self.gate.has_room(self.messages, self.bytes, now)


class LetterRing:
    """Waiting letters that leave their queues, and enter their targets, in one step."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._letters: list[DeadLetter] = []
        self._changes: dict[int, _Change] = {}
        """Changes by the identity of their queue."""
        self._taken: dict[DeadLetterPublisher, i64] = {}
        """Number of letters taken from each publisher: the first letters of its outbox."""
        self._open: list[_Change] = []
        """Changes of queues that may lack room."""

    def close(self, first: DeadLetterPublisher) -> bool:
        """Find a ring with the first letter of a publisher; returns whether there is one."""
        if not self._take_next(first):
            return False
        while self._open:
            change = self._open.pop()
            while not change.has_room():
                letters = publisher_of(change.queue)
                if letters is None or len(self._letters) >= RING_MAX or not self._take_next(letters):
                    return False
        if len(self._letters) == 1:
            return False  # The letter needs no other letter to leave: it passes in its turn.
        return self._fits_sums(False) or self._fits_sums(True)

    def cost(self, turned: bool) -> i64:
        """Return the units of work of the search, and of the turn if a ring is turned."""
        count: i64 = len(self._letters)
        return count * LETTER_UNITS if turned else count + 1

    def turn(self, broker: PublishContext) -> None:
        """Move all letters of the ring."""
        now = self._now
        for letter in self._letters:
            letter.sender.pop_held()
            broker.turns.totals.holds.count(now - letter.since)
            if self._keeps(letter):
                letter.charge = letter.ungrown_charge()
        for change in self._changes.values():
            change.queue.recheck_on_settle = False  # Gates see only the amounts after the whole change.
        for letter in self._letters:
            letter.leave()
        for letter in self._letters:
            cause = letter.enter(letter.targets(), True)
            if broker.hold_events is not None:
                end_hold(letter.sender, letter, cause)
        for change in self._changes.values():
            change.queue.update_gate(now)
        broker.apply_gate_transitions()
        for letters in self._taken:
            letters.rejoin_line(now)
            letters.after_release(now)

    def _take_next(self, letters: DeadLetterPublisher) -> bool:
        """Add the next waiting letter of a publisher; returns False if there is none, or its address has no room."""
        taken = self._taken.get(letters, 0)
        if taken >= len(letters.outbox) or letters.closing is not None:
            return False
        letter = letters.outbox[int(taken)]
        if not isinstance(letter, DeadLetter) or not letter.targets() or not self._may_enter(letter):
            return False
        self._taken[letters] = taken + 1
        self._letters.append(letter)
        charge = letter.death.message.charge
        source = self._change(letters.queue)
        source.leaving += 1
        source.bytes -= charge
        source.ungrown_bytes -= charge
        kept = letter.ungrown_charge()
        for queue in letter.targets():
            change = self._change(queue)
            change.entering += 1
            change.bytes += letter.charge
            change.ungrown_bytes += kept
            self._open.append(change)
        return True

    def _may_enter(self, letter: DeadLetter) -> bool:
        """Return whether only the room of queues and sums stops a letter."""
        share = letter.death.message.share
        for gate in letter.route.gates:
            counted = share is not None and share.depth.gate is gate
            if not counted and not (gate.open and gate.admits(letter.charge, 1, self._now)):
                return False
        for queue in letter.targets():
            if not queue.takes_envelope(letter.route.envelope, letter.charge):
                return False
            length = queue.length
            if length is not None:
                entering = self._change(queue).entering + 1
                if not length.takes(entering, length.body_bytes(letter.content), self._now):
                    return False
        return True

    def _change(self, queue: Queue) -> _Change:
        change = self._changes.get(id(queue))
        if change is None:
            change = _Change(queue)
            self._changes[id(queue)] = change
        return change

    def _keeps(self, letter: DeadLetter) -> bool:
        for queue in letter.targets():
            if self._change(queue).keeps:
                return True
        return False

    def _fits_sums(self, kept: bool) -> bool:
        """Return whether the sums have room, and no operator stops a target. `kept`: letters keep their charge."""
        sums: dict[int, _Sum] = {}
        for letter in self._letters:
            keeps = kept or self._keeps(letter)
            charge = letter.ungrown_charge() if keeps else letter.charge
            for queue in letter.targets():
                pools = [pool.gate for pool in queue.membership.pools]
                for gate in queue.gates:
                    if gate in pools:
                        _add(sums, gate, 1, charge)
                    elif gate is not queue.gate and not gate.open:
                        return False
                if kept:
                    self._change(queue).keeps = True
        for letter in self._letters:
            for gate in letter.sender.queue.gates:
                if id(gate) in sums:
                    _add(sums, gate, -1, -letter.death.message.charge)
        for each in sums.values():
            if not each.has_room(self._now):
                return False
        return True


def _add(sums: dict[int, _Sum], gate: Gate, messages: i64, bytes: i64) -> None:
    found = sums.get(id(gate))
    if found is None:
        found = _Sum(gate)
        sums[id(gate)] = found
    found.messages += messages
    found.bytes += bytes
