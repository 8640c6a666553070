"""Streams of RabbitMQ: recognised before they are consumed.

An acknowledgement removes nothing from a stream, and a new consumer begins at its next message: what comes while nobody
consumes would be lost. No method of AMQP 0-9-1 tells the type of a queue. But RabbitMQ refuses a consumer without a
prefetch with the argument ``x-stream-offset`` for all types, each with a reason of its own, and so before it consumes.
"""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import penstock.sync
from penstock.client.errors import ChannelClosed
from pyspark_amqp.spool.errors import SpoolError

_FIRST_VERSION: Final = (3, 10)
"""First version of RabbitMQ in which other queues refuse the argument; before, they would begin to deliver."""
_PRECONDITION_FAILED: Final = 406
STREAM_OFFSET: Final = "x-stream-offset"
"""Argument of a stream's consumer, and header of its messages: by it the first of them tells a stream by AMQP 1.0."""


def refusal(queue: str) -> str:
    """Return the sentence for a queue that is a stream."""
    return (
        f"the queue '{queue}' is a stream of RabbitMQ, from which an acknowledgement removes nothing: "
        "name a classic or a quorum queue, and bind it where the stream is bound"
    )


def refuse_streams(connection: penstock.sync.Connection, queues: Iterable[str]) -> None:
    """Raise SpoolError for a queue that is a stream.

    Raises ChannelClosed for a queue that cannot be consumed for another reason. Other brokers than RabbitMQ, and
    versions of it before 3.10, are not asked.
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
