"""Entries of an outbox: what passes in one turn when its gate lets it; and events of their wait."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.core.queue.queue import Queue
from penstock.flow.confirms import PendingConfirm
from penstock.flow.gate import Gate

REFUSED_AT_ONCE: Final = 500
"""Held publishes of one publisher that are refused at once at their deadline; the others follow within milliseconds."""

QUEUES_OF_A_REFUSAL: Final = 4
"""Queues of a held publish whose counts of refusals take as long as another refusal."""


class Held:
    """An entry of the outbox that passes in one turn: a publish, or a whole commit."""

    __slots__ = ("queues", "charge", "messages", "pending", "deadline", "since", "gate")

    def __init__(
        self, queues: list[Queue], charge: i64, messages: i64, pending: PendingConfirm | None, deadline: float
    ) -> None:
        self.queues = queues
        """Its queues. The route may change before it passes, but a publish keeps its queues."""
        self.charge: i64 = charge
        self.messages: i64 = messages
        """Number of publishes."""
        self.pending = pending
        """Its confirm; None for a publish without one, whatever its producer does now."""
        self.deadline = deadline
        self.since: float = 0.0
        """Time from which it has been held (monotonic seconds)."""
        self.gate: Gate | None = None
        """The gate at which its wait began."""

    def messages_to(self, queue: Queue) -> i64:
        """Return the number of its publishes to a queue."""
        return self.messages if queue in self.queues else 0

    def budgeted(self) -> i64:
        """Return the bytes of the hold budget that it takes."""
        return self.charge

    def first_closed_gate(self, own: list[Gate], now: float, finishing: Gate | None = None) -> Gate | None:
        """Return the first gate that stops it in its turn; `own` are its producer's gates.

        A closed gate whose round is being finished (`finishing`) stops it only if there is no room.
        """
        raise NotImplementedError

    def on_road_changed(self) -> None:
        """Handle that queues have left the gate where it waits: it looks at its whole road next."""

    def turn_gate(self) -> Gate | None:
        """Return the gate to wait at when no gate stops it; None: it need not wait."""
        raise NotImplementedError

    def admit(self) -> str:
        """Pass: enqueue the messages and handle the confirm. Return the cause if they were refused; empty if not."""
        raise NotImplementedError

    def traced(self) -> Held:
        """Return the entry that a trace span of this wait describes.

        If the entry later waits for something else, this is a copy.
        """
        return self

    def closes_session(self) -> bool:
        """Return whether its refusal closes the session, because no confirm can say it."""
        return self.pending is None

    def is_awaited(self) -> bool:
        """Return whether its publisher waits for its outcome: a confirm, or the answer of a commit or block."""
        return self.pending is not None

    def return_to_publisher(self, own: list[Gate], now: float) -> None:
        """Return a mandatory publish that was refused at its deadline; other entries do nothing."""

    def follows(self, refused: Held) -> bool:
        """Return whether it is refused together with an earlier entry at whose deadline; by default not."""
        return False

    def keeps(self) -> bool:
        """Return whether it is a commit whose unit of work stays open if it is refused at its deadline."""
        return False

    def reopen(self, refused: list[Held]) -> None:
        """Keep commits that were refused together for another attempt, in this order; it is the first of them."""

    def deadline_message(self, own: list[Gate], now: float) -> str:
        """Return the text of its refusal at the deadline, with the gate that stopped it."""
        raise NotImplementedError

    def deadline_reason(self, own: list[Gate], now: float) -> str:
        """Return the reason of its refusal at the deadline as a clause, without its target."""
        return self.deadline_message(own, now)


def due_at(outbox: deque[Held], now: float, most: int = REFUSED_AT_ONCE) -> list[Held]:
    """Return held publishes to refuse at a time: those whose deadline has passed, and those that follow one.

    After `most` of them come only those that follow the last one. Those for very many queues count for more, because
    each queue counts a refusal.
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
    """Base class of these events."""

    def __init__(self, now: float) -> None:
        self.now = now
        """Time of the event: monotonic seconds."""
