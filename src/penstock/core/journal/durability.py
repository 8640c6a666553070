"""What of that which is declared outlives the broker, and that the journal is told of it.

Durable exchanges, but for those that are always there; durable queues that belong to no connection; and bindings whose
both ends are there again after a restart, which is RabbitMQ's rule (rabbit_binding: a route is durable where source and
destination are).
"""

from __future__ import annotations

from typing import Final

from penstock.core.journal.group import QueueStorage
from penstock.core.journal.journal import Journal
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding
from penstock.core.routing.exchange import Exchange

NUMBERS_AT_ONCE: Final = 1000
"""Numbers of queues that are set aside at once: not every declaration has to say which one is next."""


def is_durable(thing: Queue | Exchange | Binding) -> bool:
    """Tell whether something is kept, where the broker keeps anything."""
    if isinstance(thing, Queue):
        return thing.durable and thing.owner is None
    if isinstance(thing, Exchange):
        return thing.durable and not thing.predeclared
    if not thing.source.durable:
        return False
    if thing.exchange is not None:
        return thing.exchange.durable
    return thing.queue is not None and is_durable(thing.queue)


def persist(journal: Journal | None, thing: Queue | Exchange | Binding) -> None:
    """Have the journal keep what was made, if it lasts; a queue gets its number."""
    if journal is None or not is_durable(thing):
        return
    if isinstance(thing, Queue):
        thing.set_storage(QueueStorage(journal, thing, take_number(journal)))
    journal.change(thing)


def check_writable(journal: Journal | None, durable: bool) -> None:
    """Let somebody make something, durable or not. Raises ResourceError (506) as `Journal.check_writable` does."""
    if journal is not None and durable:
        journal.check_writable()


def take_number(journal: Journal) -> int:
    """Return the number of a new queue."""
    number = int(journal.take_number())
    if number % NUMBERS_AT_ONCE == 1:
        journal.change(journal)
    return number


def unpersist(journal: Journal | None, thing: Queue | Exchange | Binding) -> None:
    """Have the journal forget what is no more, if it was kept."""
    if journal is not None and is_durable(thing):
        journal.forget(thing)


def number_of(queue: Queue) -> int:
    """Return the number of a queue in the store; 0 where it is not kept."""
    return 0 if queue.storage is None else int(queue.storage.number)


def numbers_end(number: int) -> int:
    """Return the first number that is not set aside when this one is the next."""
    return ((number - 1) // NUMBERS_AT_ONCE + 1) * NUMBERS_AT_ONCE + 1
