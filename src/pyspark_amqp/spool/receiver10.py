"""Receiver by AMQP 1.0: one session, and a link for each queue.

A spool acknowledges as on a channel of AMQP 0-9-1: all up to a tag. The prefetch is the most of credit and unsettled
deliveries of a link, so that the brakes of the spool are the same. Whether a query that ends has read everything is
asked by a drain.
"""

import logging

from typing_extensions import override

from penstock.client import Delivery
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.values import Symbol
from pyspark_amqp.amqp10.addresses import address_of, is_rabbitmq_3
from pyspark_amqp.amqp10.connection import Connection
from pyspark_amqp.amqp10.errors import Unreceivable
from pyspark_amqp.amqp10.messages import delivery_of
from pyspark_amqp.spool.receiver import Receiver
from pyspark_amqp.spool.settings import Settings
from pyspark_amqp.spool.streams import STREAM_OFFSET, refusal

logger = logging.getLogger(__name__)


class Receiver10(Receiver):
    """Session with its links; see `Receiver`."""

    def __init__(self, settings: Settings, server: tuple[str, int]) -> None:
        self._settings = settings
        certificate = settings.tls is not None and settings.tls.certificate is not None
        self._connection = Connection(settings.parameters(server), certificate)
        self._session = self._connection.session

    @property
    @override
    def broker(self) -> str | None:
        name = self._connection.properties.get(Symbol("cluster_name"))
        return name if isinstance(name, str) else None

    @override
    def open(self) -> None:
        if is_rabbitmq_3(self._connection.properties):
            logger.warning(
                "RabbitMQ before 4.0 sends no headers, no type and no app_id by AMQP 1.0, and its timestamps in seconds"
                " where milliseconds are due: protocol=amqp091 has all properties of %s",
                ", ".join(self._settings.queues),
            )
        for queue in self._settings.queues:
            self._session.attach(queue, self._settings.prefetch, address_of(queue, self._connection.properties))

    @override
    def backlog(self) -> int | None:
        return self._session.ask_available()

    @override
    def is_empty(self) -> bool:
        return not self._session.incoming and self._session.drain()

    @override
    def consume(self) -> None:
        self._want(True)

    @override
    def pause(self) -> None:
        self._want(False)

    def _want(self, consuming: bool) -> None:
        if consuming != self.consuming:
            self.consuming = consuming
            for link in self._session.links:
                link.wanted = link.prefetch if consuming else 0
            self._session.top_up()

    @override
    def read(self) -> bool:
        return bool(self._session.incoming) or self._connection.read(0)

    @override
    def take(self) -> tuple[str, Delivery] | None:
        if not self._session.incoming:
            return None
        came = self._session.incoming.popleft()
        queue = came.link.queue
        try:
            delivery = delivery_of(came.message, queue, came.tag)
        except CodecError as error:
            raise Unreceivable(f"a message in {queue} is malformed: {error.reason}; take it out of its queue") from None
        if STREAM_OFFSET in (delivery.properties.headers or ()):
            raise Unreceivable(f"{refusal(queue)}; a queue with messages of a stream is read by protocol = amqp091")
        return queue, delivery

    @override
    def check(self) -> None:
        self._session.check()

    @override
    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        if multiple:
            self._session.settle(tag)
        else:
            self._session.settle_one(tag, accepted=True)
        # At once: the stored position says that it was sent, and a kill before it is sent makes messages come twice.
        self._connection.flush()

    @override
    def release(self, tag: int) -> None:
        self._session.settle_one(tag, accepted=False)

    @override
    def fileno(self) -> int:
        return self._connection.fileno()

    @override
    def beat(self) -> float:
        self._session.top_up()
        due = self._connection.beat()
        return 0.0 if self._session.incoming else due  # Sending reads, and messages may have come.

    @override
    def close(self) -> None:
        self._connection.close()
