"""Receiver of a spool: a connection by either protocol, with a receiver of the client for each queue.

The prefetch is the most messages that a queue has sent and that are not settled. Whether an ending query has read all
messages is determined by a drain over AMQP 1.0, and by the number of messages over AMQP 0-9-1.

Streams of RabbitMQ: recognised before they are consumed.

An acknowledgement removes nothing from a stream, and a new consumer begins at its next message: messages that arrive
without a consumer would be lost. No method of AMQP 0-9-1 returns the type of a queue. But RabbitMQ refuses a consumer
without a prefetch and with the argument ``x-stream-offset`` for all types, each with its own reason, and before
consuming begins.
"""

import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final

import penstock.sync
from penstock.client.engine.amqp10.addresses import is_rabbitmq_3
from penstock.client.engine.receiver import Delivery
from penstock.client.errors import ChannelClosed, ClientError, ConnectionClosed, LinkClosed
from penstock.wire.amqp10.values import CodecError
from pyspark_amqp.spool.errors import SpoolError
from pyspark_amqp.spool.settings import AMQP091, AMQP1, Settings

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 2.0
"""Seconds to wait for the number of waiting messages: not every broker of AMQP 1.0 answers."""
_FINAL: Final = frozenset({
    402, 403, 404, 405, "amqp:not-found", "amqp:unauthorized-access", "amqp:not-allowed", "amqp:not-implemented",
    "amqp:invalid-field", "amqp:resource-locked", "amqp:resource-deleted", "amqp:decode-error",
})  # fmt: skip
"""Reply codes of AMQP 0-9-1 and conditions of AMQP 1.0 after which another attempt does not help."""


class Receiver:
    """Connection that receives the messages of queues; every call may raise `ClientError`.

    The constructor connects and logs in. Then `open` once, and `resume`.
    """

    def __init__(self, settings: Settings, server: tuple[str, int]) -> None:
        self._settings = settings
        self._connection = penstock.sync.connect(**settings.connection(server))
        self._receivers: deque[tuple[str, penstock.sync.Receiver]] = deque()
        self.consuming = False
        """True while the broker may send messages."""

    @property
    def broker(self) -> str | None:
        """Name of the broker's cluster; None if unknown."""
        name = self._connection.server_properties.get("cluster_name")
        return name if isinstance(name, str) else None

    def open(self) -> None:
        """Find the queues; `resume` starts the messages. Raises `SpoolError` for a queue that no spool can read."""
        queues, wanted = self._settings.queues, {"prefetch": self._settings.prefetch, "consumerWindowSize": -1}
        if self._settings.protocol == AMQP091:
            refuse_streams(self._connection, queues)
        elif is_rabbitmq_3(self._connection.server_properties):
            logger.warning(
                "RabbitMQ before 4.0 sends no headers, no type and no app_id by AMQP 1.0, and its timestamps in seconds"
                " where milliseconds are due: protocol=amqp091 has all properties of %s",
                ", ".join(queues),
            )
        for queue in queues:
            terms = self._connection.options.receiver_terms(queue, wanted)._replace(paused=True)
            attach = partial(self._connection.core().receiver, terms)
            self._receivers.append((queue, penstock.sync.Receiver(self._connection, queue, attach)))

    def backlog(self) -> int | None:
        """Return the number of waiting messages in the queues; None if the broker does not report it."""
        counts = [receiver.count(ANSWER_SECONDS) for _, receiver in self._receivers]
        if self._settings.protocol == AMQP1:
            return sum(count or 0 for count in counts) or None
        return sum(count or 0 for count in counts)

    def is_empty(self) -> bool:
        """Return whether no message waits in the queues, or here for `take`; call this while consuming."""
        if self._settings.protocol == AMQP091:
            return self.backlog() == 0
        shown = [receiver.drain() for _, receiver in self._receivers]
        for _, receiver in self._receivers:
            receiver.resume()
        return all(shown) and not self._has_come()  # A drain does not cover messages that had come before it.

    def pause(self) -> None:
        """Stop further messages; messages under way still arrive."""
        if self.consuming:
            self.consuming = False
            for _, receiver in self._receivers:
                receiver.drain()

    def resume(self) -> None:
        """Resume messages."""
        self.consuming = True
        for _, receiver in self._receivers:
            receiver.resume()

    def take(self, count: int) -> list[tuple[str, Delivery]]:
        """Return messages that have come, about `count` at most, with the names of their queues, without waiting.

        Raises `LinkClosed` for a queue that sends no more, after its messages were taken.
        """
        came: list[tuple[str, Delivery]] = []
        self._receivers.rotate(1)
        share = count // len(self._receivers) + 1
        try:
            for queue, receiver in self._receivers:
                for _ in range(share):
                    delivery = receiver.receive_nowait()
                    if delivery is None:
                        break
                    _check(queue, delivery)
                    came.append((queue, delivery))
        except ClientError:
            if not came:
                raise
        return came

    def flush(self) -> None:
        """Send acknowledgements now.

        The stored position implies that they were sent; a kill before that makes messages come twice.
        """
        self._connection.poll(0)

    def fileno(self) -> int:
        """Return the socket's descriptor, for a poll; call `take` first."""
        return self._connection.fileno()

    def beat(self) -> float:
        """Send due output, such as a heartbeat; return the seconds until the next call is due."""
        self._connection.poll(0)
        engine = self._connection.core()
        due = engine.next_deadline()
        if self._has_come():
            return 0.0  # Sending reads, and messages may have come.
        return inf if due is None else max(due - engine.now, 0.0)

    def _has_come(self) -> bool:
        return any(receiver.ready for receiver in self._connection.core().receivers)

    def close(self) -> None:
        """Close the connection; unacknowledged messages return to their queues."""
        with suppress(ClientError):  # The broker closed first, or does not answer: the outcome is the same.
            self._connection.close()


def _check(queue: str, delivery: Delivery) -> None:
    """Raise `SpoolError` for a message that no spool can store."""
    try:
        headers = delivery.headers
    except CodecError as error:
        text = f"a message in {queue} is malformed: {error.reason}; take it out of its queue"
        raise SpoolError("message", text) from None
    if STREAM_OFFSET in headers:
        text = f"{refusal(queue)}; a queue with messages of a stream is read by protocol = amqp091"
        raise SpoolError("message", text)


def is_final(error: ClientError) -> bool:
    """Return whether another attempt does not help after the end of a channel, link, session or connection."""
    if not isinstance(error, (ChannelClosed, LinkClosed, ConnectionClosed)):
        return False
    return error.code in _FINAL and "inaccessible" not in error.text


_FIRST_VERSION: Final = (3, 10)
"""First version of RabbitMQ in which other queues refuse the argument; earlier versions would begin to deliver."""
_PRECONDITION_FAILED: Final = 406
STREAM_OFFSET: Final = "x-stream-offset"
"""Argument of a stream's consumer, and header of its messages: over AMQP 1.0 the header of the first message reveals a
stream."""


def refusal(queue: str) -> str:
    """Return the sentence for a queue that is a stream."""
    return (
        f"the queue '{queue}' is a stream of RabbitMQ, from which an acknowledgement removes nothing: "
        "name a classic or a quorum queue, and bind it where the stream is bound"
    )


def refuse_streams(connection: penstock.sync.Connection, queues: Iterable[str]) -> None:
    """Raise SpoolError for a queue that is a stream.

    Raises ChannelClosed for a queue that cannot be consumed for another reason. Brokers other than RabbitMQ, and
    RabbitMQ before 3.10, are not checked.
    """
    if not tells_streams(connection.server_properties):
        return
    for queue in queues:
        terms = connection.options.receiver_terms(queue, {})._replace(prefetch=0, arguments={STREAM_OFFSET: "next"})
        try:
            penstock.sync.Receiver(connection, queue, partial(connection.core().receiver, terms)).close()
        except ChannelClosed as error:
            if error.code != _PRECONDITION_FAILED:
                raise
            if "prefetch" in error.text:
                raise SpoolError("refused", refusal(queue)) from error


def tells_streams(properties: Mapping[str, object]) -> bool:
    """Return whether a broker with these server properties refuses streams and other queues differently."""
    version = re.match(r"(\d+)\.(\d+)", str(properties.get("version")))
    if properties.get("product") != "RabbitMQ" or version is None:
        return False
    return (int(version[1]), int(version[2])) >= _FIRST_VERSION
