"""Addresses of queues and exchanges in AMQP 1.0, as RabbitMQ 4 has them: percent-encoded."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

QUEUES: Final = "/queues/"
EXCHANGES: Final = "/exchanges/"
"""Beginnings of the addresses of queues and exchanges."""


def queue_address(queue: str) -> str:
    """Return the address of a queue, such as that of a dynamic node."""
    return QUEUES + quote(queue, safe="", errors="replace")


def exchange_address(exchange: str, key: str | None = None) -> str:
    """Return the address of an exchange; without a key, the subject is the key."""
    address = EXCHANGES + quote(exchange, safe="", errors="replace")
    return address if key is None else f"{address}/{quote(key, safe='', errors='replace')}"


def to_reply_address(reply_to: str) -> str:
    """Return the address of a neutral reply-to, which names a queue; what is an address already stays."""
    if reply_to.startswith((QUEUES, EXCHANGES)):
        return reply_to
    return queue_address(reply_to)
