"""Requests about cursors: attach, release, settle and delete, operators' requests, and the progress of queries.

A query's listener knows the batches, and the broker knows the cursors and the producers that wait for them.
`query.progress` combines the two in at most one record a second for each query that reads here.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import MONITORING, READ
from penstock.connections.authorization import check_read_cursor, check_read_queue
from penstock.connections.control_request import ControlRequest
from penstock.core.queue.cursor_state import CursorState, Position, QueryId
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.queue.retention import retention_of
from penstock.describe.queue import blocked_rows, cursor_row, in_use
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed, ResourceLocked
from penstock.flow.timers import NEVER
from penstock.flow.work import Steps
from penstock.ranges.cursor_table import CursorTable
from penstock.ranges.cursors import (
    FIRST_PART,
    LAST_PART,
    NEXT_PART,
    POSITIONS_MAX,
    WHOLE,
    Cursor,
    Move,
    apply_moves,
    check_move,
    count_steps,
    named_queues,
)

NAMES_AT_ONCE: Final = 1_000
NAMES_A_UNIT: Final = 20
"""Queues listed per unit of work, and between two checks of the share of work."""
QUERY_LETTERS: Final = 255
"""Most characters of a query's id."""
CURSORS_SHOWN: Final = 10
"""Most cursors of a query in an answer."""
COUNTS: Final = ("batch", "rows", "batch_ms")
"""Numbers from a query's listener that are copied into the record."""


class CursorRequests:
    """Requests about cursors by name."""

    def __init__(self, table: CursorTable) -> None:
        self._table = table
        self._broker = table.broker
        self._node = table.node

    def attach(self, request: ControlRequest) -> dict[str, object]:
        """Attach to a cursor, which is created if it does not exist; earlier holders are fenced.

        A cursor whose reader is connected is refused (405), unless the reader is the same query (`identity`) or
        connection, or with `takeover`. With `create` an existing cursor is refused (405), and the requester does not
        count as a reader. With `dry_run` nothing changes. The answer is the attach's, and names the present reader, or
        the limit that deleted the cursor (`ended`) if the broker still knows it. With `holder` the holder of `token`
        changes its subscription, and keeps its token. With `partial` refused queues are left out and listed in the
        answer. With `release` the positions on queues that the cursor has left are released. With `planned` the answer
        has the end of the furthest plan on each queue, and the `id` of the cursor: a later one of its name has another.

        Thousands of names come in several requests: `part` is first, next or last. The holder sends all parts after the
        first. Queues of later parts join the subscription. Only the answer to the last part has the left queues; for a
        dry run, all queues that this part does not name. Each answer has the number of `positions` on queues that still
        exist, and the `most` of a cursor.

        A cursor belongs to the user who attached last. Another user may attach if permitted to read all of its queues;
        other users are refused (403), because they would take over the cursor.
        """
        name = request.text("cursor")
        if not name:
            raise PreconditionFailed("a cursor needs a name")
        partial, holder = request.flag("partial"), request.flag("holder")
        part = _part(request, holder)
        names = request.names("queues", 0 if partial else 1)
        starting = request.starting("starting", names)
        if not holder and name in request.vhost.cursors:
            self._check_owner(self._table.find(request.vhost, name), request)
        cursor = self._table.held(request) if holder else self._to_attach(request, name)
        create = request.flag("create")
        if create and name in request.vhost.cursors:
            raise ResourceLocked(
                f"cursor '{name}' exists in vhost '{request.vhost.name}'; move it, or take another name"
            )

        def check(queue: Queue) -> None:
            if partial and not cursor.reads(queue):
                cursor.check_new(queue, starting)

        queues, refused = named_queues(request, names, check)
        cursors = request.vhost.cursors
        used = "" if holder else self._other_reader(cursor, request)
        if request.flag("dry_run"):
            new = cursor.check_attach(queues, starting)
            ended = "" if name in cursors else self._table.limits.reason(request.vhost.name, name)
            answer = {"created": name not in cursors, "ended": ended or None, "new": list(new), "refused": refused}
            held = {"text": used, "plans": int(cursor.counters.plans), "polling": cursor.polling} if used else None
            return {**answer, "held": held, **_positions(cursor, queues, new, part, True)}
        if used:
            raise ResourceLocked(used)
        created = cursor.attach(queues, starting, self._broker.now, holder, part)
        if request.flag("release") and part in (WHOLE, LAST_PART):
            cursor.release([each for each, position in cursor.positions.items() if position.left], self._broker.now)
        if name not in cursors:
            self._table.add(cursor)
        self._attached(cursor, queues, request)
        positions = _positions(cursor, queues, {}, part, False)
        if request.flag("planned"):
            positions |= _planned(cursor, queues)
        return {"token": cursor.token, "created": created, "refused": refused, **positions}

    def _attached(self, cursor: Cursor, queues: list[Queue], request: ControlRequest) -> None:
        """Record who reads through a cursor now, and persist its position."""
        if cursor.user != request.access.user:
            self._broker.pinned_rooms.assign(cursor, "")
            cursor.hand_over(request.access.user)
        if request.flag("planned") and not cursor.id and request.connection is not None:
            cursor.id = request.connection.services.make_name("")[1:]
        self._table.limits.attached(cursor.vhost, cursor.name)
        for queue in queues:
            self._table.limits.review(queue)
        if not request.flag("create"):
            self._table.set_reader(cursor, request)
        self._table.persist(cursor)
        self._table.answer_waiting(cursor)

    def _check_owner(self, cursor: Cursor, request: ControlRequest) -> None:
        """Check that a cursor belongs to the requester, or reads only queues that the requester may read."""
        if cursor.user != request.access.user:
            check_read_cursor(request.access, cursor)

    def _to_attach(self, request: ControlRequest, name: str) -> Cursor:
        return self._table.to_attach(request.vhost, name, request.access.holder())

    def _other_reader(self, cursor: Cursor, request: ControlRequest) -> str:
        """Describe the other reader of a cursor, as a sentence; empty if an attach takes nothing from another
        reader."""
        identity = request.fields.get("identity")
        number = 0 if request.connection is None else request.connection.number
        is_same = cursor.reader == number or (identity is not None and request.text("identity") == cursor.identity)
        used = "" if is_same or request.flag("takeover") else in_use(cursor, self._node)
        return used and (
            f"{used}; stop that query, or give this one another cursor, or set takeover=true, which ends the other one"
        )

    def release(self, request: ControlRequest) -> dict[str, object]:
        """Release positions of a cursor on queues that it has left."""
        cursor = self._table.of_reader(request)
        names = request.names("queues")
        for name in names:
            check_read_queue(request.access, name)
        queues = [position.queue for name, position in cursor.positions.items() if name in names]
        cursor.release(names, self._broker.now)
        self._table.offer(queues)
        self._table.persist(cursor)
        return {}

    def queues(self, request: ControlRequest) -> Steps[dict[str, object]]:
        """Return the names of the queues of a virtual host that a cursor could read, and the count of its changes.

        Each plan has the count as well: while the count stays the same, so do the names. Exclusive queues are left out,
        and queues that the requester may not read.
        """
        vhost = request.vhost
        epoch = int(vhost.epoch)
        names: list[object] = []
        access = request.access
        for queues in vhost.roll.parts(NAMES_AT_ONCE):
            part = [queue.name for queue in queues if queue.owner is None]
            names += [name for name in part if access.may(READ, name)]
            if self._broker.work.spend(NAMES_AT_ONCE // NAMES_A_UNIT):
                yield
        return {"queues": names, "epoch": epoch}

    def settle(self, request: ControlRequest) -> dict[str, object] | None:
        """Settle queues up to `end`: idempotent and monotone. Returns None if the answer comes later."""
        self._table.held(request)
        ends = request.offsets("end")
        for name in ends:
            check_read_queue(request.access, name)
        return self._table.control.answer_in_slices(request, self._settle_steps(request, ends))

    def _settle_steps(self, request: ControlRequest, ends: dict[str, int]) -> Steps[dict[str, object] | None]:
        while not self._table.reach_settle(self._table.held(request), ends):
            yield
        return {"settled": self._table.settle(self._table.held(request), ends)}

    def delete(self, request: ControlRequest) -> dict[str, object]:
        """Delete a cursor; its queues become ordinary queues again."""
        self._table.drop(self._readable(request))
        return {}

    def _readable(self, request: ControlRequest) -> Cursor:
        """Return a cursor whose queues the requester may read. Raises NotFound (404), AccessRefused (403)."""
        cursor = self._table.find(request.vhost, request.text("cursor"))
        check_read_cursor(request.access, cursor)
        return cursor

    # Operators

    def show(self, request: ControlRequest) -> Row:
        """Answer {cursor}: a cursor as in lists; with the tag monitoring also the producers that wait for it."""
        cursor = self._readable(request)
        row = cursor_row(cursor, self._node)
        if request.access.rules.has_tag(MONITORING):
            row["blocked_producers"] = blocked_rows(cursor, self._broker.now)
        return row

    def move(self, request: ControlRequest) -> Steps[dict[str, object]]:
        """Answer {cursor, to, queues, dry_run, force}: move a cursor, or with `dry_run` describe the move.

        `to` is "earliest", "latest", or an object of queue names and sequences. "earliest" and "latest" apply to
        `queues`, or to all queues of the cursor. Raises ResourceLocked (405) while a reader uses the cursor, unless
        `force`; NotFound (404), PreconditionFailed (406) as `check_move`. A refused move changes nothing.
        """
        cursor = self._readable(request)
        moves = _moves(cursor, request)
        for move in moves:
            yield from count_steps(cursor, move, self._broker.work)
        dry_run = request.flag("dry_run")
        if not dry_run:
            cursor = self._table.find(request.vhost, cursor.name)  # The cursor may have changed between the steps.
            used = "" if request.flag("force") else in_use(cursor, self._node)
            if used:
                raise ResourceLocked(f"{used}; stop the query first, or use force, which ends it")
            counted, moves = moves, _moves(cursor, request)
            for move, before in zip(moves, counted, strict=True):
                if move.start == before.start and move.target == before.target:
                    move.messages, move.bytes, move.leaving = before.messages, before.bytes, before.leaving
                else:
                    move.leaving = None
            apply_moves(cursor, moves, self._broker.now)
            self._table.persist(cursor)
            self._table.answer_waiting(cursor)
        return {
            "cursor": cursor.name,
            "dry_run": dry_run,
            "queues": [_move_view(move) for move in moves],
            "sentences": [_sentence(move, dry_run) for move in moves],
        }

    def progress(self, request: ControlRequest) -> Row:
        """Answer {query, batch, rows, batch_ms}: the cursors of a query, empty for a query that does not read here.

        Raises PreconditionFailed (406) for an invalid id.
        """
        query = request.text("query")
        if not 0 < len(query) <= QUERY_LETTERS:
            raise PreconditionFailed(f"'query' must have 1 to {QUERY_LETTERS} characters, not {len(query):,}")
        counts = {name: request.amount(name, 0) for name in COUNTS if request.fields.get(name) is not None}
        room = self._broker.pinned_rooms.of(QueryId(request.access.user, query))
        cursors = [] if room is None else [each for each in room.cursors if _is_readable(request, each)]
        views = [cursor_row(cursor, self._node) for cursor in cursors[:CURSORS_SHOWN]]
        for cursor, row in zip(cursors, views, strict=False):
            self._node.record_query(query, cursor, {**_record(cursor, row), **counts})
        return {"query": query, "cursors": views, "more_cursors": len(cursors) - len(views)}


def _part(request: ControlRequest, holder: bool) -> str:
    """Return the part of an attach.

    Raises PreconditionFailed (406) for an unknown part, and for a later part without a holder.
    """
    part = WHOLE if request.fields.get("part") is None else request.text("part")
    if part not in (WHOLE, FIRST_PART, NEXT_PART, LAST_PART):
        raise PreconditionFailed(f"'part' must be first, next or last, not '{part}'")
    if part in (NEXT_PART, LAST_PART) and not holder and not request.flag("dry_run"):
        raise PreconditionFailed(f"the {part} part of an attach needs 'holder' and the token of the first part")
    return part


def _positions(
    cursor: Cursor, queues: list[Queue], initial: dict[str, int], part: str, dry_run: bool
) -> dict[str, object]:
    """Return the rows of an attach for the queues that it joins and leaves; `initial` has the queues new to the
    cursor."""
    gone = set(cursor.gone(queues, initial))
    known = {queue.name: cursor.positions[queue.name] for queue in queues if queue.name not in initial}
    left: list[Position] = []
    if part in (WHOLE, LAST_PART):
        named = {queue.name for queue in queues}
        for name, each in cursor.positions.items():
            if (each.left or dry_run) and name not in named and name not in gone:
                left.append(each)
    generations = {name: position.generation for name, position in known.items()}
    generations |= dict.fromkeys(initial, cursor.lost + len(gone))
    return {
        "initial": {name: int(position.initial) for name, position in known.items()} | initial,
        "settled": {name: int(position.settled) for name, position in known.items()} | initial,
        "tail": {queue.name: int(visible_tail(queue)) for queue in queues},
        "generation": {name: generation for name, generation in generations.items() if generation},
        "limits": {queue.name: _limits(queue) for queue in queues},
        "left": {position.queue.name: [int(position.settled), int(visible_tail(position.queue))] for position in left},
        "positions": sum(not position.queue.deleted for position in cursor.positions.values()),
        "most": POSITIONS_MAX,
    }


def _planned(cursor: Cursor, queues: list[Queue]) -> dict[str, object]:
    """Return the rows of an attach for a reader that asks how far an earlier one has planned, and for the id."""
    return {"planned": {queue.name: int(cursor.positions[queue.name].planned) for queue in queues}, "id": cursor.id}


def _limits(queue: Queue) -> dict[str, object]:
    """Return the capacity of a queue, and its hold deadline in seconds; None is no limit. A queue that retains what it
    settles has the name of its companion.

    The number of messages that a paging queue has in memory blocks no producer.
    """
    hold_s = queue.settings.hold_deadline_s
    limits: dict[str, object] = {**queue.thresholds.capacity.as_dict(), "hold_s": None if hold_s == NEVER else hold_s}
    if queue.overflow.pages:
        limits["messages"] = None
    retention = retention_of(queue)
    if retention is not None:
        limits["retained"] = retention.stream.name
    return limits


def _moves(cursor: Cursor, request: ControlRequest) -> list[Move]:
    to = request.fields.get("to")
    if isinstance(to, str):
        names = list(cursor.positions) if request.fields.get("queues") is None else request.names("queues")
        return [check_move(cursor, name, to) for name in names]
    targets = request.offsets("to")
    if not targets:
        raise PreconditionFailed(
            f"cursor '{cursor.name}' needs a place to move to: 'to' must be \"earliest\", \"latest\" or an object of "
            "queue names and sequences"
        )
    return [check_move(cursor, name, target) for name, target in targets.items()]


def _move_view(move: Move) -> Row:
    return {
        "queue": move.position.queue.name,
        "from": int(move.start),
        "to": int(move.target),
        "messages": move.messages,
        "bytes": move.bytes,
        "leaving": move.leaving,
    }


def _sentence(move: Move, dry_run: bool) -> str:
    """Describe a move as a sentence."""
    way = f"queue {move.position.queue.name}: from {move.start} to {move.target}"
    if move.start == move.target:
        return f"{way}: nothing changes"
    size = "" if move.bytes is None else f" ({move.bytes:,} bytes)"
    count = "its messages" if move.messages is None else f"{move.messages:,} messages{size}"
    would = "would be" if dry_run else "are"
    if move.target < move.start:
        return f"{way}: {count} {would} there to read again, by a reader with a new checkpoint"
    if move.leaving is None:
        return f"{way}: {count} {would} passed over"
    leave = "would leave" if dry_run else "leave"
    return f"{way}: {count} {would} passed over, and {move.leaving:,} of them {leave} the queue"


def _is_readable(request: ControlRequest, cursor: CursorState) -> bool:
    """Return whether the requester may read all queues of a cursor of its virtual host."""
    return cursor.vhost == request.vhost.name and all(request.access.may(READ, name) for name in cursor.positions)


def _record(cursor: CursorState, row: Row) -> Row:
    """Return the fields of a record: the sums of a cursor, and its queue with the largest lag."""
    record: Row = {"vhost": cursor.vhost, "consumer": f"cursor({cursor.name})"}
    lag, queues = row["lag"], row["queues"]
    if isinstance(lag, dict):
        record.update({"lag_messages": lag["messages"], "lag_bytes": lag["bytes"]})
        if lag["oldest_s"] is not None:
            record["oldest_s"] = round(lag["oldest_s"], 3)
    most = -1
    closed_s = 0.0
    assert isinstance(queues, list)
    for each in queues:
        closed_s += each["closed_s"]
        behind = 0 if each["lag"] is None else each["lag"]["messages"]
        if behind > most:
            most = behind
            record["queue"] = each["queue"]
    record["blocked"] = row["blocks"]
    record["closed_s"] = round(closed_s, 3)
    return record
