"""Message audit: the number of messages that each queue should have in a store, compared with those found.

Theory of operation. The store records how many messages each queue has (`QueuePosition.messages`); the audit counts the
messages found. In an intact store the two are equal. If rows are damaged, the difference is the exact loss. If
settlements are damaged, settled messages may come back and hide a loss. Then, and for a queue whose position is lost,
there are only bounds: the number of messages in the damaged rows, where known.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.store.damage import STALE, Damage
from penstock.store.records import COMMITS, UNKNOWN, QueuePosition

LISTED: Final = 5
"""Most queues named in one sentence; the others are counted."""


class Loss(NamedTuple):
    """Loss of one queue's messages."""

    number: int
    """Number of the queue; 0 for queues of which only messages are left."""
    queue: str
    """Name of the queue for people."""
    least: int
    most: int
    """Least and most lost messages; `most` is UNKNOWN if there is no bound."""
    had: int
    """Number of messages before the damage; UNKNOWN if not recorded."""
    back: int
    """Number of settled messages that come back, beyond those that offset lost ones."""

    def __str__(self) -> str:
        """Return the loss as a clause."""
        clauses = [f"has lost {self._lost()}"] if self.most != 0 else []
        if self.back:
            clauses.append(f"gets {_counted(self.back)} back that had been settled")
        return f"{self.queue} {' and '.join(clauses)}"

    def _lost(self) -> str:
        of = "" if self.had == UNKNOWN else f" of {_counted(self.had)}"
        if self.most == UNKNOWN:
            return f"at least {_counted(self.least)}" if self.least else "an unknown number of messages"
        if self.least == self.most:
            return f"{self.least:,}{of}" if of else _counted(self.least)
        return f"at least {self.least:,} and at most {self.most:,}{of or ' messages'}"


class MessageAudit:
    """Expected and found messages of queues, by queue number."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """Names of declared queues, for people."""
        self.expected: dict[int, int] = {}
        """Numbers from positions; UNKNOWN for a store whose version lacks them."""
        self.found: dict[int, int] = {}
        self.strays: int = 0
        """Persistent messages found for queues without declaration and position."""

    def name(self, number: int, vhost: str, queue: str) -> None:
        """Record the declaration of a queue."""
        self.names[number] = f"queue '{queue}' in vhost '{vhost}'"

    def expect(self, number: int, messages: int) -> None:
        """Record the expected number of messages."""
        self.expected[number] = messages

    def find(self, number: int, messages: int) -> None:
        """Add messages found."""
        self.found[number] = self.found.get(number, 0) + messages

    def total(self) -> int:
        """Return the number of messages found in declared queues."""
        return sum(messages for number, messages in self.found.items() if number in self.names)

    def corrected(self, positions: list[QueuePosition]) -> list[QueuePosition]:
        """Return the positions that must be rewritten so that they match the messages found."""
        return [
            position._replace(messages=self.found.get(position.queue, 0))
            for position in positions
            if position.messages != self.found.get(position.queue, 0)
        ]

    def losses(self, damaged: list[Damage]) -> list[Loss]:
        """Return the losses of all queues that lost messages, or may have, through this damage."""
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
    """Return a clause about the lost messages by queue; queues beyond `LISTED` are counted."""
    if not losses:
        return "no message is lost"
    clauses = [str(loss) for loss in losses[:LISTED]]
    if len(losses) > LISTED:
        clauses.append(f"{len(losses) - LISTED:,} more of them have lost messages or get some back")
    return ", ".join(clauses)


class _LossEstimator:
    """Estimator of the loss of queues from the damage."""

    def __init__(self, damaged: list[Damage]) -> None:
        self._rows = [each for each in damaged if each.table == "rows"]
        self._tables = {each.table for each in damaged}
        stale = {each.table for each in damaged if each.why == STALE}
        self._is_mixed = "notes" in self._tables or "rows" in stale
        """True if settled messages may be among those found."""
        self._positions_current = "positions" not in stale
        """True if positions are up to date."""

    def queue(self, number: int, name: str | None, expected: int, found: int) -> Loss:
        """Estimate the loss of one queue; `name` is None if it has no declaration."""
        had = expected if self._positions_current else UNKNOWN
        if name is None:  # Messages without a queue reach no consumer.
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
        """Estimate the loss of messages whose queue is unknown; None if those queues were deleted."""
        if "things" not in self._tables or "positions" not in self._tables or not (found or self._rows):
            return None
        most = UNKNOWN if self._rows else found
        return Loss(0, "queues of which no declaration is left, if there were any,", 0, most, UNKNOWN, 0)

    def _held(self, number: int) -> int:
        """Return the most messages of a queue that the damaged rows held; UNKNOWN if one does not say."""
        held = 0
        for each in self._rows:
            if each.queue in (0, number):
                if each.messages == 0:
                    return UNKNOWN
                held += each.messages
        return held


def _counted(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
