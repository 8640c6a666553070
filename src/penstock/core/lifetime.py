"""What expires in a queue, and when: its messages (message TTL) and itself (expires, for lack of use)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.queue import Queue
from penstock.flow.deadlines import NEVER, Party

if TYPE_CHECKING:
    from penstock.core.broker import Broker

EXPIRED_AT_ONCE: Final = 500
"""Messages of a queue that expire in one turn of the broker at most; the others follow in the next, so nobody waits."""


class Lifetime(Party):
    """A queue's entry in the broker's one timer; only queues with such settings have one."""

    def __init__(self, broker: Broker, queue: Queue) -> None:
        super().__init__()
        self.broker = broker
        self.queue = queue
        self.used: float = broker.now
        """When the queue was last used."""

    def next_look(self) -> float:
        """Return when something expires: a message, or the queue; infinity for nothing.

        Messages may come back to a queue that is deleted; nobody looks at it any more.
        """
        if self.queue.deleted:
            return NEVER
        settings = self.queue.settings
        when = NEVER if self.queue.cursors else self.queue.backlog.due(settings.message_ttl_s)
        if settings.expires_s != NEVER and self._unused():
            when = min(when, self.used + settings.expires_s)
        return when

    def on_deadline(self, now: float) -> float:
        """See `Party.on_deadline`."""
        if self.queue.deleted:
            return NEVER
        self.queue.expire(now, self.broker.offered, EXPIRED_AT_ONCE)
        if self._unused() and self.used + self.queue.settings.expires_s <= now:
            self.broker.delete_queue(self.queue)
            return NEVER
        self.broker.mark(self.queue)
        return self.next_look()

    def _unused(self) -> bool:
        return not self.queue.consumers and not self.queue.cursors
