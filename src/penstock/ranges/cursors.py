"""Cursors: named read positions on queues, for readers that must be able to read again, and their moves.

Theory of operation. A cursor *plans* a range of a queue, reads it any number of times, and *settles* it when the
results are durable on the reader's side. A message leaves the queue only when every cursor of the queue has settled it.
So messages that were read and not settled count in the depth, and a slow reader blocks the producers. An offset S means
"everything up to S"; ranges are (lo, hi].

The initial offset is fixed once (Spark asks for it twice and must get the same answer). Each attach returns a new
fencing token; requests with an older token are refused from then on.

An attach names the queues of the subscription. Queues that are new to the cursor get a position; queues that are no
longer named keep their positions, and their messages, until they are released (decision 60). A queue declared again
after a deletion is another queue, and new to the cursor.

The ready messages of a queue with cursors have an index (see IndexedReadyQueue). Messages enter the index once, as far
as a cursor reads. So the cost of a plan or range depends neither on the lag of the cursor nor on gaps.

An operator moves a cursor forward over messages that it never reads, or back to messages that are still in the queue. A
move forward settles the messages in between. A move back is possible as far as a slower cursor of the queue holds the
messages; messages that every cursor has settled are gone. All queues are checked before the first is changed. A move
fences the reader, and sets the start for a reader without a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.connections.authorization import check_read_queue
from penstock.connections.control_request import ControlRequest
from penstock.core.journal.journal import Journal
from penstock.core.message import Message
from penstock.core.queue.cursor_state import (
    CursorState,
    Position,
    drop_settled,
    has_cursor,
    lag_after,
    passed_by_all,
    pin,
    settled_by,
    settled_by_all,
    trim_settled,
)
from penstock.core.queue.indexed_ready_queue import REACH_WORK
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.queue.shared_ready_queue import DropsWritten
from penstock.core.queue.urgency_classes import oldest_of
from penstock.errors import BrokerError, Fenced, NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Steps, WorkMeter
from penstock.texts import worded

POSITIONS_MAX: Final = 10_000
"""Most queues of one cursor, including queues that it has left."""
WHOLE: Final = ""
FIRST_PART: Final = "first"
NEXT_PART: Final = "next"
LAST_PART: Final = "last"
"""Parts of an attach whose names do not fit into one request."""


class Cursor(CursorState):
    """One application's durable read position."""

    # Attaching

    def check_attach(self, queues: list[Queue], starting: dict[str, int | str]) -> dict[str, int]:
        """Check an attach completely, and change nothing; return the initial offsets of queues new to the cursor.

        Raises as `attach` does.
        """
        initial = {queue.name: self.check_new(queue, starting) for queue in queues if not self.reads(queue)}
        stay = len(self.positions) - len(self.gone(queues, initial))
        if stay + len(initial) > POSITIONS_MAX:
            raise ResourceError(
                f"cursor '{self.name}' reads {stay} queues, and {len(initial)} more would be beyond {POSITIONS_MAX}, "
                "the most that a cursor may have; take another cursor"
            )
        return initial

    def check_new(self, queue: Queue, starting: dict[str, int | str]) -> int:
        """Return the initial offset of a queue that is new to the cursor, and change nothing; raises as `attach`."""
        _check_readable(queue, self.name)
        return int(_initial(queue, starting[queue.name]))

    def attach(
        self,
        queues: list[Queue],
        starting: dict[str, int | str],
        now: float,
        holder: bool = False,
        part: str = WHOLE,
    ) -> bool:
        """Attach to the cursor; return whether the cursor is new. A refused attach changes nothing.

        `starting` has "earliest", "latest" or a sequence for each queue: the start if the queue is new to the cursor.
        Other queues of the cursor are left: the cursor keeps its positions on them, unless they were deleted. `holder`:
        the present holder changes its subscription, and keeps its token. `part`: after the first part queues join the
        subscription, and no queue is left.

        Raises ResourceLocked (405) if a queue has ordinary consumers. Raises PreconditionFailed (406) if the queue may
        drop messages that a cursor has not read, or cannot be read from the start; ResourceError (506) for too many
        queues.
        """
        initial = self.check_attach(queues, starting)
        created = not self.positions
        named = {queue.name for queue in queues}
        gone = self.gone(queues, initial)
        joins = part in (NEXT_PART, LAST_PART)
        for name in gone:
            self._leave(self.positions[name], now)
        for name, position in self.positions.items():
            if name in named:
                position.left = False
            elif not joins:
                position.left = True
        self.lost += len(gone)
        for queue in queues:
            if queue.name in initial:
                position = Position(queue, initial[queue.name])
                position.generation = self.lost
                self.positions[queue.name] = position
                queue.cursors.append(self)
        if not holder:
            self.token += 1
            self.moved = False
        self.touched = now
        for position in self.positions.values():
            if not joins or position.queue.name in named:
                trim_settled(position.queue, now)
        return created

    def gone(self, queues: list[Queue], initial: dict[str, int]) -> list[str]:
        """Return the queues whose positions an attach would drop: deleted queues that were left, or declared again and
        so new to the cursor."""
        named = {queue.name for queue in queues}
        return [
            name
            for name, position in self.positions.items()
            if name in initial or (name not in named and position.queue.deleted)
        ]

    def reads(self, queue: Queue) -> bool:
        """Return whether the cursor has a position on this queue, not on an earlier queue of that name."""
        position = self.positions.get(queue.name)
        return position is not None and position.queue is queue

    def release(self, names: list[str], now: float) -> None:
        """Release positions on queues that the cursor has left; these queues return to ordinary use, or to other
        cursors.

        Raises PreconditionFailed (406), and releases none, for a queue of the subscription; NotFound (404) for a queue
        without a position.
        """
        for name in names:
            position = self.positions.get(name)
            if position is None:
                raise NotFound(f"cursor '{self.name}' does not read queue '{name}'")
            if not position.left:
                raise PreconditionFailed(
                    f"cursor '{self.name}' still subscribes to queue '{name}'; attach it without that queue first"
                )
        for name in names:
            self._leave(self.positions[name], now)

    def _leave(self, position: Position, now: float) -> None:
        """Remove a position; messages that only this cursor had not settled stay in the queue."""
        queue = position.queue
        if self in queue.cursors:
            if self.lease is None:
                drop_settled(queue, UNLIMITED, now)
            queue.cursors.remove(self)
            if self.lease is not None:
                pin(queue)
            if not queue.cursors:
                drop_settled(queue, UNLIMITED, now)
                queue.ready_queue = position.shared.dissolve()
            elif has_cursor(queue):
                trim_settled(queue, now)
            else:
                position.shared.release_acquired()
        del self.positions[queue.name]

    def resume(self, token: int, positions: list[Position]) -> None:
        """Restore the positions from before a restart; missing queues are treated as deleted."""
        self.token = token
        for position in positions:
            self.positions[position.queue.name] = position
            if not position.queue.deleted:
                position.queue.cursors.append(self)

    def check(self, token: int, now: float) -> None:
        """Raise Fenced (409) unless this is the token of the last attach."""
        if token != self.token:
            if self.moved:
                raise Fenced(f"cursor '{self.name}' was moved by an operator; attach again to go on from there")
            raise Fenced(
                f"cursor '{self.name}' was taken over by a newer attach (token {self.token}, yours is {token}); "
                "only one query at a time may use a cursor"
            )
        self.touched = now

    def position(self, queue: str) -> Position:
        """Return the cursor's position on a queue.

        Raises NotFound (404) for a deleted queue, or one that the cursor does not read.
        """
        position = self.positions.get(queue)
        if position is None:
            raise NotFound(f"cursor '{self.name}' does not read queue '{queue}'")
        if position.queue.deleted:
            raise NotFound(f"queue '{queue}', which cursor '{self.name}' reads, was deleted")
        return position

    # Reading

    def plan(self, queue: str, start: i64, rows: i64, bytes: i64, upto: i64) -> tuple[i64, i64, i64]:
        """Plan a range after `start`; return its end, and its number of rows and bytes (charges).

        At least one message is planned if there is any, even a message larger than `bytes`. Raises PreconditionFailed
        (406) if messages after `start` have been settled and dropped.
        """
        position = self.begin_plan(queue, start)
        end, count, size = position.line.extent(start, rows, bytes, upto)
        position.plan_to(end)
        return end, count, size

    def begin_plan(self, queue: str, start: i64) -> Position:
        """Return the position for a plan after `start`; raises as `plan`, which ends with the messages in memory."""
        position = self.position(queue)
        self.check_retained(position, start)
        if start < position.settled:
            raise PreconditionFailed(
                f"cursor '{self.name}' has settled queue '{queue}' up to {position.settled}; "
                f"the messages {start + 1} to {position.settled} are gone"
            )
        return position

    def check_retained(self, position: Position, start: i64) -> None:
        """Raise PreconditionFailed (406) if retention has dropped messages of a stream after `start`."""
        queue = position.queue
        if not queue.features.type.retains or queue.pager is None or start + 1 >= queue.pager.next:
            return
        raise PreconditionFailed(
            f"queue '{queue.name}' is a stream, and its messages {int(start) + 1} to {int(queue.pager.next) - 1} were "
            f"dropped before cursor '{self.name}' had read them; move the cursor to earliest, and retain more"
        )

    def read(self, queue: str, lo: i64, hi: i64, rows: i64, bytes: i64) -> list[Message]:
        """Return the first messages of (lo, hi], within rows and bytes but at least one; the queue keeps them."""
        position = self.position(queue)
        self.check_retained(position, lo)
        if lo < position.settled:
            raise PreconditionFailed(
                f"cursor '{self.name}' has settled queue '{queue}' up to {position.settled}; "
                f"the range ({lo}, {hi}] cannot be read again"
            )
        return position.line.between(lo, hi, rows, bytes)

    def reach(self, queue: str, start: i64, rows: i64, upto: i64, work: WorkMeter) -> bool:
        """Prepare a plan or a range of so many rows after `start`: put its messages into the index.

        Returns False if the share of work is used up first. Without this call a plan or range indexes the messages
        itself.
        """
        position = self.position(queue)
        while not position.reach(start, rows, upto):
            if work.spend(REACH_WORK):
                return False
        return True

    # Settling

    def settle(self, queue: str, end: i64, now: float) -> i64:
        """Settle everything up to and including `end`; idempotent and monotone. Returns the settled position."""
        position = self.position(queue)
        if end > position.queue.tail:
            raise PreconditionFailed(
                f"queue '{queue}' ends at {position.queue.tail}; cursor '{self.name}' cannot settle {end}"
            )
        if end > position.settled:
            if self.room is not None:
                _, count, size = position.line.extent(position.settled, UNLIMITED, UNLIMITED, end)
                self.room.give_back(count, size)
            position.settled = end
            if position.planned < end:
                position.planned = end
            trim_settled(position.queue, now)
        return position.settled

    def delete(self, now: float) -> None:
        """Detach from all queues, which return to ordinary use (or to other cursors)."""
        for position in list(self.positions.values()):
            self._leave(position, now)
        self.token += 1


def _check_readable(queue: Queue, cursor: str) -> None:
    if queue.features.type.retains:
        return  # Consumers and cursors of a stream do not take from each other.
    bar = "" if queue.rotation is None else queue.rotation.bar_to_cursors()
    if bar:
        raise ResourceLocked(f"queue '{queue.name}' has {bar}; cursor '{cursor}' cannot read it meanwhile")
    if queue.returning is not None:
        raise ResourceLocked(
            f"queue '{queue.name}' has unacknowledged messages that are being requeued; cursor '{cursor}' can attach "
            "when they are back"
        )
    if queue.pager is not None and (queue.consumers or queue.unacked_messages):
        raise ResourceLocked(
            f"queue '{queue.name}' pages, and has {len(queue.consumers)} consumers and {queue.unacked_messages} "
            f"unacknowledged messages; cursor '{cursor}' can only read a paging queue that nobody consumes from"
        )
    if queue.features.max_priority:
        raise PreconditionFailed(
            f"queue '{queue.name}' has priorities, and cursor '{cursor}' reads messages in the order they came; "
            "use a queue without x-max-priority"
        )
    ring = queue.dropping()
    if ring is not None:
        raise PreconditionFailed(
            f"queue '{queue.name}' has the overflow policy {ring.name} and would drop "
            f"what cursor '{cursor}' has not read; "
            "use block or reject"
        )


def _initial(queue: Queue, starting: int | str) -> i64:
    """Return the start of a new cursor. Raises PreconditionFailed (406) for a sequence that the queue does not have."""
    earliest = earliest_offset(queue)
    if starting == "earliest":
        return earliest
    latest = visible_tail(queue)
    if starting == "latest":
        return latest
    if not isinstance(starting, int) or starting < earliest or starting > latest:
        raise PreconditionFailed(
            f"queue '{queue.name}' has the offsets {earliest} to {latest}; it cannot be read from {starting}: "
            "begin at one of these, earliest or latest"
        )
    return starting


def earliest_offset(queue: Queue) -> i64:
    """Return the offset before the oldest message that no cursor has settled; 0 if consumers may return older
    messages."""
    if queue.features.type.retains and queue.pager is not None:
        return queue.pager.next - 1
    if not queue.cursors and queue.unacked_messages > 0:
        return 0
    oldest = oldest_of(queue.ready_queue)
    earliest = queue.tail if oldest is None else oldest.sequence - 1
    if oldest is None and queue.pager is not None and queue.pager.messages > 0:
        earliest = queue.pager.next - 1
    passed = passed_by_all(queue)
    return passed if passed > earliest else earliest


def watch_drops(position: Position, journal: Journal) -> None:
    """Drop the gaps of a queue once the open group has been written.

    By then the dropped messages have left the store.
    """
    shared = position.shared
    if shared.gaps:
        dropped = shared.settled_end(settled_by_all(position.queue))
        if dropped > shared.dropped:
            journal.open.listeners.append(DropsWritten(shared, dropped))


class Move:
    """Move of a cursor on one queue; nothing is changed before `apply_moves`."""

    __slots__ = ("position", "start", "target", "messages", "bytes", "leaving")

    def __init__(self, position: Position, target: i64) -> None:
        self.position = position
        self.start: i64 = position.settled
        self.target: i64 = target
        self.messages: int | None = None
        """Messages that the move skips or makes readable again; None if they are on the disk and not counted."""
        self.bytes: int | None = None
        """Sum of the charges of these messages."""
        self.leaving: int | None = 0
        """Messages that leave the queue, because no other cursor needs them; None if not counted."""


def check_move(cursor: Cursor, queue: str, to: int | str) -> Move:
    """Return the move of a cursor to "earliest", "latest" or a sequence: earlier messages, and the sequence itself,
    count as settled.

    Raises NotFound (404) for a queue that the cursor does not read, PreconditionFailed (406) for a sequence beyond the
    queue's end or before messages that are gone.
    """
    position = cursor.position(queue)
    tail = visible_tail(position.queue)
    earliest = settled_by_all(position.queue)
    if position.queue.features.type.retains:
        earliest = earliest_offset(position.queue)
    if to == "earliest":
        return Move(position, earliest)
    if to == "latest":
        return Move(position, tail)
    if not isinstance(to, int):
        raise PreconditionFailed(
            f"cursor '{cursor.name}' can be moved to earliest, latest or a sequence of queue '{queue}', "
            f"not to {worded(to)}"
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
    """Count the messages of a move, in steps: new messages must enter the index first."""
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
    others = [each for each in queue.cursors if each is not cursor and each.lease is None]
    bound = settled_by(others, queue.name) if others else high
    if move.target < move.start or bound <= low:
        return
    left = lag_after(position, bound if bound < high else high, work)
    move.leaving = None if left is None else int(before.messages - left.messages)


def apply_moves(cursor: Cursor, moves: list[Move], now: float) -> None:
    """Move a cursor, and fence its reader."""
    cursor.token += 1
    cursor.moved = True
    for move in moves:
        position = move.position
        if move.target > position.settled:
            cursor.settle(position.queue.name, move.target, now)
        position.settled = move.target
        position.planned = move.target
        position.initial = move.target


def named_queues(
    request: ControlRequest, names: list[str], check: Callable[[Queue], None]
) -> tuple[list[Queue], dict[str, object]]:
    """Return the queues of these names that may be read and pass a check.

    Other queues are refused, or returned with the reason if the request has `partial`.
    """
    queues: list[Queue] = []
    refused: dict[str, object] = {}
    for name in names:
        try:
            check_read_queue(request.access, name)
            queue = request.vhost.queue(name, request.connection)
            check(queue)
            queues.append(queue)
        except BrokerError as error:
            if not request.flag("partial"):
                raise
            refused[name] = str(error)
    return queues, refused
