"""How many messages each queue should have in a store, and how many it has: what damage cost.

Theory of operation. The store says of each queue how many of its messages are there (`QueuePosition.messages`); what is
found of them is counted. While nothing is damaged the two are equal. Where rows are, what is missing is lost, exactly;
unless what was settled may be there again, for that makes up for what is lost. Then, and where a queue's position
itself is gone, there are bounds only: what the damaged rows held, where they still say so.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.store.records import COMMITS, UNKNOWN, QueuePosition
from penstock.store.store import STALE, Damage

LISTED: Final = 5
"""Queues that are named in one sentence; the others are counted."""


class Loss(NamedTuple):
    """What became of one queue's messages."""

    number: int
    """The queue's; 0: queues of which nothing but messages is left."""
    queue: str
    """Which it is, in words."""
    least: int
    most: int
    """How many are lost; `most` is UNKNOWN where nobody can say."""
    had: int
    """How many it had; UNKNOWN where nobody can say."""
    back: int
    """How many come back that had been settled, beyond those that make up for what is lost."""

    def __str__(self) -> str:
        """Return it as a clause."""
        told = [f"has lost {self._lost()}"] if self.most != 0 else []
        if self.back:
            told.append(f"gets {_counted(self.back)} back that had been settled")
        return f"{self.queue} {' and '.join(told)}"

    def _lost(self) -> str:
        of = "" if self.had == UNKNOWN else f" of {_counted(self.had)}"
        if self.most == UNKNOWN:
            return f"at least {_counted(self.least)}" if self.least else "messages, and nobody can say how many"
        if self.least == self.most:
            return f"{self.least:,}{of}" if of else _counted(self.least)
        return f"at least {self.least:,} and at most {self.most:,}{of or ' messages'}"


class MessageAudit:
    """What queues should have and do have, by their numbers."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """Queues that are declared, in words."""
        self.expected: dict[int, int] = {}
        """What positions say; UNKNOWN where a store is of a form that does not say it."""
        self.found: dict[int, int] = {}
        self.strays: int = 0
        """Persistent messages that were found of queues that are not declared and have no position."""

    def name(self, number: int, vhost: str, queue: str) -> None:
        """There is a declaration of this queue."""
        self.names[number] = f"queue '{queue}' in vhost '{vhost}'"

    def expect(self, number: int, messages: int) -> None:
        """It should have so many messages."""
        self.expected[number] = messages

    def find(self, number: int, messages: int) -> None:
        """So many are there, besides those found before."""
        self.found[number] = self.found.get(number, 0) + messages

    def total(self) -> int:
        """Return how many messages are there of queues that are declared."""
        return sum(messages for number, messages in self.found.items() if number in self.names)

    def corrected(self, positions: list[QueuePosition]) -> list[QueuePosition]:
        """Return what is to be written of these positions for the store to say what was found."""
        return [
            position._replace(messages=self.found.get(position.queue, 0))
            for position in positions
            if position.messages != self.found.get(position.queue, 0)
        ]

    def losses(self, damaged: list[Damage]) -> list[Loss]:
        """Return what became of the messages of each queue that lost any, or may have, by all this damage."""
        judge = _LossEstimator(damaged)
        found: list[Loss] = []
        for number in sorted({*self.names, *self.expected}):
            name, had = self.names.get(number), self.expected.get(number, UNKNOWN)
            loss = judge.queue(number, name, had, self.found.get(number, 0))
            if loss.most != 0 or loss.back != 0:
                found.append(loss)
        strays = judge.strays(self.strays)
        found += [] if strays is None else [strays]
        return found + [
            Loss(0, "the end of the log, of whatever queues,", 0, each.messages, UNKNOWN, 0)
            for each in damaged
            if each.table == COMMITS and each.messages
        ]


def summed_up(losses: list[Loss]) -> str:
    """Return in one clause what was lost of which queues; those beyond `LISTED` are counted."""
    if not losses:
        return "no message is lost"
    told = [str(loss) for loss in losses[:LISTED]]
    if len(losses) > LISTED:
        told.append(f"{len(losses) - LISTED:,} more of them have lost messages or get some back")
    return ", ".join(told)


class _LossEstimator:
    """Judges queues by what is damaged."""

    def __init__(self, damaged: list[Damage]) -> None:
        self._rows = [each for each in damaged if each.table == "rows"]
        self._tables = {each.table for each in damaged}
        stale = {each.table for each in damaged if each.why == STALE}
        self._is_mixed = "notes" in self._tables or "rows" in stale
        """Whether what was settled may be among what is found."""
        self._is_told = "positions" not in stale
        """Whether positions say what is true now."""

    def queue(self, number: int, name: str | None, expected: int, found: int) -> Loss:
        """Judge one queue; `name` is None where it has no declaration any more."""
        had = expected if self._is_told else UNKNOWN
        if name is None:  # Nobody can have what is there of it.
            return Loss(number, f"a queue whose declaration is lost (number {number})", max(had, 0), had, had, 0)
        held = self._held(number)
        if had == UNKNOWN:
            return Loss(number, name, 0, held, UNKNOWN, 0)
        missing, back = max(had - found, 0), max(found - had, 0)
        if missing == 0 and not self._rows:
            return Loss(number, name, 0, 0, had, back)
        if not self._is_mixed:
            return Loss(number, name, missing, missing, had, back)
        most = had if held == UNKNOWN else min(held, had)
        return Loss(number, name, missing, max(most, missing), had, back)

    def strays(self, found: int) -> Loss | None:
        """Judge what was found of nobody knows which queues; None where these are queues that were deleted."""
        if "things" not in self._tables or "positions" not in self._tables or not (found or self._rows):
            return None
        most = UNKNOWN if self._rows else found
        return Loss(0, "queues of which no declaration is left, if there were any,", 0, most, UNKNOWN, 0)

    def _held(self, number: int) -> int:
        """Return how many messages of a queue the damaged rows held at most; UNKNOWN where one does not say."""
        held = 0
        for each in self._rows:
            if each.queue in (0, number):
                if each.messages == 0:
                    return UNKNOWN
                held += each.messages
        return held


def _counted(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
