"""Addresses of queues and exchanges: Penstock and RabbitMQ have their own forms, other brokers use the bare name of a
queue.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp10.neutral_addresses import exchange_address, queue_address, quoted

RABBITMQ: Final = "RabbitMQ"
_QUEUE_3: Final = "/amq/queue/"
"""Prefix of a queue's address until RabbitMQ 3.13, whose plugin would declare another queue for a bare name."""
_EXCHANGE_3: Final = "/exchange/"
"""Prefix of an exchange's address there; the routing key follows, or is the subject of each message."""
ARTEMIS: Final = "apache-activemq-artemis"


def address_of(queue: str, server: dict[str, object]) -> str:
    """Return the address of a queue at the broker that announced these properties.

    For brokers other than Penstock a path is an address already.
    """
    product = server.get("product")
    if product == "Penstock":
        return queue_address(queue)
    if product != RABBITMQ or queue.startswith("/"):
        return queue
    return _QUEUE_3 + quoted(queue) if is_rabbitmq_3(server) else queue_address(queue)


def exchange_address_of(exchange: str, key: str | None, server: dict[str, object]) -> str:
    """Return the address of an exchange at a broker; without a key, the subject is the key."""
    if not is_rabbitmq_3(server):
        return exchange_address(exchange, key)
    address = _EXCHANGE_3 + quoted(exchange)
    return address if key is None else f"{address}/{quoted(key)}"


def has_exchanges(server: dict[str, object]) -> bool:
    """Return whether a broker has exchanges. Artemis would make an address of the exchange's name."""
    return server.get("product") != ARTEMIS


ARTEMIS_QUEUE: Final = "::"
"""Part of Artemis' queue names for any routing type; the capability would exclude all types except one."""


def capabilities_of(queue: str) -> list[str]:
    """Return the capabilities of a terminus that is a queue.

    Without the capability `queue` an unknown name becomes an address of topics at Artemis, where messages are confirmed
    and lost. A path is an address of its own kind.
    """
    return [] if ARTEMIS_QUEUE in queue or queue.startswith("/") else ["queue"]


def is_rabbitmq_3(server: dict[str, object]) -> bool:
    """Return whether a broker is RabbitMQ until 3.13, whose AMQP 1.0 is that of a plugin."""
    major = str(server.get("version")).partition(".")[0]
    return server.get("product") == RABBITMQ and major in ("2", "3")
