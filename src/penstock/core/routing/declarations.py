"""Declarations: equivalence with existing objects (RabbitMQ's rules and error texts), and records in the journal."""

from __future__ import annotations

from typing import Final

from penstock.core.journal.journal import Journal
from penstock.core.queue.queue import Queue
from penstock.core.queue.retention import LIMITS, RETAINED_FROM
from penstock.core.queue.storage import QueueStorage
from penstock.core.queue.types import CLASSIC, QUEUE_TYPE, find_type
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.routing.header_match import alike, type_name
from penstock.errors import PreconditionFailed
from penstock.settings.table import ALIASES, OURS
from penstock.texts import worded

RABBITMQS: Final = frozenset(
    {
        "x-delivery-limit",
        "x-max-priority",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
    }
)
"""Arguments that RabbitMQ compares and that are not settings here; unknown arguments are not compared."""


def check_queue(queue: Queue, arguments: dict[str, object], durable: bool, auto_delete: bool) -> None:
    """Raise PreconditionFailed (406) that names the first difference, with both values."""
    subject = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    _check(subject, "durable", durable, queue.durable)
    _check(subject, "auto_delete", auto_delete, queue.auto_delete)
    given = arguments.get(QUEUE_TYPE, CLASSIC.name)
    received = find_type(given)
    _check(subject, QUEUE_TYPE, given if received is None else received.name, queue.features.type.name)
    for name in sorted({**arguments, **queue.arguments}):
        if name in LIMITS and RETAINED_FROM in queue.arguments:
            continue  # They follow the settings of another queue.
        if name in RABBITMQS or name in OURS or name in ALIASES:
            _check_argument(subject, name, arguments, queue.arguments)


def check_exchange(
    exchange: Exchange,
    vhost: str,
    kind: str,
    arguments: dict[str, object],
    durable: bool,
    auto_delete: bool,
    internal: bool,
) -> None:
    """Raise PreconditionFailed (406) as for queues. Arguments are compared as `Exchange.compared` says."""
    subject = f"exchange '{exchange.name}' in vhost '{vhost}'"
    _check(subject, "type", kind, exchange.kind)
    _check(subject, "durable", durable, exchange.durable)
    _check(subject, "auto_delete", auto_delete, exchange.auto_delete)
    _check(subject, "internal", internal, exchange.internal)
    for name in exchange.compared():
        _check_argument(subject, name, arguments, exchange.arguments)


def _check(subject: str, what: str, received: object, current: object) -> None:
    if alike(received) != alike(current):
        raise _differs(subject, what, f"received '{worded(received, False)}' but current is '{worded(current, False)}'")


def _check_argument(subject: str, name: str, received: dict[str, object], current: dict[str, object]) -> None:
    if name in received and name in current:
        _check(subject, name, received[name], current[name])
    elif name in received or name in current:
        raise _differs(subject, name, f"received {_given(name, received)} but current is {_given(name, current)}")


def _differs(subject: str, name: str, how: str) -> PreconditionFailed:
    return PreconditionFailed(f"inequivalent arg '{name}' for {subject}: {how}")


def _given(name: str, arguments: dict[str, object]) -> str:
    if name not in arguments:
        return "none"
    return f"the value '{worded(arguments[name], False)}' of type '{type_name(arguments[name])}'"


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
    """Record a created object in the journal, if the object is durable; a queue gets its number."""
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
    """Return the number of a queue in the store; 0 if the queue is not durable."""
    return 0 if queue.storage is None else int(queue.storage.number)
