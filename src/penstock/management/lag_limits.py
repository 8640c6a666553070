"""Limits of the lag of cursors (`cursor-max-lag-...`): a cursor that is too far behind is told of, or detached.

A queue with such a limit and a cursor has a watch, which looks once a second. A cursor beyond the limit is logged, once
for as long as it lasts. With the policy `detach` it is deleted: what only it had not settled leaves the queue, so that
producers go on. Its query ends with a sentence that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.core.queue.cursor import Cursor, may_come_back
from penstock.core.queue.cursor_lag import Lag, lag_of
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER, TimerHandler
from penstock.management import log_messages

if TYPE_CHECKING:
    from penstock.management.cursor_api import CursorApi

LOOK_S: Final = 1.0
"""Seconds between two looks at a queue."""
DETACHED_MAX: Final = 1_000
"""Most detached cursors whose readers are told why; after that the oldest is forgotten."""


class LagLimits:
    """The watches of queues, and the cursors that were detached."""

    def __init__(self, cursors: CursorApi) -> None:
        self.cursors = cursors
        self._watches: dict[Queue, LagWatch] = {}
        self._detached: dict[tuple[str, str], str] = {}
        """Sentences by virtual host and name."""

    def review(self, queue: Queue) -> None:
        """Watch a queue if it has a limit and a cursor."""
        if queue.settings.limits_lag and queue.cursors and queue not in self._watches:
            watch = LagWatch(self, queue)
            self._watches[queue] = watch
            broker = self.cursors.broker
            broker.timers.add(watch, broker.now + LOOK_S)

    def forget(self, queue: Queue) -> None:
        """Forget a watch that has ended."""
        del self._watches[queue]

    def check(self, vhost: str, name: str) -> None:
        """Raise PreconditionFailed (406) for a cursor that was detached."""
        sentence = self._detached.get((vhost, name))
        if sentence is not None:
            raise PreconditionFailed(sentence)

    def attached(self, vhost: str, name: str) -> None:
        """Forget that a cursor of this name was detached."""
        self._detached.pop((vhost, name), None)

    def tell(self, cursor: Cursor, queue: Queue, clause: str) -> None:
        """Log that a cursor is too far behind."""
        self.cursors.control.node.log(log_messages.cursor_behind(cursor, queue, clause))

    def detach(self, cursor: Cursor, queue: Queue, clause: str) -> None:
        """Delete a cursor, and drop what only it had not settled."""
        if len(self._detached) >= DETACHED_MAX:
            del self._detached[next(iter(self._detached))]
        sentence = (
            f"cursor '{cursor.name}' was detached: in queue '{queue.name}' it was {clause}, with "
            "cursor-max-lag-policy=detach; what only it had not settled was dropped. Attach it again to begin anew"
        )
        self._detached[(cursor.vhost, cursor.name)] = sentence
        vhost = self.cursors.broker.vhosts[cursor.vhost]
        alone = [each.queue for each in cursor.positions.values() if _is_alone(each.queue)]
        self.cursors.detach(cursor, sentence)
        for left in alone:
            if not left.deleted:
                vhost.purge_queue(left, self.cursors.broker.now)
        self.cursors.control.node.log(log_messages.cursor_detached(cursor, queue, clause))


class LagWatch(TimerHandler):
    """The watch of one queue."""

    def __init__(self, limits: LagLimits, queue: Queue) -> None:
        super().__init__()
        self.limits = limits
        self.queue = queue
        self._behind: set[str] = set()
        """Names of the cursors that are too far behind."""

    @override
    def on_deadline(self, now: float) -> float:
        queue = self.queue
        limit = queue.settings
        if not limit.limits_lag or queue.deleted or not queue.cursors:
            self.limits.forget(queue)
            return NEVER
        for cursor in list(queue.cursors):
            if cursor.is_lease:
                continue  # It has a time limit of its own, and its position is no lag.
            clause = self._beyond(cursor, limit, now)
            if not clause:
                self._behind.discard(cursor.name)
            elif limit.cursor_max_lag_policy == "detach":
                self._behind.discard(cursor.name)
                self.limits.detach(cursor, queue, clause)
            elif cursor.name not in self._behind:
                self._behind.add(cursor.name)
                self.limits.tell(cursor, queue, clause)
        return now + LOOK_S

    def _beyond(self, cursor: Cursor, limit: Settings, now: float) -> str:
        """Return how far a cursor is behind, and the limit; empty if it is within."""
        position = cursor.positions[self.queue.name]
        lag = lag_of(position, self.limits.cursors.broker.work)
        if lag is None:
            pages = self.queue.pager
            if pages is None or pages.messages == 0:
                return ""  # It is counted at a later look.
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
    """Return whether a queue has nobody but one cursor."""
    return len(queue.cursors) == 1 and not queue.deleted and not queue.consumers and not may_come_back(queue)
