"""Sections of messages of AMQP 1.0."""

from __future__ import annotations

from penstock.wire.amqp10.sections import Sections


def walked(octets: str | bytes) -> Sections:
    """Return the sections of a message, given as octets or in hexadecimal digits."""
    data = bytes.fromhex(octets) if isinstance(octets, str) else octets
    found = Sections()
    found.walk(data, 0, len(data))
    return found
