"""Addresses of queues, and what else is RabbitMQ's own: it does not have a queue under its bare name."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from penstock.wire.amqp10.values import Symbol

_RABBITMQ: Final = "RabbitMQ"
_QUEUE_3: Final = "/amq/queue/"
"""Beginning of a queue's address until RabbitMQ 3.13, whose plugin would declare a queue of its own for a bare name."""
_QUEUE_4: Final = "/queues/"


def address_of(queue: str, properties: Mapping[object, object]) -> str:
    """Return the address of a queue at the broker that announced these properties; a path is an address already."""
    if queue.startswith("/") or properties.get(Symbol("product")) != _RABBITMQ:
        return queue
    return (_QUEUE_3 if is_rabbitmq_3(properties) else _QUEUE_4) + quote(queue, safe="")


def is_rabbitmq_3(properties: Mapping[object, object]) -> bool:
    """Tell whether a broker is RabbitMQ until 3.13, whose AMQP 1.0 is that of a plugin."""
    major = str(properties.get(Symbol("version"))).partition(".")[0]
    return properties.get(Symbol("product")) == _RABBITMQ and major in ("2", "3")
