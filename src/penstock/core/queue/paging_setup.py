"""Setup of paging: checks whether a queue may page, attaches its pager, and applies changed settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.queue.pager import QueuePager
from penstock.core.queue.storage import QueueStorage
from penstock.errors import PreconditionFailed

if TYPE_CHECKING:
    from penstock.core.journal.journal import Journal
    from penstock.core.queue.context import QueueContext
    from penstock.core.queue.queue import Queue
    from penstock.core.queue.queue_settings import Settings
    from penstock.flow.gate import Gate
    from penstock.settings.features import Features


def check(queue: str, settings: Settings, features: Features, journal: Journal | None) -> None:
    """Raise PreconditionFailed (406) for a paging queue that cannot page."""
    if not settings.overflow.pages:
        return
    if journal is None:
        raise without_disk(queue)
    if features.max_priority:
        raise PreconditionFailed(
            f"queue '{queue}': the overflow policy page reads messages back in the order they came, and "
            f"x-max-priority={features.max_priority} asks for another; leave one of them out"
        )


def without_disk(queue: str) -> PreconditionFailed:
    """Return the error for the policy `page` on a broker without a store."""
    return PreconditionFailed(
        f"queue '{queue}': the overflow policy page needs a data directory, and this broker keeps everything in "
        "memory; start it with --data"
    )


def enable_paging(broker: QueueContext, queue: Queue) -> None:
    """Attach a pager to a queue."""
    journal = broker.journal
    if queue.pager is not None or journal is None:
        return
    storage = queue.storage
    if storage is None:
        storage = QueueStorage(journal, queue, journal.take_number())
        storage.durable = False
    queue.enable_paging(QueuePager(broker, queue, journal, storage))


def apply_queue_settings(broker: QueueContext, queue: Queue, settings: Settings) -> list[Gate]:
    """Apply changed settings to a queue; returns the gates that left its road, for their waiters."""
    if settings.overflow.pages:
        enable_paging(broker, queue)
    before = queue.gates
    queue.apply_settings(settings, broker.now)
    if queue.cursors:
        broker.schedule_delivery(queue)  # The limit of their lag may have changed.
    return [gate for gate in before if gate not in queue.gates]
