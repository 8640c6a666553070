"""A queue of a broker without a clock, with messages in it."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from tests.support.topology import declare


def queue_with(count: int, charge: int = 10, arguments: dict[str, object] | None = None) -> tuple[Broker, Queue]:
    """Return a broker, and its queue q with so many messages."""
    broker = Broker(Defaults())
    queue = declare(broker.add_vhost("/"), "q", arguments)
    for _ in range(count):
        queue.enqueue(Envelope("", "q"), b"", charge, 0.0)
    return broker, queue
