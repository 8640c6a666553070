"""What expires in a queue, and when: its messages (message TTL) and itself (expires, for lack of use)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.queue import Queue
from penstock.flow.deadlines import NEVER, Party

if TYPE_CHECKING:
    from penstock.core.broker import Broker


class Lifetime(Party):
    """A queue's entry in the broker's one timer; only queues with such settings have one."""

    def __init__(self, broker: Broker, queue: Queue) -> None:
        super().__init__()
        self.broker = broker
        self.queue = queue
        self.used: float = broker.now
        """When the queue was last used."""

    def next_look(self) -> float:
        """Return when something expires: the oldest message, or the queue; infinity for nothing."""
        settings = self.queue.settings
        when = NEVER
        oldest = self.queue.oldest()
        if oldest is not None and settings.message_ttl_s != NEVER and not self.queue.cursors:
            when = oldest.arrived + settings.message_ttl_s
        if settings.expires_s != NEVER and self._unused():
            when = min(when, self.used + settings.expires_s)
        return when

    def on_deadline(self, now: float) -> float:
        """See `Party.on_deadline`."""
        if self.queue.deleted:
            return NEVER
        self.queue.expire(now)
        if self._unused() and self.used + self.queue.settings.expires_s <= now:
            self.broker.delete_queue(self.queue)
            return NEVER
        return self.next_look()

    def _unused(self) -> bool:
        return not self.queue.consumers and not self.queue.cursors
