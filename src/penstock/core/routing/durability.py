"""Durable declarations, and their records in the journal.

Durable are: exchanges declared durable, except the predeclared ones; durable queues that are not exclusive; and
bindings whose source and destination are both durable. The last is RabbitMQ's rule (rabbit_binding).
"""

from __future__ import annotations

from penstock.core.journal.journal import Journal
from penstock.core.queue.queue import Queue
from penstock.core.queue.storage import QueueStorage
from penstock.core.routing.binding import Binding
from penstock.core.routing.exchange import Exchange


def is_durable(subject: Queue | Exchange | Binding) -> bool:
    """Return whether an object is durable, if the broker has a store."""
    if isinstance(subject, Queue):
        return subject.durable and subject.owner is None
    if isinstance(subject, Exchange):
        return subject.durable and not subject.predeclared
    if not subject.source.durable:
        return False
    if subject.exchange is not None:
        return subject.exchange.durable
    return subject.queue is not None and is_durable(subject.queue)


def persist(journal: Journal | None, subject: Queue | Exchange | Binding) -> None:
    """Record a created object in the journal, if it is durable; a queue gets its number."""
    if journal is None or not is_durable(subject):
        return
    if isinstance(subject, Queue):
        subject.set_storage(QueueStorage(journal, subject, journal.take_number()))
    journal.change(subject)


def check_writable(journal: Journal | None, durable: bool) -> None:
    """Check that an object may be created. Raises ResourceError (506) as `Journal.check_writable` does."""
    if journal is not None and durable:
        journal.check_writable()


def unpersist(journal: Journal | None, subject: Queue | Exchange | Binding) -> None:
    """Record the deletion of a durable object in the journal."""
    if journal is not None and is_durable(subject):
        journal.forget(subject)


def number_of(queue: Queue) -> int:
    """Return the number of a queue in the store; 0 if it is not durable."""
    return 0 if queue.storage is None else int(queue.storage.number)
