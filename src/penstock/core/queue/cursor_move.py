"""Moves of a cursor by the operator: forward over messages that it never reads, or back to what is still there.

A move forward settles what it passes over. A move back is possible as far as a slower cursor of the queue holds the
messages; what every cursor has settled is gone. All queues are checked before the first is changed. A move fences the
reader off, and is the beginning for a reader without a checkpoint.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.queue.arrival import visible_tail
from penstock.core.queue.cursor import Cursor, Position, settled_by, settled_by_all
from penstock.core.queue.cursor_lag import lag_after
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Steps, WorkMeter


class Move:
    """Move of a cursor on one queue; nothing is changed before `apply_moves`."""

    __slots__ = ("position", "start", "target", "messages", "bytes", "leaving")

    def __init__(self, position: Position, target: i64) -> None:
        self.position = position
        self.start: i64 = position.settled
        self.target: i64 = target
        self.messages: int | None = None
        """Messages that it passes over, or that are read again; None where they are on the disk and not counted."""
        self.bytes: int | None = None
        """Sum of their charges."""
        self.leaving: int | None = 0
        """Messages that leave the queue, because no other cursor needs them; None if they are not counted."""


def check_move(cursor: Cursor, queue: str, to: int | str) -> Move:
    """Return the move of a cursor to "earliest", "latest" or a sequence: everything up to it counts as settled.

    Raises NotFound (404) for a queue that it does not read, PreconditionFailed (406) for a sequence beyond the queue's
    end or before messages that are gone.
    """
    position = cursor.position(queue)
    tail = visible_tail(position.queue)
    earliest = settled_by_all(position.queue)
    if to == "earliest":
        return Move(position, earliest)
    if to == "latest":
        return Move(position, tail)
    if not isinstance(to, int):
        raise PreconditionFailed(
            f"cursor '{cursor.name}' can be moved to earliest, latest or a sequence of queue '{queue}', not to {to!r}"
        )
    if to > tail:
        raise PreconditionFailed(
            f"cursor '{cursor.name}' cannot be moved to {to}: queue '{queue}' ends at {tail}; latest is its end"
        )
    if to < earliest:
        raise PreconditionFailed(
            f"cursor '{cursor.name}' cannot be moved to {to}: the messages of queue '{queue}' up to {earliest} are "
            "gone, because every cursor has settled them; earliest is as far back as there are messages"
        )
    return Move(position, to)


def count_steps(cursor: Cursor, move: Move, work: WorkMeter) -> Steps[None]:
    """Count the messages of a move, in steps: new ones must come into the index first."""
    position, queue = move.position, move.position.queue
    low = move.start if move.start < move.target else move.target
    high = move.target if move.start < move.target else move.start
    if low == high:
        move.messages, move.bytes = 0, 0
        return
    while not cursor.reach(queue.name, low, UNLIMITED, high, work):
        yield
    before, after = lag_after(position, low, work), lag_after(position, high, work)
    if before is None or after is None:
        move.leaving = None
        return
    move.messages = int(before.messages - after.messages)
    move.bytes = int(before.bytes - after.bytes)
    others = [each for each in queue.cursors if each is not cursor]
    bound = settled_by(others, queue.name) if others else high
    if move.target < move.start or bound <= low:
        return
    left = lag_after(position, bound if bound < high else high, work)
    move.leaving = None if left is None else int(before.messages - left.messages)


def apply_moves(cursor: Cursor, moves: list[Move], now: float) -> None:
    """Move a cursor, and fence its reader off."""
    cursor.token += 1
    cursor.moved = True
    for move in moves:
        position = move.position
        if move.target > position.settled:
            cursor.settle(position.queue.name, move.target, now)
        position.settled = move.target
        position.planned = move.target
        position.initial = move.target
