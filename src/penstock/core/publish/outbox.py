"""Entries of an outbox, each of which passes its gate in one turn, and events of their wait."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.core.queue.queue import Queue
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate import Gate

REFUSED_AT_ONCE: Final = 500
"""Most held publishes of one publisher that are refused at once at their deadline; others follow within
milliseconds.
"""

QUEUES_OF_A_REFUSAL: Final = 4
"""Queues of a held publish whose counts of refusals cost as much as another refusal."""


class Held:
    """An entry of the outbox that passes in one turn: a publish, or a whole commit."""

    __slots__ = ("queues", "charge", "messages", "pending", "deadline", "since", "gate")

    def __init__(
        self, queues: list[Queue], charge: i64, messages: i64, pending: PendingConfirm | None, deadline: float
    ) -> None:
        self.queues = queues
        """Target queues. The route may change while the entry waits, but a publish keeps its queues."""
        self.charge: i64 = charge
        self.messages: i64 = messages
        """Number of publishes."""
        self.pending = pending
        """The confirm; None for a publish without one, even if its producer selects confirms later."""
        self.deadline = deadline
        self.since: float = 0.0
        """Time since which the entry is held (monotonic seconds)."""
        self.gate: Gate | None = None
        """The gate at which the wait began."""

    def messages_to(self, queue: Queue) -> i64:
        """Return the number of the entry's publishes to a queue."""
        return self.messages if queue in self.queues else 0

    def budgeted(self) -> i64:
        """Return the bytes of the hold budget that the entry uses."""
        return self.charge

    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        """Return the first gate that stops the entry in its turn; `own` are the producer's gates.

        A closed gate whose round is being finished (`finishing`) stops the entry only if there is no room.
        """
        raise NotImplementedError

    def on_road_changed(self) -> None:
        """Handle that queues have left the gate where the entry waits: its whole road is checked next."""

    def turn_gate(self) -> Gate | None:
        """Return the gate to wait at when no gate stops the entry; None if it need not wait."""
        raise NotImplementedError

    def admit(self) -> str:
        """Enqueue the messages and handle the confirm. Return the cause if they were refused; empty otherwise."""
        raise NotImplementedError

    def traced(self) -> Held:
        """Return the entry that a trace span of this wait describes.

        If the entry may later wait for another reason, this is a copy.
        """
        return self

    def closes_session(self) -> bool:
        """Return whether a refusal of the entry closes the session, because no confirm can report it."""
        return self.pending is None

    def is_awaited(self) -> bool:
        """Return whether the publisher waits for the outcome: a confirm, or the answer of a commit or block."""
        return self.pending is not None

    def return_to_publisher(self, own: list[Gate], now: float) -> None:
        """Return a mandatory publish that was refused at its deadline; no effect for other entries."""

    def follows(self, refused: Held) -> bool:
        """Return whether the entry is refused together with an earlier one whose deadline has passed; by default
        not.
        """
        return False

    def keeps(self) -> bool:
        """Return whether the entry is a commit whose unit of work stays open after a refusal at the deadline."""
        return False

    def reopen(self, refused: list[Held]) -> None:
        """Keep commits that were refused together for another attempt, in this order; this entry is the first."""

    def deadline_message(self, own: list[Gate], now: float) -> str:
        """Return the text of a refusal at the deadline, with the gate that stopped the entry."""
        raise NotImplementedError

    def deadline_reason(self, own: list[Gate], now: float) -> str:
        """Return the reason of a refusal at the deadline as a clause, without the target."""
        return self.deadline_message(own, now)


def due_at(outbox: deque[Held], now: float, most: int = REFUSED_AT_ONCE) -> list[Held]:
    """Return held publishes to refuse at a time: publishes whose deadline has passed, and entries that follow one.

    At most `most`, and the entries that follow the last one. Publishes to very many queues count for more, because each
    queue counts a refusal.
    """
    due: list[Held] = []
    weight: i64 = 0
    for held in outbox:
        follows = len(due) > 0 and held.follows(due[len(due) - 1])
        if weight >= most and not follows:
            break
        if follows or held.deadline <= now:
            weight += 1 + len(held.queues) // QUEUES_OF_A_REFUSAL
            due.append(held)
    return due


class HoldEvent:
    """Base class of events of waiting entries."""

    def __init__(self, now: float) -> None:
        self.now = now
        """Time of the event: monotonic seconds."""
