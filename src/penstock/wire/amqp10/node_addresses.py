"""Addresses of queues and exchanges in AMQP 1.0, as RabbitMQ 4 has them: percent-encoded."""

from __future__ import annotations

from typing import Final

QUEUES: Final = "/queues/"
EXCHANGES: Final = "/exchanges/"
"""Beginnings of the addresses of queues and exchanges."""


_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
"""Octets that are not escaped (RFC 3986, section 2.3)."""


def quoted(name: str) -> str:
    """Return a name percent-encoded; what is not UTF-8 in it is replaced. Importing urllib for it takes 3 ms."""
    octets = name.encode(errors="replace")
    if not octets.rstrip(_UNRESERVED):
        return name
    return "".join(chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in octets)


def queue_address(queue: str) -> str:
    """Return the address of a queue, such as that of a dynamic node."""
    return QUEUES + quoted(queue)


def exchange_address(exchange: str, key: str | None = None) -> str:
    """Return the address of an exchange; without a key, the subject is the key."""
    address = EXCHANGES + quoted(exchange)
    return address if key is None else f"{address}/{quoted(key)}"


def to_reply_address(reply_to: str) -> str:
    """Return the address of a neutral reply-to, which names a queue; what is an address already stays."""
    if reply_to.startswith((QUEUES, EXCHANGES)):
        return reply_to
    return queue_address(reply_to)
