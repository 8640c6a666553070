"""Leases: ranges of queues, pinned for a batch read, that end after all messages were read, or at a time-out.

Theory of operation. A lease has its own cursor, which is in no list of cursors, is not stored, and settles nothing. On
a queue that a cursor can read it pins the messages of its range: messages that all cursors have settled leave the
queue, except pinned ones. Later messages are not pinned. On other queues (with consumers, or with overflow policy
drop-head) a lease pins nothing: messages that leave the queue meanwhile are not read. The answer names the case.

`lease.open` pins all present messages, in slices: each queue up to its end at that time. Thousands of queues come in
several requests; later ones have the lease and its token. `lease.narrow` then names the borders of the ranges to read,
in parts as well (`more`). Each fetched block restarts the time-out of its lease. The broker records the fetched parts
of a range; a part that is fetched twice counts once. When all parts were fetched, the lease is finished. A finished
lease ends after a grace period, in which the last block may be fetched again, and makes room for other leases at the
bound.

The number of a lease is short, for display, and begins with 1 at each start of the broker. The token of a lease is the
time of its opening, so that a reader from before a restart does not use a lease of another reader. A reader whose lease
has ended opens a lease for the rest of its range. The broker counts the messages of the range, so the reader learns
whether any is gone.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.connections.authorization import check_read_cursor
from penstock.connections.control_request import ControlRequest, Replies
from penstock.core.message import Message
from penstock.core.queue.cursor_state import CursorState, LeaseState, Position, pin
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed, ResourceError
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import IdleUnits, PoolHolder, PoolUnit
from penstock.flow.timers import NEVER, TimerHandler
from penstock.flow.work import Steps
from penstock.ranges.columns import left_out
from penstock.ranges.cursors import POSITIONS_MAX, Cursor, earliest_offset, named_queues
from penstock.settings.pools import LEASES
from penstock.texts import worded

TIMEOUT_MS: Final = 300_000
TIMEOUT_MS_MAX: Final = 3_600_000
"""Milliseconds without a block after which a lease ends: the default and the maximum."""
GRACE_S: Final = 5.0
"""Seconds without a block after which a finished lease ends, unless its own time-out is shorter."""
PARTS_MOST: Final = 1_000
"""Most separate parts of one range that are recorded as fetched; beyond, a lease ends by its time-out."""
QUEUES_AT_ONCE: Final = 20
"""Queues of a request between two checks of the share of work; a queue costs a unit."""
CLOCK_S: Final = 5.0
"""Seconds by which the clock of a broker that has taken over may differ."""


class FetchedParts:
    """The parts of a range (lo, hi] that were fetched, in order and without overlaps."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []
        self.is_full: bool = False
        """True if more parts were fetched than can be recorded: the range is never known to be complete."""

    def add(self, lo: int, hi: int) -> None:
        """Record a part."""
        if hi <= lo or self.is_full:
            return
        merged: list[tuple[int, int]] = []
        for first, last in self.parts:
            if last < lo or first > hi:
                merged.append((first, last))
            else:
                lo, hi = min(first, lo), max(last, hi)
        merged.append((lo, hi))
        merged.sort()
        self.parts = merged
        if len(merged) > PARTS_MOST:
            self.is_full = True
            self.parts = []

    def covers(self, lo: int, hi: int) -> bool:
        """Return whether all of a range was fetched."""
        if hi <= lo:
            return True
        for first, last in self.parts:
            if first <= lo and last >= hi:
                return True
        return False


class Lease(PoolUnit):
    """One lease, with its fetched parts."""

    def __init__(self, leases: Leases, state: LeaseState, cursor: Cursor, holder: PoolHolder, token: int) -> None:
        self.holder = holder
        self.state = state
        self.cursor = cursor
        self.token = token
        self.end = LeaseEnd(leases, self)
        self.fetched: dict[str, FetchedParts] = {}
        self.narrowed: set[str] = set()
        """Queues whose borders came in an earlier part of the request."""

    def is_finished(self) -> bool:
        """Return whether all messages of the lease were fetched."""
        for name, position in self.cursor.positions.items():
            parts = self.fetched.get(name)
            if position.planned > position.settled and (
                parts is None or not parts.covers(int(position.settled), int(position.planned))
            ):
                return False
        return True


class LeaseEnd(TimerHandler):
    """Timer for the end of an unused lease."""

    def __init__(self, leases: Leases, lease: Lease) -> None:
        super().__init__()
        self._leases = leases
        self._lease = lease

    @override
    def on_deadline(self, now: float) -> float:
        until = self._lease.state.until
        if now < until:
            return until
        self._leases.end(self._lease)
        return NEVER


class Leases:
    """Leases by number."""

    def __init__(self, control: Replies) -> None:
        self._control = control
        self._broker = control.broker
        self._pool = self._broker.pools.of(LEASES)
        self._idle = IdleUnits(self._pool)
        """Finished leases, which make room for others."""
        self._leases: dict[int, Lease] = {}
        self._count: int = 0

    def every(self) -> list[LeaseState]:
        """Return all leases, the oldest first."""
        return [lease.state for lease in self._leases.values()]

    # Requests

    def open(self, request: ControlRequest) -> dict[str, object] | None:
        """Pin the messages of queues, or of the queues that a cursor subscribes to; return the offsets of each.

        With `partial` queues that cannot be read are left out and listed in the answer. With `borders` the lease pins
        only these ranges, as `narrow`; `planned` is then the time of the first plan in microseconds since the epoch.
        With `lease` and `token` the queues join that lease of the same user.
        """
        return self._control.answer_in_slices(request, self._open_steps(request))

    def _open_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        borders = _borders(request)
        reader = self._reader(request) if request.fields.get("cursor") is not None else None
        refused: dict[str, object] = {}
        queues = yield from self._named_steps(request, reader, refused)
        lease = self._new(request) if request.fields.get("lease") is None else self._own(request)
        try:
            answer = yield from self._pin_steps(request, lease, queues, reader)
            if borders:
                self._check_planned(request, lease, borders)
                answer["rows"] = yield from self._narrow_steps(lease, borders, False)
        except BrokerError:
            if self._leases.get(lease.state.number) is lease:
                self.end(lease)
            raise
        answer["refused"] = refused
        return answer

    def _named_steps(
        self, request: ControlRequest, reader: CursorState | None, refused: dict[str, object]
    ) -> Steps[list[Queue]]:
        """Return the readable queues of a request; other queues are added to `refused`, or raise."""
        if request.fields.get("queues") is None and reader is not None:
            names = [name for name, position in reader.positions.items() if not position.left]
        else:
            names = request.names("queues", 0 if request.flag("partial") else 1)
        queues: list[Queue] = []
        for at in range(0, len(names), QUEUES_AT_ONCE):
            found, others = named_queues(request, names[at : at + QUEUES_AT_ONCE], _check_order)
            queues += found
            refused.update(others)
            if self._broker.work.spend(QUEUES_AT_ONCE):
                yield
        return queues

    def _pin_steps(
        self, request: ControlRequest, lease: Lease, queues: list[Queue], reader: CursorState | None
    ) -> Steps[dict[str, object]]:
        """Pin queues, and return the answer to the request. Raises as `lease.open`."""
        known = lease.cursor.positions
        if len(known) + len([queue for queue in queues if queue.name not in known]) > POSITIONS_MAX:
            raise ResourceError(
                f"lease {lease.state.number} would read more than {POSITIONS_MAX:,} queues, the most of a batch read: "
                "name fewer queues, or divide them over several reads"
            )
        self._touch(lease)
        offsets: dict[str, object] = {}
        columns: dict[str, object] = {}
        for index, queue in enumerate(queues):
            if queue.deleted:
                raise NotFound(f"queue '{queue.name}' was deleted while lease {lease.state.number} began; read again")
            if queue.name not in known:
                offsets[queue.name] = self._pin(lease.cursor, queue, reader)
                if request.flag("left_out"):
                    columns[queue.name] = left_out(_first_of(known[queue.name]), self._broker.formats)
            if self._is_slice_over(index):
                yield
                self._check_open(lease)
        self._touch(lease)
        answer: dict[str, object] = {"lease": lease.state.number, "token": lease.token, "queues": offsets}
        if request.flag("left_out"):
            answer["left_out"] = columns
        return answer

    def _is_slice_over(self, index: int) -> bool:
        """Count the work of the last queues of a request, by the index of a queue; return whether the slice is over."""
        return index % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1 and self._broker.work.spend(QUEUES_AT_ONCE)

    def _check_open(self, lease: Lease) -> None:
        """Raise NotFound (404) for a lease that has ended between two steps of a request."""
        if self._leases.get(lease.state.number) is not lease:
            raise NotFound(f"lease {lease.state.number} has ended, because somebody ended it; read again")

    def _own(self, request: ControlRequest) -> Lease:
        """Return the lease that queues join. Raises NotFound (404), AccessRefused (403)."""
        lease = self._lease(request)
        if lease.state.user != request.access.user or request.number("token") != lease.token:
            raise AccessRefused(
                f"lease {lease.state.number} belongs to user '{lease.state.user}', and queues join it only with its "
                "token; open another lease"
            )
        return lease

    def narrow(self, request: ControlRequest) -> dict[str, object] | None:
        """Pin only the ranges within `borders`, a list of sequences by queue; other queues are not read.

        The answer has the number of messages between each two borders; null if unknown, because messages are on the
        disk or left to consumers. With `more` the borders of other queues come in a later request.
        """
        return self._control.answer_in_slices(request, self._narrowed_steps(request))

    def _narrowed_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        borders = _borders(request)
        lease = self._lease(request)
        check_read_cursor(request.access, lease.cursor)
        for name, each in borders.items():
            position = lease.cursor.positions.get(name)
            if position is None:
                raise PreconditionFailed(f"lease {lease.state.number} does not read queue '{name}'")
            _check_within(lease, position, each[0], each[len(each) - 1])
        rows = yield from self._narrow_steps(lease, borders, request.flag("more"))
        return {"rows": rows}

    def _narrow_steps(self, lease: Lease, borders: dict[str, list[int]], more: bool) -> Steps[dict[str, object]]:
        """Pin the ranges within borders, and return the number of messages between each two.

        Queues without borders are released, unless `more` borders come in another request.
        """
        now = self._broker.now
        for index, (name, position) in enumerate(list(lease.cursor.positions.items())):
            if self._is_slice_over(index):
                yield
                self._check_open(lease)
            each = borders.get(name)
            if each is None and (more or name in lease.narrowed):
                continue
            if each is None or each[0] >= each[len(each) - 1]:
                position.left = True
                lease.cursor.release([name], now)
                self._offer(position)
                continue
            position.settled = each[0]
            position.planned = each[len(each) - 1]
            if lease.cursor in position.queue.cursors:
                pin(position.queue)
        rows: dict[str, object] = {}
        for index, (name, border) in enumerate(borders.items()):
            left = lease.cursor.positions.get(name)
            if left is None:
                continue
            while not left.reach(left.settled, UNLIMITED, left.planned):
                if self._broker.work.spend(1):
                    yield
            rows[name] = _counts(lease.cursor, left, border)
            if self._is_slice_over(index):
                yield
        if more:
            lease.narrowed.update(borders)
            self._touch(lease)
        elif self._leases.get(lease.state.number) is lease:
            self._finish(lease)
        return rows

    def close(self, request: ControlRequest) -> dict[str, object]:
        """End a lease; its reader may open another lease for the rest of its range, as far as messages are still
        there."""
        lease = self._lease(request)
        check_read_cursor(request.access, lease.cursor)
        self.end(lease)
        return {}

    # Blocks

    def cursor(self, request: ControlRequest) -> Cursor:
        """Return the cursor of a lease for a block. Raises NotFound (404), PreconditionFailed (406)."""
        lease = self._lease(request)
        position = lease.cursor.position(request.text("queue"))
        _check_within(lease, position, request.number("lo"), request.number("hi"))
        if not lease.state.query and request.fields.get("query") is not None:
            lease.state.query = request.text("query")
        self._touch(lease)
        return lease.cursor

    def fetched(self, request: ControlRequest, last: int) -> None:
        """Record that a block was fetched that has all messages of its range up to a sequence."""
        lease = self._lease(request)
        name = request.text("queue")
        parts = lease.fetched.get(name)
        if parts is None:
            parts = FetchedParts()
            lease.fetched[name] = parts
        parts.add(request.number("lo"), last)
        if request.connection is not None:
            lease.cursor.reader_name = request.connection.name()
        self._finish(lease)

    # Ends

    def end(self, lease: Lease) -> None:
        """End a lease: messages that only it pins leave their queues."""
        del self._leases[lease.state.number]
        self._idle.wake(lease)
        self._pool.give(lease.holder, 1)
        self._broker.timers.drop(lease.end)
        positions = list(lease.cursor.positions.values())
        lease.cursor.delete(self._broker.now)
        for position in positions:
            self._offer(position)

    def forget(self, vhost: VirtualHost) -> None:
        """End the leases of a virtual host that is being deleted."""
        for lease in list(self._leases.values()):
            if lease.state.vhost == vhost.name:
                self.end(lease)

    def _offer(self, position: Position) -> None:
        """Return a queue that a lease has left to its consumers, even a queue that was not pinned."""
        queue = position.queue
        if not queue.cursors and queue.ready_queue is position.shared:
            queue.ready_queue = position.shared.dissolve()
        if not queue.deleted:
            self._broker.schedule_delivery(queue)

    def _finish(self, lease: Lease) -> None:
        """Check whether a lease is finished, and begin its grace period."""
        if lease.is_finished() and not lease.state.finished:
            lease.state.finished = True
            self._idle.rest(lease)
        self._touch(lease)

    def _touch(self, lease: Lease) -> None:
        """Restart the time-out of a lease."""
        state = lease.state
        grace = min(GRACE_S, state.timeout_s) if state.finished else state.timeout_s
        state.until = self._broker.now + grace
        self._broker.timers.add(lease.end, state.until)

    # Helpers

    def _new(self, request: ControlRequest) -> Lease:
        """Return a new lease without queues. Raises ResourceError (506) at the limit."""
        timeout_ms = request.milliseconds("timeout_ms", TIMEOUT_MS)
        if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
            raise PreconditionFailed(f"'timeout_ms' must be from 1 to {TIMEOUT_MS_MAX}, not {timeout_ms}")
        timeout_s = timeout_ms / 1000
        query = request.text("query") if request.fields.get("query") is not None else ""
        holder = request.access.holder()
        while not self._pool.fits(holder, 1):
            spare = self._idle.oldest_of(holder) or self._idle.oldest_of_most()
            if not isinstance(spare, Lease):
                break
            self.end(spare)
        self._pool.require(holder, 1)
        self._count += 1
        now = self._broker.now
        state = LeaseState(self._count, request.vhost.name, request.access.user, request.asker(), timeout_s)
        state.opened = now
        state.query = query
        cursor = Cursor(request.vhost.name, f"lease {self._count} of {request.asker()}")
        cursor.lease = state
        cursor.user = request.access.user
        state.cursor = cursor
        lease = Lease(self, state, cursor, holder, int((now + self._broker.wall_offset) * 1_000_000))
        self._leases[self._count] = lease
        return lease

    def _reader(self, request: ControlRequest) -> CursorState:
        name = request.text("cursor")
        cursor = request.vhost.cursors.get(name)
        if cursor is None:
            raise NotFound(f"no cursor '{name}' in vhost '{request.vhost.name}'; leave it out to read what is there")
        return cursor

    def _lease(self, request: ControlRequest) -> Lease:
        number = request.number("lease")
        lease = self._leases.get(number)
        is_other = (
            lease is not None and request.fields.get("token") is not None and request.number("token") != lease.token
        )
        if lease is None or is_other or lease.state.vhost != request.vhost.name:
            raise NotFound(
                f"lease {number} has ended, because nothing was read under it for its time, somebody ended it, or the "
                "broker was restarted; open another one, with a longer leaseTimeout if that is too short"
            )
        return lease

    def _check_planned(self, request: ControlRequest, lease: Lease, borders: dict[str, list[int]]) -> None:
        """Check that a range is in the queue for which it was planned.

        Raises PreconditionFailed (406) if the queue ends before the range, or its messages have arrived after the plan:
        then the queue was deleted and declared again.
        """
        planned = request.amount("planned", 0)
        for name, each in borders.items():
            position = lease.cursor.positions.get(name)
            if position is None:
                raise PreconditionFailed(f"lease {lease.state.number} does not read queue '{name}'")
            lo, hi = each[0], each[len(each) - 1]
            tail = int(visible_tail(position.queue))
            first = _first_of(position, lo, hi)
            since = planned / 1_000_000 + CLOCK_S - self._broker.wall_offset
            if hi > tail or (planned and first and first[0].arrived > since):
                raise PreconditionFailed(
                    f"messages {lo + 1} to {hi} of queue '{name}' are gone: the queue was declared again after the "
                    "read was planned, or the broker has lost its last messages; read again"
                )

    def _pin(self, cursor: Cursor, queue: Queue, reader: CursorState | None) -> dict[str, object]:
        """Pin a queue if possible; return its offsets, and the reason if it is not pinned."""
        earliest, tail = earliest_offset(queue), visible_tail(queue)
        reason = ""
        if not queue.cursors:
            try:
                cursor.check_new(queue, {queue.name: "earliest"})
            except BrokerError as error:
                reason = str(error)
        position = Position(queue, earliest)
        position.planned = tail if tail > earliest else earliest
        cursor.positions[queue.name] = position
        if not reason:
            queue.cursors.append(cursor)
            pin(queue)
            if queue.consumers:
                reason = f"queue '{queue.name}' has {len(queue.consumers)} consumers, which go on"
        settled = None if reader is None else reader.positions.get(queue.name)
        return {
            "earliest": int(earliest),
            "tail": int(tail),
            "settled": None if settled is None or settled.queue is not queue else int(settled.settled),
            "unpinned": reason,
        }


def _first_of(position: Position, lo: int = 0, hi: int = int(UNLIMITED)) -> list[Message]:
    """Return the first message of a range that is in memory, or none."""
    return list(position.line.between(lo, hi, 1, UNLIMITED))


def _borders(request: ControlRequest) -> dict[str, list[int]]:
    """Return the field `borders`: two sequences or more by queue, in order. Raises PreconditionFailed (406)."""
    borders: dict[str, list[int]] = {}
    for name, value in request.table("borders").items():
        if not isinstance(value, list) or len(value) < 2:
            raise PreconditionFailed(f"'borders.{name}' must be a list of two sequences or more, not {worded(value)}")
        before = 0
        each: list[int] = []
        for number in value:
            if not isinstance(number, int) or isinstance(number, bool) or not before <= number < UNLIMITED:
                raise PreconditionFailed(f"'borders.{name}' must be sequences in order, and {worded(number)} is not")
            before = number
            each.append(number)
        borders[name] = each
    return borders


def _check_within(lease: Lease, position: Position, lo: int, hi: int) -> None:
    """Raise PreconditionFailed (406) for a range that a lease does not read."""
    if lo < position.settled or hi > position.planned:
        raise PreconditionFailed(
            f"lease {lease.state.number} reads ({position.settled}, {position.planned}] of queue "
            f"'{position.queue.name}', and ({lo}, {hi}] is not within it; open another lease for that range"
        )


def _counts(cursor: Cursor, position: Position, borders: list[int]) -> list[int | None]:
    """Return the number of messages between each two borders, by the index; None if unknown."""
    queue = position.queue
    known = cursor in queue.cursors and not queue.consumers
    pager = queue.pager
    sums: list[int | None] = []
    for border in borders:
        if known and (pager is None or pager.messages == 0 or border < pager.next):
            sums.append(int(position.line.count_through(border)[0]))
        else:
            sums.append(None)
    counts: list[int | None] = []
    for at in range(1, len(sums)):
        before, through = sums[at - 1], sums[at]
        counts.append(None if before is None or through is None else through - before)
    return counts


def _check_order(queue: Queue) -> None:
    if queue.features.max_priority:
        raise PreconditionFailed(
            f"queue '{queue.name}' has priorities, so its messages are not in the order of their sequences; "
            "consume or browse it"
        )
