"""Audit of the methods that change the topology: exchange.* and queue.*, where they changed anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.queue.queue import Queue
from penstock.protocols.common.audit_trail import actor_of
from penstock.wire.amqp091 import spec

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel
    from penstock.wire.amqp091.codec import Method

AUDITED: Final = frozenset(
    (
        spec.EXCHANGE_DECLARE,
        spec.EXCHANGE_DELETE,
        spec.EXCHANGE_BIND,
        spec.EXCHANGE_UNBIND,
        spec.QUEUE_DECLARE,
        spec.QUEUE_BIND,
        spec.QUEUE_UNBIND,
        spec.QUEUE_PURGE,
        spec.QUEUE_DELETE,
    )
)
SHOWN: Final = ("source", "exchange", "destination", "routing_key", "type", "durable", "exclusive", "auto_delete",
                "internal", "arguments")  # fmt: skip
"""Arguments that a record has, if they are not false or empty."""


class MethodAudit:
    """State before a method that may change the topology."""

    def __init__(self, channel: Channel, method: Method) -> None:
        self._channel = channel
        self._method = method
        self._epoch = channel.vhost.epoch
        is_new = method.id == spec.QUEUE_DECLARE and not method.args["queue"]
        self._queue = None if is_new or "queue" not in method.args else channel.vhost.queues.get(self._queue_name())

    def finish(self) -> None:
        """Record the method, if it has changed anything."""
        channel, method = self._channel, self._method
        if channel.vhost.epoch == self._epoch and method.id != spec.QUEUE_PURGE:
            return
        audit, actor = channel.connection.services.audit, actor_of(channel.connection)
        name = self._queue_name() if "queue" in method.args else ""
        subject = name or str(method.args.get("exchange") or method.args.get("destination") or "")
        queue = self._queue or channel.vhost.queues.get(name)
        if queue is not None and _is_temporary(queue):
            audit.passing(actor, method.name, subject)
            return
        before = None if self._queue is None or method.id != spec.QUEUE_DELETE else _shown_queue(self._queue)
        after = {name: method.args[name] for name in SHOWN if method.args.get(name)}
        audit.change(actor, method.name, subject, before, after or None)

    def _queue_name(self) -> str:
        return str(self._method.args.get("queue") or self._channel.last_queue)


def _is_temporary(queue: Queue) -> bool:
    """Return whether a queue ends with its clients."""
    return queue.owner is not None or queue.auto_delete


def _shown_queue(queue: Queue) -> dict[str, object]:
    return {"durable": queue.durable, "arguments": queue.arguments}
