"""Consumer at a set rate, inside the test broker: it needs no client, and lives by the broker's virtual clock."""

from __future__ import annotations

from collections import deque
from typing import Final

from typing_extensions import override

from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.core.message import Message
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.testing.broker_thread import BrokerThread

BODIES_MOST: Final = 10_000
"""Bodies that are kept; older ones are forgotten."""


class SlowConsumer(Session):
    """A consumer of one queue that acknowledges each message as it gets it, `rate` messages a second."""

    def __init__(self, server: BrokerThread, vhost: str, queue: str, rate: float, tag: str) -> None:
        super().__init__(None, f"{tag} of the test")
        if not rate > 0:
            raise ValueError(f"a consumer of {rate:g} messages a second gets none: give a rate above 0")
        self.bodies: deque[bytes] = deque(maxlen=BODIES_MOST)
        """Bodies of the last messages that it has got, oldest first."""
        self.count = 0
        """Number of messages that it has got."""
        self.rate = rate
        self._server = server
        self._vhost = vhost
        self._queue = queue
        self._tag = tag
        server.call(self._begin)

    def _begin(self) -> None:
        core = self._server.core
        queue = core.vhost(self._vhost).queue(self._queue)
        settings = ConsumerSettings(queue.settings, {})
        settings.max_rate = self.rate
        core.consume(self, Consumer(self._tag, self, queue, False, False, 0), settings)

    @override
    def deliver(self, batch: Batch) -> None:
        formats = self._server.core.formats
        for message in batch.messages:
            if isinstance(message, Message):
                self.count += 1
                self.bodies.append(formats.of(message.content).body(message.content))
        self._server.loop.call_soon(self._acknowledge)

    @override
    def why_not_receiving(self) -> str:
        return "the test has stopped it"

    def _acknowledge(self) -> None:
        self._server.broker.begin()
        if not self.unsettled.is_empty():
            self.unsettled.acknowledge(0, True, self._server.core.now)

    def stop(self) -> None:
        """Consume no more; what it has not acknowledged goes back to the queue."""
        self._server.call(self._end)

    def _end(self) -> None:
        if self.delivering:
            self.delivering = False
            self._server.core.end_session(self)
