"""Operations of the operator on cursors: `cursor.show` and `cursor.move`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.access.tags import MONITORING
from penstock.core.queue.cursor import Cursor
from penstock.core.queue.cursor_move import Move, apply_moves, check_move, count_steps
from penstock.describe.cursor import blocked_rows, cursor_row, in_use
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed, ResourceLocked
from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest
from penstock.management.redaction import redact
from penstock.protocols.common.authorization import check_read_cursor

if TYPE_CHECKING:
    from penstock.management.node import Node


def show(node: Node, request: ControlRequest) -> Row:
    """Answer {cursor}: a cursor as in lists; with the tag monitoring also the producers that wait because of it."""
    cursor = node.control.cursors.cursor(request.vhost, request.text("cursor"))
    check_read_cursor(request.access, cursor)
    return redact(cursor_details(cursor, node, request.access.rules.has_tag(MONITORING)), node, request.access)


def cursor_details(cursor: Cursor, node: Node, named: bool) -> Row:
    """Return a cursor as in lists; with `named` also the producers that wait because of it."""
    found = cursor_row(cursor, node)
    if named:
        found["blocked_producers"] = blocked_rows(cursor, node.broker.now)
    return found


def move_steps(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer {cursor, to, queues, dry_run, force}: move a cursor, or with `dry_run` tell what a move would do.

    `to` is "earliest", "latest", or an object of queue names and sequences. The first two are for `queues`, or all
    queues of the cursor. Raises ResourceLocked (405) while a reader uses the cursor, unless `force`; NotFound (404),
    PreconditionFailed (406) as `check_move`. A refused move changes nothing.
    """
    broker, vhost = node.broker, request.vhost
    cursor = node.control.cursors.cursor(vhost, request.text("cursor"))
    check_read_cursor(request.access, cursor)
    moves = _moves(cursor, request)
    for move in moves:
        yield from count_steps(cursor, move, broker.work)
    dry_run = request.flag("dry_run")
    if not dry_run:
        cursor = node.control.cursors.cursor(vhost, cursor.name)  # It may have changed between the steps.
        if not request.flag("force"):
            _check_unused(cursor, node)
        counted, moves = moves, _moves(cursor, request)
        for move, before in zip(moves, counted, strict=True):
            if move.start == before.start and move.target == before.target:
                move.messages, move.bytes, move.leaving = before.messages, before.bytes, before.leaving
            else:
                move.leaving = None
        apply_moves(cursor, moves, broker.now)
        node.control.cursors.on_moved(cursor)
    return {
        "cursor": cursor.name,
        "dry_run": dry_run,
        "queues": [_move_view(move) for move in moves],
        "sentences": [_sentence(move, dry_run) for move in moves],
    }


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


def _check_unused(cursor: Cursor, node: Node) -> None:
    """Raise ResourceLocked (405) while a reader uses a cursor."""
    used = in_use(cursor, node)
    if used:
        raise ResourceLocked(f"{used}; stop the query first, or use force, which ends it")


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
    """Describe a move for people."""
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
