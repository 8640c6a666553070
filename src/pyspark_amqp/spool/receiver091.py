"""Receiver by AMQP 0-9-1: one channel, and a consumer for each queue."""

from typing import Final

from typing_extensions import override

from penstock.client import ChannelClosed, Connection, Delivery
from pyspark_amqp.spool.receiver import Receiver
from pyspark_amqp.spool.settings import Settings
from pyspark_amqp.spool.streams import refuse_streams

TAGS_MAX: Final = 16
"""Consumers of each queue on a channel, one after the other, whose tags are known: deliveries may be on their way."""


class Receiver091(Receiver):
    """Channel with its consumers; see `Receiver`."""

    def __init__(self, settings: Settings, server: tuple[str, int]) -> None:
        self._settings = settings
        self._connection = Connection(settings.parameters(server))
        self._queues: dict[str, str] = {}
        """Queues by consumer tag, those of cancelled consumers too."""

    @property
    @override
    def broker(self) -> str | None:
        name = self._connection.server_properties.get("cluster_name")
        return name if isinstance(name, str) else None

    @override
    def open(self) -> None:
        refuse_streams(self._connection, self._settings.queues)
        self._channel = self._connection.channel()
        self._channel.qos(self._settings.prefetch)

    @override
    def backlog(self) -> int:
        return sum(self._channel.queue_declare(queue, passive=True)[1] for queue in self._settings.queues)

    @override
    def is_empty(self) -> bool:
        return not self.backlog() and not self._channel.deliveries

    @override
    def consume(self) -> None:
        while len(self._queues) >= TAGS_MAX * len(self._settings.queues):
            del self._queues[next(iter(self._queues))]
        self._queues |= {self._channel.consume(queue): queue for queue in self._settings.queues}
        self.consuming = True

    @override
    def pause(self) -> None:
        if self.consuming:
            for tag in list(self._queues)[-len(self._settings.queues) :]:
                self._channel.cancel(tag, nowait=True)
            self.consuming = False

    @override
    def read(self) -> bool:
        busy = bool(self._channel.deliveries) or self._connection.read(0)
        self._channel.check()
        return busy

    @override
    def take(self) -> tuple[str, Delivery] | None:
        if not self._channel.deliveries:
            return None
        delivery = self._channel.deliveries.popleft()
        return self._queues[delivery.consumer_tag], delivery

    @override
    def check(self) -> None:
        if self._channel.cancelled:
            raise ChannelClosed(None, "a queue was deleted or has moved, and its consumer is cancelled")

    @override
    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        self._channel.ack(tag, multiple=multiple)

    @override
    def release(self, tag: int) -> None:
        self._channel.nack(tag, requeue=True)

    @override
    def fileno(self) -> int:
        return self._connection.fileno()

    @override
    def beat(self) -> float:
        return self._connection.beat()

    @override
    def close(self) -> None:
        self._connection.close()
