"""Table of cursors: their holders, records and deletion, and their limits: lag (`cursor-max-lag-...`), and expiry.

A queue with such a limit and a cursor has a watch, which checks the limits once a second. A cursor beyond the limit is
logged, once until it is within the limit again. With the policy `detach` the cursor is deleted. Messages that only this
cursor had not settled leave the queue, so that producers continue. The cursor's query ends with an error that names the
reason.

A cursor without a reader for `cursor-expires` is deleted too, as by an operator: its messages stay in the queue. A
watch that has only this limit sleeps until the next cursor may expire. A cursor that joins, or loses its reader,
expires after that time.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.connections.authorization import check_read_queue
from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest, Replies
from penstock.connections.log_line import LogLine
from penstock.core.queue.cursor_state import CursorState, Lag, has_lease, lag_of, may_come_back
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.vhost import VirtualHost
from penstock.describe.gate import text_of
from penstock.describe.table import DescribedNode
from penstock.errors import NotFound, PreconditionFailed, ResourceError
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import IdleUnits, PoolHolder, PoolUnit
from penstock.flow.timers import NEVER, TimerHandler
from penstock.ranges.cursors import Cursor, watch_drops
from penstock.ranges.leases import Leases
from penstock.settings.pools import CURSORS, DETACHED

LOOK_S: Final = 1.0
"""Seconds between two checks of a queue."""
LOOK_WORK: Final = 5
LOOK_SHARE: Final = 1000
"""Units of work to check a cursor, and of one step of a check; the next step follows in a later turn."""


class WaitingRequest(TimerHandler):
    """A request that waits for a change of its cursor."""

    def __init__(self, request: ControlRequest) -> None:
        super().__init__()
        self.request = request

    def answer(self) -> None:
        """Answer at once, because another request for its cursor has arrived, or the cursor has changed."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop waiting."""
        raise NotImplementedError


class CursorTable:
    """Cursors by name, for holders and operators."""

    def __init__(self, control: Replies, node: DescribedNode) -> None:
        self.control = control
        self.broker = control.broker
        self.node = node
        self.leases = Leases(control)
        self.limits = CursorLimits(self)
        self.waiting: dict[tuple[str, str], WaitingRequest] = {}
        """Waiting requests, by virtual host and name of the cursor."""
        self._by_reader: dict[int, dict[Cursor, None]] = {}
        """Cursors that a connection reads or has read through, by connection number."""

    def find(self, vhost: VirtualHost, name: str, hint: str = "") -> Cursor:
        """Return a cursor. Raises NotFound (404), with a hint."""
        cursor = vhost.cursors.get(name)
        if cursor is None:
            raise NotFound(f"no cursor '{name}' in vhost '{vhost.name}'{hint}")
        assert isinstance(cursor, Cursor)
        return cursor

    def of_reader(self, request: ControlRequest) -> Cursor:
        """Return the cursor of a reader's request. Raises NotFound (404); PreconditionFailed (406) if detached."""
        name = request.text("cursor")
        if name not in request.vhost.cursors:
            self.limits.check(request.vhost.name, name)
        return self.find(request.vhost, name, "; attach it first")

    def held(self, request: ControlRequest) -> Cursor:
        """Return the cursor that a request holds. Raises NotFound (404), Fenced (409)."""
        cursor = self.of_reader(request)
        cursor.check(request.number("token"), self.broker.now)
        return cursor

    def holder(self, request: ControlRequest) -> Cursor:
        """Return the cursor that a request for a plan or a block still holds, or the cursor of its lease.

        Raises NotFound (404), Fenced (409), and AccessRefused (403) for a queue that the requester may not read.
        """
        if request.fields.get("queue") is not None:
            check_read_queue(request.access, request.text("queue"))
        if request.fields.get("lease") is not None:
            return self.leases.cursor(request)
        return self.held(request)

    def to_attach(self, vhost: VirtualHost, name: str, holder: PoolHolder) -> Cursor:
        """Return a cursor, or a new cursor that is in no list yet. Raises ResourceError (506) at the limit."""
        if name in vhost.cursors:
            return self.find(vhost, name)
        pool = self.broker.pools.of(CURSORS)
        if not pool.fits(holder, 1):
            raise ResourceError(f"{pool.refusal(holder, 1)}. Delete a cursor that is not used")
        if self.broker.journal is not None:
            self.broker.journal.check_writable()
        return Cursor(vhost.name, name, holder)

    def add(self, cursor: Cursor) -> None:
        """Add a new cursor to its virtual host."""
        self.broker.vhosts[cursor.vhost].cursors[cursor.name] = cursor
        self.broker.pools.of(CURSORS).add(cursor.holder, 1)
        cursor.made = self.broker.now
        for position in cursor.positions.values():
            self.limits.review(position.queue)

    def reach_settle(self, cursor: Cursor, ends: dict[str, int]) -> bool:
        """Prepare the counts of a query that pins room; False if this turn's share of work is used up."""
        if cursor.room is None:
            return True
        for name, end in ends.items():
            position = cursor.positions.get(name)
            if position is not None and not cursor.reach(name, position.settled, UNLIMITED, end, self.broker.work):
                return False
        return True

    def settle(self, cursor: Cursor, ends: dict[str, int]) -> dict[str, object]:
        """Settle queues up to these ends. Queues before an invalid end stay settled."""
        settled: dict[str, object] = {}
        try:
            for queue, end in ends.items():
                settled[queue] = int(cursor.settle(queue, end, self.broker.now))
        finally:
            if settled:
                self.persist(cursor)
        return settled

    def persist(self, cursor: Cursor) -> None:
        """Write a cursor's position to the journal.

        Sequence numbers are never reused, not even those of transient messages. So the ends of the cursor's queues
        become as durable as the reply that reports them.
        """
        journal = self.broker.journal
        if journal is None:
            return
        journal.change(cursor)
        for position in cursor.positions.values():
            storage = position.queue.storage
            if storage is not None and not position.queue.deleted:
                journal.mark_progress(storage)
                position.persisted = position.queue.tail
                watch_drops(position, journal)

    def answer_waiting(self, cursor: Cursor) -> None:
        """Answer the request that waits for a cursor at once."""
        waiting = self.waiting.get((cursor.vhost, cursor.name))
        if waiting is not None:
            waiting.answer()

    def drop(self, cursor: Cursor) -> None:
        """Delete a cursor, even if a reader holds it; its queues become ordinary queues again."""
        queues = [position.queue for position in cursor.positions.values()]
        cursor.delete(self.broker.now)
        self.offer(queues)
        self.broker.pinned_rooms.assign(cursor, "")
        self.answer_waiting(cursor)
        self._by_reader.get(cursor.reader, {}).pop(cursor, None)
        del self.broker.vhosts[cursor.vhost].cursors[cursor.name]
        self.broker.pools.of(CURSORS).give(cursor.holder, 1)
        if self.broker.journal is not None:
            self.broker.journal.forget(cursor)

    def set_reader(self, cursor: Cursor, request: ControlRequest) -> None:
        """Record the connection that reads through a cursor now."""
        connection = request.connection
        if connection is not None and connection.number != cursor.reader:
            cursor.reader = connection.number
            cursor.reader_name = connection.name()
            cursor.reader_ended = 0.0
            cursor.identity = "" if request.fields.get("identity") is None else request.text("identity")
            self._by_reader.setdefault(connection.number, {})[cursor] = None

    def end(self, connection: Connection) -> None:
        """End the plans of a closing connection: messages that come later are not acquired for its reader."""
        for cursor in self._by_reader.pop(connection.number, {}):
            if cursor.reader == connection.number:
                cursor.reader_ended = self.broker.now
            waiting = self.waiting.get((cursor.vhost, cursor.name))
            if waiting is not None and waiting.request.connection is connection:
                waiting.stop()

    def offer(self, queues: list[Queue]) -> None:
        """Offer messages that no cursor reads any more to consumers."""
        for queue in queues:
            if not queue.deleted:
                self.broker.schedule_delivery(queue)

    def forget(self, vhost: VirtualHost) -> None:
        """Delete the cursors of a virtual host that is being deleted, and end its leases."""
        for name in list(vhost.cursors):
            self.drop(self.find(vhost, name))
        self.leases.forget(vhost)


class DetachedCursor(PoolUnit):
    """A detached or expired cursor, whose reason is remembered for its reader."""

    def __init__(self, vhost: str, name: str, sentence: str) -> None:
        self.holder = PoolHolder("", vhost)
        self.name = name
        self.sentence = sentence


class CursorLimits:
    """The watches of queues, and the cursors that were detached or have expired."""

    def __init__(self, table: CursorTable) -> None:
        self.table = table
        self._watches: dict[Queue, CursorWatch] = {}
        self._detached: dict[tuple[str, str], DetachedCursor] = {}
        """Detached and expired cursors, by virtual host and name."""
        self._pool = table.broker.pools.of(DETACHED)
        self._idle = IdleUnits(self._pool)

    def review(self, queue: Queue) -> None:
        """Watch a queue if it has a limit and a cursor; a watch of other settings checks earlier."""
        if not queue.settings.watches_cursors or not queue.cursors:
            return
        broker = self.table.broker
        watch = self._watches.get(queue)
        if watch is None:
            watch = CursorWatch(self, queue)
            self._watches[queue] = watch
        elif watch.settings is queue.settings:
            return
        watch.settings = queue.settings
        broker.timers.add(watch, broker.now + LOOK_S)

    def forget(self, queue: Queue) -> None:
        """Drop a watch that has ended."""
        del self._watches[queue]

    def behind(self) -> list[tuple[str, Queue, str]]:
        """Return the cursors that are too far behind: name, queue, and the limit as a clause."""
        found: list[tuple[str, Queue, str]] = []
        for queue, watch in self._watches.items():
            found += [(name, queue, clause) for name, clause in watch.behind.items()]
        return found

    def check(self, vhost: str, name: str) -> None:
        """Raise PreconditionFailed (406) for a cursor that was detached or has expired."""
        reason = self.reason(vhost, name)
        if reason:
            raise PreconditionFailed(f"{reason}. Attach it again to begin anew")

    def reason(self, vhost: str, name: str) -> str:
        """Return why a limit deleted a cursor that does not exist; empty if unknown."""
        detached = self._detached.get((vhost, name))
        return "" if detached is None else detached.sentence

    def attached(self, vhost: str, name: str) -> None:
        """Forget that a cursor of this name was deleted by a limit."""
        detached = self._detached.pop((vhost, name), None)
        if detached is not None:
            self._idle.wake(detached)
            self._pool.give(detached.holder, 1)

    def tell(self, cursor: CursorState, queue: Queue, clause: str) -> None:
        """Log that a cursor is too far behind (PST-1020)."""
        self._log(cursor, queue, "PST-1020", f"Cursor Behind {cursor.name} : {clause}")

    def detach(self, cursor: CursorState, queue: Queue, clause: str) -> None:
        """Delete a cursor, and drop the messages that only this cursor had not settled."""
        sentence = (
            f"cursor '{cursor.name}' was detached: in queue '{queue.name}' it was {clause}, with "
            "cursor-max-lag-policy=detach; what only it had not settled was dropped"
        )
        vhost = self.table.broker.vhosts[cursor.vhost]
        alone = [each.queue for each in cursor.positions.values() if _is_alone(each.queue)]
        for each in alone:
            if has_lease(each):  # Messages that a lease pins stay, for its read alone.
                self.table.find(vhost, cursor.name).settle(each.name, each.tail, self.table.broker.now)
        self._delete(cursor, sentence)
        for left in alone:
            if not left.deleted and not has_lease(left):
                vhost.purge_queue(left, self.table.broker.now)
        self._log(cursor, queue, "PST-1021", f"Cursor Detached {cursor.name} : {clause}")

    def expire(self, cursor: CursorState, queue: Queue, clause: str) -> None:
        """Delete a cursor without a reader; messages that only this cursor had not settled stay in its queues."""
        sentence = (
            f"cursor '{cursor.name}' has expired: {clause}, in queue '{queue.name}'; what only it had not settled "
            "stays in its queues, without a position"
        )
        self._delete(cursor, sentence)
        owner = f" of user {cursor.user}" if cursor.user else ""
        self._log(cursor, queue, "PST-1024", f"Cursor Expired {cursor.name}{owner} : {clause}")

    def _delete(self, cursor: CursorState, sentence: str) -> None:
        """Delete a cursor, and remember the reason for its reader."""
        self.attached(cursor.vhost, cursor.name)
        oldest = self._idle.to_displace(1)
        if isinstance(oldest, DetachedCursor):
            self.attached(oldest.holder.vhost, oldest.name)
        detached = DetachedCursor(cursor.vhost, cursor.name, sentence)
        self._detached[(cursor.vhost, cursor.name)] = detached
        self._pool.add(detached.holder, 1)
        self._idle.rest(detached)
        waiting = self.table.waiting.get((cursor.vhost, cursor.name))
        if waiting is not None:
            self.table.control.fail(waiting.request, PreconditionFailed(f"{sentence}. Attach it again to begin anew"))
            waiting.stop()
        self.table.drop(self.table.find(self.table.broker.vhosts[cursor.vhost], cursor.name))

    def _log(self, cursor: CursorState, queue: Queue, number: str, text: str) -> None:
        of_queue = {"kind": "queue", "gate": queue.name, "vhost": queue.vhost, "queue": queue.name}
        subject = text_of(queue.gate).subject(queue.gate)
        self.table.node.log(LogLine(f"{subject} {number} : {text}", {"id": number, **of_queue, "cursor": cursor.name}))


class CursorWatch(TimerHandler):
    """The watch of one queue."""

    def __init__(self, limits: CursorLimits, queue: Queue) -> None:
        super().__init__()
        self.limits = limits
        self.queue = queue
        self.settings = queue.settings
        """Settings of the queue for which the next check is due."""
        self._next: float = NEVER
        """Time of the next check, as far as this check has come."""
        self.behind: dict[str, str] = {}
        """Cursors that are too far behind, by name, with the limit as a clause."""
        self._left: list[CursorState] = []
        """Cursors that this check has not reached yet."""

    @override
    def on_deadline(self, now: float) -> float:
        queue = self.queue
        limit = queue.settings
        if not limit.watches_cursors or queue.deleted or not queue.cursors:
            self.limits.forget(queue)
            return NEVER
        if not self._left:
            self._left = list(reversed(queue.cursors))
            self._next = now + LOOK_S if limit.limits_lag else NEVER
        work = self.limits.table.broker.work
        cursors = self.limits.table.broker.vhosts[queue.vhost].cursors
        end = work.done + LOOK_SHARE
        while self._left and work.done < end:
            cursor = self._left.pop()
            work.done += LOOK_WORK
            if cursor.lease is not None or cursors.get(cursor.name) is not cursor or queue.name not in cursor.positions:
                continue  # A lease has a time limit of its own, and its position is no lag. Others may have ended.
            if limit.cursor_expires_s != NEVER and self._expires(cursor, limit.cursor_expires_s, now):
                self.behind.pop(cursor.name, None)
                continue
            clause = self._beyond(cursor, limit, now) if limit.limits_lag else ""
            if not clause:
                self.behind.pop(cursor.name, None)
            elif limit.cursor_max_lag_policy == "detach":
                self.behind.pop(cursor.name, None)
                self.limits.detach(cursor, queue, clause)
            else:
                if cursor.name not in self.behind:
                    self.limits.tell(cursor, queue, clause)
                self.behind[cursor.name] = clause
        if self._left:
            return now
        return now + LOOK_S if self._next == NEVER else max(self._next, now + LOOK_S)

    def _expires(self, cursor: CursorState, expires_s: float, now: float) -> bool:
        """Delete a cursor whose time without a reader is over; return whether it was deleted."""
        since = cursor.idle_since()
        when = (now if since == NEVER else since) + expires_s
        if when <= now:
            clause = f"nobody was attached for {now - since:,.0f} s, beyond cursor-expires={expires_s:g}"
            self.limits.expire(cursor, self.queue, clause)
            return True
        self._next = min(self._next, when)
        return False

    def _beyond(self, cursor: CursorState, limit: Settings, now: float) -> str:
        """Return how far a cursor is behind, and the limit; empty if the cursor is within the limit."""
        position = cursor.positions[self.queue.name]
        lag = lag_of(position, self.limits.table.broker.work)
        if lag is None:
            pages = self.queue.pager
            if pages is None or pages.messages == 0:
                return ""  # A later check counts the lag.
            lag = Lag(self.queue.tail - position.settled, 0, NEVER)
        age_s = lag.oldest_s(now) or 0.0
        messages, size, most_s = limit.cursor_max_lag_messages, limit.cursor_max_lag_bytes, limit.cursor_max_lag_age_s
        if lag.messages > messages:
            return f"{int(lag.messages):,} messages behind, beyond cursor-max-lag-messages={int(messages):,}"
        if size != UNLIMITED and lag.bytes > size:
            return f"{int(lag.bytes):,} bytes behind, beyond cursor-max-lag-bytes={int(size):,}"
        if age_s > most_s:
            return f"{age_s:.0f} s behind, beyond cursor-max-lag-age={most_s:g}"
        return ""


def _is_alone(queue: Queue) -> bool:
    """Return whether a queue has one cursor and no other readers except leases."""
    cursors = sum([1 for cursor in queue.cursors if cursor.lease is None])
    return cursors == 1 and not queue.deleted and not queue.consumers and not may_come_back(queue)
