"""Addresses of queues and exchanges in AMQP 1.0, and the neutral reply-to that they stand for, as in RabbitMQ 4."""

from __future__ import annotations

from typing import Final

from penstock.content.properties import is_name

QUEUES: Final = "/queues/"
EXCHANGES: Final = "/exchanges/"
"""Beginnings of the addresses of queues and exchanges."""


_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
"""Bytes that are not escaped (RFC 3986, section 2.3)."""
HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


def quoted(name: str) -> str:
    """Return a name percent-encoded; parts that are not UTF-8 are replaced. Importing urllib for this takes 3 ms."""
    octets = name.encode(errors="replace")
    if not octets.rstrip(_UNRESERVED):
        return name
    return "".join(chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in octets)


def queue_address(queue: str) -> str:
    """Return the address of a queue, such as a dynamic node."""
    return QUEUES + quoted(queue)


def exchange_address(exchange: str, key: str | None = None) -> str:
    """Return the address of an exchange; without a key, the subject is the key."""
    address = EXCHANGES + quoted(exchange)
    return address if key is None else f"{address}/{quoted(key)}"


def to_reply_address(reply_to: str) -> str:
    """Return the address of a neutral reply-to, which names a queue; an address is unchanged."""
    if reply_to.startswith((QUEUES, EXCHANGES)):
        return reply_to
    return queue_address(reply_to)


def reply_queue(reply_to: str) -> str:
    """Return the neutral reply-to of an address: the named queue, otherwise the address itself."""
    name = reply_to.removeprefix(QUEUES)
    if name == reply_to or not name or "/" in name:
        return reply_to
    try:
        queue = percent_decoded(name)
    except ValueError:
        return reply_to
    return queue if is_name(queue) else reply_to


def percent_decoded(part: str) -> str:
    """Return a percent-decoded name. Raises ValueError with the second half of a sentence."""
    if "%" not in part:
        return part
    for escaped in part.split("%")[1:]:
        if len(escaped) < 2 or not HEX_DIGITS.issuperset(escaped[:2]):
            raise ValueError("a '%' that two hexadecimal digits do not follow")
    from urllib.parse import unquote_to_bytes  # Few names have a '%'.

    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8") from None
